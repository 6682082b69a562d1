"""A trained generator, ready to use, from a run folder or a checkpoint: no data, no optimiser, no training."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ganexp.batch import Batch
from ganexp.configuration.parsing import parse
from ganexp.configuration.schema import Config, ConfigError
from ganexp.configuration.targets import Trust, check_node, make
from ganexp.prior import Prior
from ganexp.runs.layout import RunFolder
from ganexp.streams import undisturbed
from ganexp.training import CheckpointError, checkpoint
from ganexp.training.fitting import refuse_unlike

AT_ONCE = 256
"""How many samples are generated at a time."""


class Trained(nn.Module):
    """A trained generator, with its prior: maps latents `(B, latent_dim)` to samples."""

    def __init__(self, network: nn.Module, config: Config, device: torch.device | str, classes: int = 0) -> None:
        super().__init__()
        self.classes = classes
        self._dtype = torch.float64 if config.precision == "fp64" else torch.float32
        self.network = network.to(device, self._dtype)
        self.requires_grad_(False).eval()
        self.latent_dim = config.latent_dim
        self._prior = config.prior
        self._device = torch.device(device)

    def forward(self, z: Tensor, *given: Tensor) -> Tensor:
        """Generate samples, images in [-1, 1], from latents `(B, latent_dim)` and what they are conditioned on."""
        return self.network(z, *given)

    def sample(self, n: int, seed: int = 0, *, label: int | None = None) -> Tensor:
        """Generate `n` samples, the same for the same seed.

        Args:
            n: How many.
            seed: Of the latents.
            label: The class of all of them, of a conditional generator; by default every class has its share, in order.

        Raises:
            ValueError: There is no such class.
        """
        if label is not None and not 0 <= label < self.classes:
            raise ValueError(f"label should be one of {self.classes} classes, counted from 0, not {label}")
        prior = Prior(self.latent_dim, self._prior, seed=seed, device=self._device, dtype=self._dtype)
        labels = torch.arange(n, device=self._device) * self.classes // n
        labels = labels if label is None else torch.full_like(labels, label)
        z = Batch(prior.sample(n).values, (labels,) if self.classes else ())
        with torch.inference_mode(), undisturbed(self._device, seed):  # for generators that draw noise of their own
            return torch.cat([self(part.values, *part.given) for part in z.split(AT_ONCE)])


def load(place: str | Path, *, trust: Trust = (), device: torch.device | str = "cpu", averaged: bool = True) -> Trained:
    """Load the generator of a run, with its averaged weights if there is an average.

    Args:
        place: A run folder, whose last checkpoint is taken, or a checkpoint. It may be anyone's: nothing in it is executed.
        trust: Modules beside ganexp's that the generator's class may be of, as in `trust=["mine"]`; None is any.
        device: Where to put it.
        averaged: False takes the generator's own weights even if there is an average.

    Raises:
        ConfigError: The generator is of a module that is not trusted, or the configuration has a mistake.
        CheckpointError: There is no checkpoint, it is broken, or it is not of its own configuration.
    """
    path = Path(place)
    path = RunFolder(path).last if path.is_dir() else path
    state = checkpoint.load(path)
    if not state["config"] or not isinstance(state.get("shape"), list):
        raise CheckpointError(f"{path} is of a run without a configuration: load its state_dict into a generator of your own")
    config = parse(state["config"])
    check_node("generator", config.generator, trust)
    shape, classes = _shape(path, state["shape"]), state.get("classes")
    if type(classes) is not int or not 0 <= classes <= 2**20 or bool(classes) != config.conditional:
        raise CheckpointError(f"{path} does not say how many classes its generator knows")
    given = {"classes": classes} if classes else {}
    weights = _weights(state["run"], averaged)
    try:
        with torch.device("meta"):  # so that a file with huge claims takes no memory
            like = make(config.generator, "generator", config.latent_dim, shape, **given)
            like = like.double() if config.precision == "fp64" else like
        refuse_unlike("generator", like.state_dict(), weights)
    except ConfigError:
        raise
    except Exception as error:
        raise CheckpointError(f"{path} does not fit its own configuration ({' '.join(str(error).split())[:200]})") from None
    with torch.random.fork_rng([]):  # what it is initialised with is thrown away, and is nobody's to notice
        network = make(config.generator, "generator", config.latent_dim, shape, **given)
    trained = Trained(network, config, device, classes)
    trained.network.load_state_dict(weights)
    return trained


def _weights(run: Any, averaged: bool) -> Any:
    """Find the averaged weights in a run's state, or else the generator's own."""
    for path in (("step", "average", "generator"), ("gan", "generator"))[not averaged :]:
        found = run
        for name in path:
            found = found.get(name) if isinstance(found, dict) else None
        if found:
            return found
    return {}


def _shape(path: Path, shape: list[int]) -> tuple[int, ...]:
    if not 1 <= len(shape) <= 4 or not all(type(size) is int and 1 <= size <= 2**16 for size in shape):
        raise CheckpointError(f"{path} does not say which shape its samples have")
    return tuple(shape)
