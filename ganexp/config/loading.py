"""Loads a trained generator from a run folder or a checkpoint, without data or optimisers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset as MapStyle

from ganexp.config.assemble import dataset_of, discriminator_of
from ganexp.config.choices import choose, name_of
from ganexp.config.parsing import parse
from ganexp.config.schema import Config, effect_of
from ganexp.config.targets import Trust
from ganexp.config.untrusted import UNWATCHED, checked
from ganexp.data import Dataset, default_folder, load_cached
from ganexp.facts import UserError
from ganexp.logging.layout import RunFolder
from ganexp.logging.reading import checkpoint_at, is_saved, read
from ganexp.networks.contract import declared
from ganexp.printable import one_line
from ganexp.prior import Prior
from ganexp.sampling import Origin, Trained
from ganexp.sampling.hub import is_on_hub, pulled
from ganexp.sampling.saved import read as saved
from ganexp.training import CheckpointError, checkpoint
from ganexp.training.callbacks.drawing import unchanged
from ganexp.training.callbacks.evaluation import standing as standing_of
from ganexp.training.checkpoint import refuse_unlike


@dataclass(frozen=True)
class _Stored:
    """A network as stored in a file. Its weights have not been checked yet; the rest has."""

    path: Path
    config: dict[str, Any]
    settings: Config
    shape: tuple[int, ...]
    classes: int
    class_names: Any
    source_shape: tuple[int, ...]
    source_ranges: Any
    weights: Any
    iterations: int = 0
    figures: dict[str, float] = field(default_factory=dict)
    which: str = ""
    """Which weights of the run they are, in words."""

    def __post_init__(self) -> None:
        if not self.shape or not all(type(size) is int and size >= 1 for size in self.shape):
            raise CheckpointError(f"{self.path} does not say which shape its samples have")
        if not all(type(size) is int and size >= 1 for size in self.source_shape):
            raise CheckpointError(f"{self.path} does not say which shape its sources have")
        if self.source_ranges != [] and not _are_ranges(self.source_ranges):
            raise CheckpointError(f"{self.path} does not say what is black and white in its sources")
        known = type(self.classes) is int and self.classes >= 0
        if not known or bool(self.classes) != self.settings.conditional:
            raise CheckpointError(f"{self.path} does not say how many classes its generator knows")
        names = self.class_names
        if type(names) is not list or len(names) not in (0, self.classes) or not all(type(name) is str for name in names):
            raise CheckpointError(f"{self.path} does not say what each of its classes is called")

    @property
    def conditions(self) -> dict[str, int]:
        return {"classes": self.classes} if self.classes else {}

    @property
    def dtype(self) -> torch.dtype:
        return torch.float64 if self.settings.precision == "fp64" else torch.float32


def load(
    place: str | Path,
    *,
    trust: Trust = (),
    device: torch.device | str = "cpu",
    averaged: bool = True,
    standing: int = 0,
) -> Trained:
    """Load the generator of a run, with its averaged weights if there is an average. No data are touched.

    Args:
        place: A run folder, whose last checkpoint is taken, a checkpoint, a folder that `ganexp.sampling.save` has written, or
            such a folder on the Hugging Face Hub: `hf://owner/name`, `hf://owner/name@v1`. It may be anyone's: nothing in it is
            executed.
        trust: Modules besides ganexp's that the generator's class may come from, as in `trust=["mine"]`; None allows any.
        device: Where to put it.
        averaged: False takes the generator's own weights even if there is an average.
        standing: From how many batches of 250 samples batch norm's statistics are computed anew, with classes alike; 0 keeps
            those of training. The latents are those of `evaluation.standing` on a CPU.

    Raises:
        UserError: There is no checkpoint, it is broken, cannot be fetched or does not fit its own configuration; its generator
            comes from a module that is not trusted; or there is no batch norm whose statistics could be computed.
    """
    stored = _stored(place, "generator", averaged, trust)
    config, network = stored.settings, _generator(stored, trust)
    if standing:
        network = _settled(network.to(device), standing, stored)
    return Trained(
        network,
        latent_dim=config.latent_dim,
        prior=config.prior,
        shape=stored.shape,
        classes=stored.classes,
        source_shape=stored.source_shape,
        source_ranges=[levels and (levels[0], levels[1]) for levels in stored.source_ranges],
        device=device,
        dtype=stored.dtype,
        origin=Origin(
            _published(stored.config),
            config.dataset,
            stored.iterations,
            stored.figures,
            tuple(stored.class_names),
            stored.which,
        ),
    )


def generator_of(path: Path, state: Mapping[str, Any], config: Config, trust: Trust = ()) -> nn.Module:
    """Return the generator in a checkpoint that has been read, for evaluation as its configuration says, on the CPU."""
    weights = weights_of(state["run"], config.evaluation.of == "average", "generator", path)
    stored = _Stored(path, state["config"], config, *_described(path, state["config"], state), weights)
    return _generator(stored, trust).requires_grad_(False).eval()


def load_discriminator(
    place: str | Path, *, trust: Trust = (), device: torch.device | str = "cpu", averaged: bool = True
) -> nn.Module:
    """Load the discriminator of a run, in evaluation mode, with its averaged weights where `average.of=both` has kept them.

    It is called as `D(x)`, or as `D(x, labels)` if it is conditional; with packing, `x` holds packs of samples.

    Args:
        place: A run folder, whose last checkpoint is taken, a checkpoint, or a folder that was saved with its discriminator,
            here or on the Hugging Face Hub.
        trust: Modules besides ganexp's that the discriminator's class may come from; None allows any.
        device: Where to put it.
        averaged: False takes the discriminator's own weights even if there is an average.

    Raises:
        UserError: As for `load`; or the place holds a generator that was saved without its discriminator.
    """
    stored = _stored(place, "discriminator", averaged, trust)
    discriminator = choose("discriminator", stored.settings.discriminator, trust)
    pack = stored.settings.pack
    network = _filled(
        "discriminator",
        lambda: discriminator_of(discriminator, stored.shape, pack, stored.source_shape, **stored.conditions),
        stored,
    )
    return network.to(device).requires_grad_(False).eval()


def load_pair(
    place: str | Path, *, trust: Trust = (), device: torch.device | str = "cpu", averaged: bool = True, standing: int = 0
) -> tuple[Trained, nn.Module]:
    """Load the generator and the discriminator of a run, as `load` and `load_discriminator` do, for samplers that D guides.

    Raises:
        UserError: As for both; or the generator is a translator, or D's scores are not the log of a ratio of densities, or are
            scores of packs or places.
    """
    trained = load(place, trust=trust, device=device, averaged=averaged, standing=standing)
    if trained.source_shape:
        raise UserError("rejection and Langevin sampling choose latents, and a translator has none: leave --method out")
    settings = trained.origin.settings
    loss = choose("loss", settings["loss"], trust).make()
    if not loss.log_ratio:
        raise UserError(
            f"loss={name_of(settings['loss'])} does not train D's scores to be logits, which rejection and Langevin "
            "sampling need: train with loss=nonsaturating, minimax or rpgan."
        )
    if settings.get("pack", 1) != 1:
        raise UserError(f"pack={settings['pack']} has the discriminator score several samples at once: train with pack=1.")
    discriminator = load_discriminator(place, trust=trust, device=device, averaged=averaged)
    if declared(discriminator).maps:
        raise UserError(
            f"discriminator={name_of(settings['discriminator'])} returns a map of scores, and rejection and Langevin "
            "sampling need one score per sample: train with discriminator=dcgan."
        )
    return trained, discriminator


def _generator(stored: _Stored, trust: Trust) -> nn.Module:
    """Return the generator that a file holds, on the CPU."""
    generator = choose("generator", stored.settings.generator, trust)
    given = stored.source_shape or stored.settings.latent_dim
    return _filled("generator", lambda: generator.make(given, stored.shape, **stored.conditions), stored)


def _filled(name: str, make: Callable[[], nn.Module], stored: _Stored) -> nn.Module:
    """Make a network and give it the weights of a file."""
    try:
        with torch.device("meta"):  # so that a file that claims a huge network takes no memory
            like = make().to(stored.dtype)
        refuse_unlike(name, like.state_dict(), stored.weights)
        with torch.random.fork_rng([]):  # the initial weights are discarded, and drawing them must have no side effect
            network = make().to(stored.dtype)
        network.load_state_dict(stored.weights)
    except UserError:
        raise
    except Exception as error:
        reason = one_line(error)
        raise CheckpointError(f"{stored.path} does not fit its own configuration ({reason})") from None
    return network


def _settled(network: nn.Module, batches: int, stored: _Stored) -> nn.Module:
    """Compute batch norm's statistics anew, from latents drawn on the CPU, so that they are the same on every device."""
    config = stored.settings
    if stored.source_shape:
        raise UserError(
            "standing: statistics are computed anew from latents, and the generator is given sources: leave it out."
        )
    frequencies = [1.0] * stored.classes if stored.classes else None
    prior = Prior(config.latent_dim, config.prior, seed=config.seed, dtype=stored.dtype, frequencies=frequencies)
    with unchanged(prior, network):
        settled = standing_of(network, prior, batches)
    if settled is network:
        raise UserError("standing: the generator has no batch norm whose statistics could be computed anew: leave it out.")
    return settled


