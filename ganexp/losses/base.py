"""The contract of a loss."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from ganexp.facts import Facts, Misfit, Part
from ganexp.instruments.scalar import Scalar


class Loss(nn.Module, Part):
    """Two objectives on scores of shape `(B,)`, one score per image. A loss never sees networks or images.

    A loss that `reads` further numbers from D is given `(B, 1 + k)` throughout: each image's score, and k numbers behind it;
    `ganexp.batch.scores_of` and `further_of` separate them. From a D that scores S places of each image a loss is given
    `(B, 1, S)`: it acts on each place as it does on an image, and takes its means over batch and places.

    D minimises `d_loss`, G minimises `g_loss`; means run over the batch, whose size is read from the scores. The state of a
    loss is kept in buffers, on the device, and is checkpointed with the networks.
    """

    accepts: frozenset[Literal["logit", "energy"]] = frozenset({"logit"})
    """The kinds of discriminator output for which the loss has a meaning."""

    reads = ""
    """The name, in D's `further`, of what D has to return after each score; empty for scores alone."""

    remedy: ClassVar[Mapping[str, Any]] = {}
    """Settings of the loss, any one of which makes it read scores alone, for messages."""

    g_needs_real = False
    """Whether `g_loss` compares with the real scores; they have a graph only if it is differentiated through D's weights."""

    uniform_ratio = False
    """Whether ∂L_G/∂f_i ÷ ∂L_D/∂f_i is the same for every fake i, which lets `one_stage` work under batch norm."""

    zero_sum = False
    """Whether `g_loss` is minus the part of `d_loss` that depends on G."""

    low_is_real = False
    """Whether a low score means real, as with energies."""

    pairs = False
    """Whether `g_loss` compares the i-th fake with the i-th real sample, so that a subset of the fakes needs its partners."""

    boundary: float | None = None
    """The score between real and generated samples; None if there is none, as for a critic."""

    fits_sigmoid = False
    """Whether scores in [0, 1] suit the loss, as targets of 0 and 1 do."""

    log_ratio = False
    """Whether the optimal D's score is log p(x)/g(x) up to a constant, with p the density of the data and g that of samples."""

    measures: ClassVar[Mapping[str, Scalar]] = {}
    """The scalars of `measurements` by key, for the report, the dashboard, W&B, the progress bar and `keep_best`."""

    def check(self, run: Facts) -> None:
        """Refuse a discriminator that does not return what the loss reads, or batches that the loss cannot compare."""
        if self.g_needs_real and run.g_batch not in (0, run.batch_size):
            counts = f"a batch has {run.g_batch} fakes for G and {run.batch_size} real samples"
            raise Misfit(f"compares G's fakes with as many real samples, but {counts}", "as many fakes as reals")
        if run.scores and run.scores not in self.accepts:
            kinds = " or ".join(sorted(self.accepts))
            raise Misfit(
                f"needs a discriminator that returns {kinds} scores, and this one returns {run.scores} scores",
                f"{kinds} scores",
            )
        if self.reads and run.maps:
            reason = f"reads the {self.reads} of each sample, and the discriminator scores places of a sample, each alone"
            raise Misfit(reason, discriminator="began" if "energy" in self.accepts else "dcgan")
        if run.further not in (None, self.reads):
            returned = f"returns the {run.further} of each sample" if run.further else "returns scores alone"
            wanted = f"reads the {self.reads} of each sample" if self.reads else "reads scores alone"
            lack = self.reads or f"no {run.further}"
            raise Misfit(f"{wanted}, and the discriminator {returned}", lack, **self.remedy if self.reads else {})

    def d_loss(self, real: Tensor, fake: Tensor) -> Tensor:
        """Return D's objective, a scalar."""
        raise NotImplementedError(f"{type(self).__name__} has no d_loss")

    def g_loss(self, real: Tensor | None, fake: Tensor) -> Tensor:
        """Return G's objective, a scalar; `real` is None unless `g_needs_real`."""
        raise NotImplementedError(f"{type(self).__name__} has no g_loss")

    def observe(self, real: Tensor, fake: Tensor) -> None:
        """Move the loss's own state after an iteration, by the scores of its last D update and its last G update."""

    def measurements(self, real: Tensor, fake: Tensor) -> dict[str, Tensor]:
        """Return the scalars that `measures` declares, from the same two batches of scores."""
        return {}
