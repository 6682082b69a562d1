"""Images that are their own sources, for autoencoders."""

from dataclasses import replace

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset
from ganexp.data.derived import Derived


class Itself(Derived):
    """The images of another data set, each of which is its own source, and what G should make of it.

    Args:
        of: The other data set.
    """

    def __init__(self, *, of: Dataset) -> None:
        super().__init__(of)
        self.source_shape = of.shape

    def derive(self, batch: Batch) -> Batch:
        return replace(batch, source=batch.values)
