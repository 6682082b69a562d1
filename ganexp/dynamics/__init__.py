"""The behaviour of a game at its current point: the spectrum of its Jacobian, and the contraction of update rules there."""

from ganexp.dynamics.contraction import contraction
from ganexp.dynamics.eigenvalues import Spectrum, spectrum
from ganexp.dynamics.game import still
from ganexp.dynamics.path import path_angle

__all__ = ["Spectrum", "contraction", "path_angle", "spectrum", "still"]
