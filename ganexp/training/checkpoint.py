"""Checkpoint files: written atomically; their content is not trusted."""

import copy
import math
import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.documents import read_state, unfinished_name, write_state
from ganexp.facts import UserError
from ganexp.gan import GAN
from ganexp.logging.layout import RunFolder

State = dict[str, Any]
"""Tensors and plain values only, so that reading a file runs no code from it."""

FORMAT = 6
MOST = 10**15
"""The largest count in a checkpoint; no run counts further."""
PLAIN = (bool, int, str, tuple)
"""The types of a plain value besides floats."""


class CheckpointError(UserError):
    """A checkpoint cannot be read or does not fit; the message is one sentence."""


def description(
    config: dict[str, Any],
    shape: Sequence[int] | None,
    classes: int = 0,
    class_names: Sequence[str] = (),
    source_shape: Sequence[int] = (),
    source_ranges: Sequence[tuple[float, float] | None] = (),
) -> State:
    """Return what a checkpoint says of its run, so that the generator can be built and used again without the data.

    These are the configuration, as plain values, and properties of the `Dataset`: the shape of a sample, classes, sources.
    """
    described: State = {
        "config": config,
        "shape": None if shape is None else list(shape),
        "classes": classes,
        "class_names": list(class_names),
    }
    if source_shape:
        ranges = [None if levels is None else [*map(float, levels)] for levels in source_ranges]
        described |= {"source_shape": list(source_shape), "source_ranges": ranges}
    return described


def stamped(run: State, described: State) -> State:
    """Return the content of a file: a trainer's state, the `description` of its run, and the versions."""
    return {"format": FORMAT, "torch": str(torch.__version__), **described, "run": run}


def save(state: State, folder: RunFolder, *, keep: int) -> None:
    """Write `iteration_<n>.pt`, point `last.pt` at it and delete all but the newest `keep`; each step is atomic.

    Checkpoints of later iterations, left over when a run was resumed from an earlier one, are deleted too.
    """
    path = folder.checkpoint(state["run"]["iteration"])
    write_state(path, state)
    link(folder.last, path)
    numbered = folder.numbered
    kept = [checkpoint for checkpoint in numbered if checkpoint <= path][-keep:]
    for other in numbered:
        if other not in kept:
            other.unlink(missing_ok=True)


def link(name: Path, path: Path) -> None:
    """Give a file a second name: a hard link, or a copy where there are no links."""
    unfinished = unfinished_name(name)
    unfinished.unlink(missing_ok=True)
    try:
        try:
            os.link(path, unfinished)
        except OSError:  # a file system without links
            shutil.copyfile(path, unfinished)
        unfinished.replace(name)
    finally:
        unfinished.unlink(missing_ok=True)  # renaming a link over a link to the same file does nothing


def load(path: Path) -> State:
    """Read a checkpoint; nothing in the file is executed."""
    try:
        state = read_state(path)
    except FileNotFoundError:
        of_run = path.parent.name == "checkpoints"
        hint = "; an interrupted run has one from its first checkpoint on" if of_run else ": name a run folder or a checkpoint"
        hint = ": it is kept where keep_best=… names a figure" if of_run and path.name == "best.pt" else hint
        raise CheckpointError(f"{path} does not exist{hint}") from None
    except ValueError as error:
        raise CheckpointError(f"{path} cannot be read as a checkpoint ({error})") from None
    ours = isinstance(state, dict) and type(state.get("format")) is int and state["format"] == FORMAT
    if not ours or not isinstance(state.get("config"), dict) or not isinstance(state.get("run"), dict):
        raise CheckpointError(f"{path} is no checkpoint of this version of ganexp")
    if type(state["run"].get("iteration")) is not int or not 0 <= state["run"]["iteration"] <= MOST:
        raise CheckpointError(f"{path} does not say at which iteration it was written")
    return state


