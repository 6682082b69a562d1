"""Images that are their own sources, for autoencoders."""

from dataclasses import replace

from ganexp.batch import Batch
from ganexp.data.dataset import Dataset
from ganexp.data.derived import Derived, HoldOut
from ganexp.ranges import checked


class Itself(Derived):
    """The images of another data set, each of which is its own source and its own target; `hold_out` is as in `Derived`."""

    @checked
    def __init__(self, *, of: Dataset, hold_out: HoldOut = 0) -> None:
        super().__init__(of, hold_out)
        self.source_shape = of.shape

    def derive(self, batch: Batch) -> Batch:
        return replace(batch, source=batch.values)