def set_of(trained: Trained, *, trust: Trust = ()) -> tuple[Dataset, Tensor | MapStyle[Tensor]]:
    """Return the data set of a generator's configuration, and what it has loaded. Reseeds the global random streams."""
    node = trained.origin.dataset
    if "_target_" not in node:
        raise UserError("The generator does not say which data it was trained on.")
    try:
        dataset = dataset_of(choose("dataset", node, trust), trained.origin.settings.get("seed", 0))
        data = load_cached(dataset, default_folder(), place="streamed")
    except (UserError, OSError) as error:
        reason = str(error).strip().splitlines()[-1].rstrip(".")
        raise UserError(f"dataset={name_of(node)}, on which it was trained, is not available here: {reason}.") from error
    if dataset.shape != trained.shape:
        raise UserError(
            f"dataset={name_of(node)} has samples of shape {dataset.shape} now, and had {trained.shape} when the generator was "
            "trained."
        )
    return dataset, data


def _stored(place: str | Path, network: Literal["generator", "discriminator"], averaged: bool, trust: Trust) -> _Stored:
    """Read a stored network from a place, which may be on the hub."""
    path = pulled(str(place), discriminator=network == "discriminator") if is_on_hub(place) else Path(place)
    if is_saved(path):
        if not averaged:
            raise CheckpointError(f"{path} holds one set of weights, averaged or not: leave averaged=False out")
        held, weights = saved(path, discriminator=network == "discriminator")
        recorded, iterations, figures = held["settings"], held["iterations"], held["figures"]
        which, is_average = str(held.get("which") or ""), False
        described = _described(path, recorded, held)
    else:
        path = checkpoint_at(path)
        state = checkpoint.load(path)
        recorded, iterations = state["config"], state["run"]["iteration"]
        described = _described(path, recorded, state)
        weights, figures = weights_of(state["run"], averaged, network, path), _figures_at(path, iterations)
        is_average = averaged and _below(state["run"], "step", "average", network) is not None
        which = f"as trained, of {path.name}"
    unopened = ["dataset.decode"]  # code for those who open it, and nothing here does
    remedy = "load it with trust=None, if it is your own"
    config = checked(recorded | UNWATCHED, str(path), typed=unopened, trust=trust, remedy=remedy)
    parsed = parse(config)
    if is_average:
        average = parsed.average.get("name") or parsed.average.get("_target_")
        which = f"averaged by {average}, of {path.name}"
    return _Stored(path, config, parsed, *described, weights, iterations, figures, which)


