"""The GAN with its verbs, how batches go through its networks, and its Jacobian."""

from ganexp.gan.field import Field, Vector, added, dot
from ganexp.gan.gan import GAN

__all__ = ["GAN", "Field", "Vector", "added", "dot"]
