"""Further terms of G's objective: what a sample should be besides realistic."""

from ganexp.terms.base import Generated, Term
from ganexp.terms.pixels import L1, L2

__all__ = ["L1", "L2", "Generated", "Term"]
