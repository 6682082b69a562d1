"""Errors that are told in one sentence."""


class EvaluationError(ValueError):
    """A set cannot be measured; the message says why, in one sentence without its full stop."""


class KnowsNothing(EvaluationError):
    """A classifier cannot judge samples: it has too few classes or images, or knows no more than chance explains."""
