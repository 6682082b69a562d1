"""Detects divergence from rows, which are on the host anyway, so that the device does not wait."""

import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from ganexp.batch import scores_of
from ganexp.documents import write_document
from ganexp.gan import GAN
from ganexp.logging import Picture, Row
from ganexp.logging.layout import RunFolder
from ganexp.training.checkpoint import load
from ganexp.training.run import Run

log = logging.getLogger(__name__)
UNBOUNDED = ("time/", "speed/", "memory/", "progress/", "eval/", "diversity/", "accuracy/", "dynamics/")
"""Prefixes of keys that do not indicate divergence."""
SENSIBLE = 1e8
"""Losses, scores and norms above this count as diverged, like those that are not finite."""
MOST_ROLLBACKS = 5


class Diverged(RuntimeError):
    """A run has diverged; the message is one sentence that says what to try."""


class Guard:
    """Stops a run whose rows are no longer finite or plausible, or rolls it back to the last checkpoint, with other latents.

    A report on the divergence is written to the run folder, if there is one.
    """

    def __init__(self, on_divergence: Literal["stop", "warn", "rollback"] = "stop", folder: str | Path | None = None) -> None:
        self.on_divergence = on_divergence
        self.folder = None if folder is None else RunFolder(Path(folder))
        self.rollbacks = 0

    def passes(self, run: Run, row: Row) -> bool:
        """Return whether a row is finite and plausible; if it is not, roll back, warn, or raise `Diverged`."""
        wrong = divergence_of(row)
        if not wrong:
            return True
        sentence = f"Diverged at iteration {run.iteration}: {wrong}."
        if self.folder:
            write_report(self.folder.divergence, sentence, row, run)
        last = run.checkpoints.last
        if self.on_divergence == "warn":
            log.warning(sentence)
        elif self.on_divergence == "rollback" and last and self.rollbacks < MOST_ROLLBACKS:
            self._roll_back(run, last)
            others = "batches" if run.gan.prior.are_sources else "latents"
            log.warning("%s Back to iteration %d, with other %s.", sentence, run.iteration, others)
        else:
            kept = f"The last good checkpoint is {last}. " if last else ""
            others = "" if self.on_divergence == "rollback" else ", or on_divergence=rollback"
            raise Diverged(f"{sentence} {kept}Try a lower optimizer.lr, or penalty=[gradient_penalty]{others}.")
        return False

    def _roll_back(self, run: Run, last: Path) -> None:
        spent_s, best = run.trained_s, run.checkpoints.state_dict()
        run.load_state_dict(load(last)["run"])
        run.trained_s = spent_s  # what was trained in vain counts too
        run.checkpoints.load_state_dict(best)  # best.pt stays what it is
        self.rollbacks += 1
        run.gan.prior.reseed(self.rollbacks)
        if run.gan.prior.are_sources:  # there are no latents to draw anew, so it is the data that differ
            run.reals.seek(run.reals.batches + self.rollbacks, run.reals.images)

    def state_dict(self) -> dict[str, int]:
        return {"rollbacks": self.rollbacks}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resume from a checkpoint's state; the count of rollbacks is never lowered."""
        self.rollbacks = max(self.rollbacks, state["rollbacks"])


def divergence_of(row: Row) -> str:
    """Return what is wrong with a row, or an empty string."""
    values = {key: value for key, value in row.items() if not key.startswith(UNBOUNDED) and not isinstance(value, Picture)}
    wrong = [f"{key} is {value:.3g}" for key, value in values.items() if not math.isfinite(value) or abs(value) > SENSIBLE]
    return ", ".join(wrong)


@torch.no_grad()
def unfit(gan: GAN, averages: Mapping[str, nn.Module]) -> str:
    """Return why a run's state should not be saved as a good one, or an empty string.

    Whatever a checkpoint holds must be finite; the losses and scores since the last row, the last scores and all weights
    must also be at most `SENSIBLE`. All of it crosses to the host in one transfer.
    """
    networks, optimizers = (gan.generator, gan.discriminator), (gan.optimizer_g, gan.optimizer_d)
    moments = [value for optimizer in optimizers for state in optimizer.state.values() for value in state.values()]
    bounded: dict[str, list[Tensor]] = {
        "the generator": [*gan.generator.parameters()],
        "the discriminator": [*gan.discriminator.parameters()],
        **{f"the averaged {name}": [*average.parameters()] for name, average in averages.items()},
        "a score": [scores for scores in (gan.meter.last_real, gan.meter.last_fake) if scores is not None],
    }
    unbounded: dict[str, list[Tensor]] = {
        "a buffer": [buffer for module in (*networks, *averages.values(), gan.loss) for buffer in _kept(module)],
        "an optimizer": [value for value in moments if isinstance(value, Tensor)],
    }
    largest = {name: _largest(tensors, gan.prior.device) for name, tensors in (bounded | unbounded).items()}
    means = {key: mean.double().abs() for key, mean in gan.meter.so_far().items()}
    values = torch.stack([*largest.values(), *means.values()]).tolist()
    for name, value in zip([*largest, *means], values, strict=True):
        if not math.isfinite(value) or (value > SENSIBLE and name not in unbounded):
            remedy = " (register a mask with persistent=False)" if name == "a buffer" and value == math.inf else ""
            return f"{name} {'is' if name in means else 'reaches'} {value:.3g}{remedy}"
    return ""


def _kept(module: nn.Module) -> list[Tensor]:
    """Return the buffers that a checkpoint holds; a mask of −∞ that is registered with persistent=False is not among them."""
    state = module.state_dict()
    return [state[name] for name, _ in module.named_buffers() if name in state]


def _largest(tensors: list[Tensor], device: torch.device) -> Tensor:
    """Return the largest absolute value, as a tensor on the device; NaN if any value is NaN."""
    sizes = [
        tensor.detach().abs().amax().double().to(device)
        for tensor in tensors
        if tensor.is_floating_point() and len(tensor.flatten())
    ]
    return torch.stack(sizes).amax() if sizes else torch.zeros((), dtype=torch.float64, device=device)


def write_report(path: Path, sentence: str, row: Row, run: Run) -> None:
    """Write the row and statistics of the last batch to a file."""
    meter = run.gan.meter
    outputs = {"real scores": meter.last_real, "fake scores": meter.last_fake}
    tensors = {name: scores_of(tensor) for name, tensor in outputs.items() if tensor is not None}
    batch = {name: _statistics(tensor) for name, tensor in ({"reals": run.reals.last.values} | tensors).items()}
    plain = {key: value for key, value in row.items() if not isinstance(value, Picture)}
    try:
        write_document(path, {"said": sentence, "row": plain, "batch": batch})
    except OSError as error:
        log.warning("No %s: %s.", path, error)


def _statistics(tensor: Tensor) -> dict[str, float]:
    values = tensor.detach().double()
    spread = values.std(unbiased=False)
    return {"mean": values.mean().item(), "std": spread.item(), "min": values.min().item(), "max": values.max().item()}