def _figures_at(path: Path, iteration: int) -> dict[str, float]:
    """Return the figures of a run at a checkpoint in its folder; rows beside a lone checkpoint may be another run's."""
    run = RunFolder.of_checkpoint(path)
    rows = read(run.path).rows if path.parent == run.checkpoints else []
    at_last = [row for row in rows if row["progress/iteration"] <= iteration][-1:]
    return {key: float(value) for row in at_last for key, value in row.items() if not isinstance(value, str)}


def _described(path: Path, config: Any, stored: Mapping[str, Any]) -> tuple[tuple[int, ...], int, Any, tuple[int, ...], Any]:
    """Return what a file says of samples and sources: shape, classes and their names, the shape of a source, and ranges."""
    if not config or not isinstance(stored.get("shape"), list):
        raise CheckpointError(f"{path} is of a run without a configuration: load its state_dict into a generator of your own")
    of_sources = tuple(stored.get("source_shape", ())), stored.get("source_ranges", [])
    return tuple(stored["shape"]), stored.get("classes", -1), stored.get("class_names", []), *of_sources


def _are_ranges(value: Any) -> bool:
    """Return whether a file's value is a list of ranges, each None or two finite numbers, black below white."""
    if type(value) is not list or not all(item is None or type(item) is list for item in value):
        return False
    ranges = [item for item in value if item is not None]
    return all([*map(type, item)] == [float, float] and -math.inf < item[0] < item[1] < math.inf for item in ranges)


def _published(config: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration without paths, and without keys of the machine and of speed."""
    kept = {key: value for key, value in config.items() if effect_of(key) == "training" and key != "init_from"}
    return _without_paths(kept)


def _without_paths(node: dict[str, Any]) -> dict[str, Any]:
    below = {key: _without_paths(value) if isinstance(value, dict) else value for key, value in node.items()}
    return {key: value for key, value in below.items() if not (isinstance(value, str) and "/" in value)}


def weights_of(run: Any, averaged: bool, network: str, path: Path) -> Any:
    """Find the averaged weights of a network in a run's state, or else its own; None if there are neither."""
    places = (("step", "average", network), ("gan", network))[not averaged :]
    stored = (_below(run, *place) for place in places)
    weights = next((weights for weights in stored if weights is not None), None)
    if weights is None and _below(run, "step", "average", "generator") is not None:
        raise CheckpointError(f"{path} holds an average of the generator alone: name a checkpoint of the run for anything else")
    return weights


def is_of_optimizer(run: Any) -> bool:
    """Return whether a run's averages are its optimisers', and so what these have trained: others count their updates."""
    return _below(run, "step", "average", "updates") is None


def _below(run: Any, *place: str) -> Any:
    for name in place:
        run = run.get(name) if isinstance(run, dict) else None
    return None if isinstance(run, dict) and not run else run
