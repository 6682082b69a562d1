"""The GAN, in three files: the game that both networks play, their moves, and the game's Jacobian."""

from ganexp.gan.field import Field, Vector, dot
from ganexp.gan.gan import GAN

__all__ = ["GAN", "Field", "Vector", "dot"]
