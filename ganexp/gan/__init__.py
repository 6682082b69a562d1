"""Two players and the GAN, with their verbs, how batches go through its networks, and its Jacobian."""

from ganexp.gan.field import Field, Vector, added, dot
from ganexp.gan.game import Game
from ganexp.gan.gan import GAN

__all__ = ["GAN", "Field", "Game", "Vector", "added", "dot"]
