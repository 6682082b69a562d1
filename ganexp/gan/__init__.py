"""The GAN, in two files: the game that both networks play, and their moves."""

from ganexp.gan.gan import GAN

__all__ = ["GAN"]