def refuse_unlike(name: str, own: Any, given: Any, gan: GAN | None = None) -> None:
    """Refuse a state that has other keys, shapes or types than a part's own, tensors that are not finite, or NaN.

    State that grows over a run is a list: of numbers or strings, of one tensor (or None) per parameter of the GAN, G's first,
    or of tensors with equally many rows, one per sample. Optimisers are left to `refuse_unlike_optimizer`. On the meta device
    all values are taken for finite.
    """
    if isinstance(own, dict) and isinstance(given, dict):
        for key in own.keys() ^ given.keys():
            raise ValueError(f"{name} {'lacks' if key in own else 'should not have'} {str(key)[:80]}")
        for key in own if "param_groups" not in own else ():
            refuse_unlike(f"{name}.{key}", own[key], given[key], gan)
    elif isinstance(own, list) and isinstance(given, list):
        _refuse_unlike_list(name, own, given, gan)
    elif isinstance(own, Tensor):
        if not isinstance(given, Tensor) or _kind(given) != _kind(own) or (given.is_meta and not own.is_meta):
            raise ValueError(f"{name} should be {_described(own)}, not {_described(given)}")
        if not given.is_meta and not given.isfinite().all() and (own.is_meta or own.isfinite().all()):
            raise ValueError(f"{name} is not finite")
        if gan and name.endswith("rng") and gan.prior.device.type != "meta":
            torch.Generator(gan.prior.device).set_state(given)  # which checks it
    elif own is None or type(own) is float:
        if given is not None and (type(given) is not float or math.isnan(given)):
            raise ValueError(f"{name} should be None or a number, not {_described(given)}")
    elif type(given) is not type(own) or type(own) not in PLAIN:
        raise ValueError(f"{name} should be {_described(own)}, not {_described(given)}")
    elif type(given) is int and not 0 <= given <= MOST:
        raise ValueError(f"{name} should be a count from 0 on, not {given}")


def _refuse_unlike_list(name: str, own: list[Any], given: list[Any], gan: GAN | None) -> None:
    tensors = [item for item in given if isinstance(item, Tensor)]
    if not tensors:
        kinds = {type(item) for item in own} or {int, float, str, type(None)}
        if not {type(item) for item in given} <= kinds:
            raise ValueError(f"{name} should hold {' or '.join(sorted(kind.__name__ for kind in kinds))} alone")
        return
    parameters = [*gan.generator.parameters(), *gan.discriminator.parameters()] if gan else []
    of_parameters = len(given) == len(parameters) and all(
        item is None or (isinstance(item, Tensor) and item.shape == parameter.shape and item.dtype == parameter.dtype)
        for item, parameter in zip(given, parameters, strict=True)
    )
    of_samples = len({item.shape[:1] for item in tensors}) == 1 and len(tensors) == len(given)
    if not (of_parameters or of_samples):
        raise ValueError(f"{name} should hold a tensor for each parameter, G's first, or tensors with one row per sample")
    if not all(item.is_meta or item.isfinite().all() for item in tensors):
        raise ValueError(f"{name} is not finite")


def refuse_unlike_optimizer(name: str, optimizer: Optimizer, given: State) -> None:
    """Refuse an optimiser's state whose tensors are neither scalars nor shaped like the parameter that they belong to.

    A step on a stand-in parameter shows which of them are scalars.
    """
    own, groups = optimizer.state_dict()["param_groups"], given["param_groups"]
    if [group["params"] for group in own] != [group["params"] for group in groups]:
        raise ValueError(f"{name} belongs to other parameters")
    if not all(type(group["lr"]) is float and math.isfinite(group["lr"]) for group in groups):
        raise ValueError(f"the learning rate of {name} should be a finite number")
    likes: list[tuple[Tensor, State | None]] = []
    for group in optimizer.param_groups:
        after = _after_a_step(optimizer, group)
        likes += [(parameter, after) for parameter in group["params"]]
    for index, moments in given["state"].items():
        parameter, after = likes[index]
        after = moments if after is None or not moments else after
        refuse_unlike(f"{name}.{index}", {key: _like(parameter, value) for key, value in after.items()}, moments)


def _like(parameter: Tensor, moment: Any) -> Any:
    if not isinstance(moment, Tensor):
        return moment
    return torch.empty(parameter.shape if moment.dim() else (), dtype=moment.dtype, device="meta")


def _after_a_step(optimizer: Optimizer, group: State) -> State | None:
    """Return an optimiser's state of a parameter after a step, or None if its step needs more than a gradient."""
    real = group["params"][0]
    stand_in = nn.Parameter(torch.zeros(2, 3, dtype=real.dtype, device=real.device))
    stand_in.grad = torch.zeros_like(stand_in)
    like = copy.copy(optimizer)
    like.param_groups, like.state = [{**group, "params": [stand_in]}], defaultdict(dict)
    like._warned_capturable_if_run_uncaptured = True  # or torch warns, since copying drops it
    try:
        like.step()
    except Exception:  # of a user's own optimiser
        return None
    return dict(like.state[stand_in])


def _kind(tensor: Tensor) -> tuple[Any, ...]:
    """Return the properties that two tensors must share so that one can be copied into the other."""
    return (tensor.dtype, tensor.layout, None if tensor.is_nested else tensor.shape)


def _described(value: Any) -> str:
    """Return in words what kind of value it is."""
    if isinstance(value, Tensor) and (value.is_meta or value.is_nested or value.layout != torch.strided):
        return "a tensor without values in a plain layout"
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return "nothing" if value is None else f"of type {type(value).__name__}"
