"""One process or several: the three places where they communicate. Nothing else in the package knows about it."""

from torch import Tensor

from ganexp.batch import Gradients


class Processes:
    """The interface, and its implementation for a single process, which does nothing.

    Every process draws its share of the global batch, forms the loss of the *global* batch, of which its own share has a
    graph, and sums gradients with the others where an update is applied. That is exact for any loss; the mean of local
    losses is not, if a loss compares scores with one another.
    """

    def gather(self, scores: Tensor) -> Tensor:
        """Return the scores of the global batch, `(B,)`: one's own with their graph, the others' as constants."""
        return scores

    def sum(self, gradients: Gradients) -> Gradients:
        """Return the gradients of the global objective, which are the sum of every process's."""
        return gradients

    def agree(self, asked: bool) -> bool:
        """Return whether any process was asked to stop; all of them get the same answer."""
        return asked
