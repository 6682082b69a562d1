"""The error of sampling, told in one sentence."""


class SamplingError(ValueError):
    """A trained generator cannot do what it is asked for; the message is one sentence that names the remedy."""
