"""Errors that are told in one sentence."""


class EvaluationError(ValueError):
    """A set cannot be measured; the message says why, in one sentence without its full stop."""
