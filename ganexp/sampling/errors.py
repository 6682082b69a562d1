"""What is told in one sentence."""


class SamplingError(ValueError):
    """What is asked of a trained generator cannot be had, said in one sentence that names the remedy."""
