"""Games of two players and GANs: the verbs of strategies, forward passes, and the Jacobian of both gradients."""

from ganexp.gan.field import Field, Vector, added, dot
from ganexp.gan.game import Game
from ganexp.gan.gan import GAN

__all__ = ["GAN", "Field", "Game", "Vector", "added", "dot"]
