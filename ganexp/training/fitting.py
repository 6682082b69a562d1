"""Whether a state fits a run, checked before anything of the run is modified.

What a run has already, such as weights and buffers, is what the state's is compared with. What it gets only as it
trains is derived: an optimiser's state from one step of its like on a stand-in parameter, a stream's from trying it
on a stream of its own.
"""

import copy
import math
from collections import defaultdict
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.augmentations import Augmentation
from ganexp.gan import GAN
from ganexp.instruments.meter import Meter
from ganexp.optimizers.ownership import Optimized
from ganexp.penalties import Penalty
from ganexp.prior import Prior
from ganexp.training.global_streams import GlobalStreams

State = dict[str, Any]
MOST = 10**15
"""No run counts further."""
MOST_SCORES = 2**20


def refuse_unfitting(gan: GAN, parts: dict[str, Any], own: State, state: State) -> None:
    """Compare a state with that of a run which was built in the same way.

    Args:
        gan: Of the run.
        parts: What has a state in the run, by name; nothing of it is touched.
        own: The run's state: of these parts, and plain counts.
        state: The state to be loaded.

    Raises:
        Exception: It does not fit; the text of a ValueError says in what.
    """
    _refuse_other_keys("the checkpoint", own, state)
    for name, value in own.items():
        _refuse(name, parts.get(name), value, state[name], gan)


def _refuse(name: str, part: Any, own: Any, given: Any, gan: GAN) -> None:
    if hasattr(part, "parts"):
        _refuse_other_keys(name, own, given)
        for key, inner in part.parts().items():
            _refuse(key, inner, own[key], given[key], gan)
    elif isinstance(part, Optimized):
        _check_optimizer(name, part.optimizer, given)
    elif isinstance(part, Meter):
        _check_meter(own, given)
    elif isinstance(part, GlobalStreams):
        refuse_unlike(name, {key: own[key] for key in ("python", "numpy")}, {key: given[key] for key in ("python", "numpy")})
        part.refuse_unfitting(given)
    elif isinstance(part, (Prior, Penalty, Augmentation)):
        _check_drawing(name, own, given, gan.prior.device)
    elif hasattr(part, "check_state_dict"):
        part.check_state_dict(given, gan)
    else:
        refuse_unlike(name, own, given)
        check_counts(name, own, given)


def refuse_unlike(name: str, own: Any, given: Any) -> None:
    """Refuse what is not of the same structure, with tensors of the same shape and type, finite where the own are.

    Raises:
        ValueError: It differs, in the way that the text says.
    """
    if isinstance(own, Tensor):
        if not isinstance(given, Tensor) or given.shape != own.shape or given.dtype != own.dtype:
            raise ValueError(f"{name} should be {described(own)}, not {described(given)}")
        if own.is_floating_point() and not given.isfinite().all() and (own.is_meta or own.isfinite().all()):
            raise ValueError(f"{name} is not finite")
    elif isinstance(own, dict):
        _refuse_other_keys(name, own, given)
        for key, value in own.items():
            refuse_unlike(f"{name}.{key}", value, given[key])
    elif isinstance(own, (list, tuple)):
        if not isinstance(given, (list, tuple)) or len(given) != len(own):
            raise ValueError(f"{name} should have {len(own)} members, not be {described(given)}")
        for index, value in enumerate(own):
            refuse_unlike(f"{name}.{index}", value, given[index])
    elif own is None or isinstance(own, float):
        if given is not None and type(given) is not float:
            raise ValueError(f"{name} should be a number, not {described(given)}")
    elif type(given) is not type(own):
        raise ValueError(f"{name} should be {described(own)}, not {described(given)}")


def described(value: Any) -> str:
    """Return in words what kind of value it is."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
    return "nothing" if value is None else f"of type {type(value).__name__}"


def _refuse_other_keys(name: str, own: State, given: Any) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{name} should be a dictionary, not {described(given)}")
    for key in own.keys() ^ given.keys():
        raise ValueError(f"{name} {'lacks' if key in own else 'should not have'} {str(key)[:80]}")


def _check_optimizer(name: str, optimizer: Optimizer, given: State) -> None:
    own = optimizer.state_dict()
    _refuse_other_keys(name, own, given)
    groups = given["param_groups"]
    if not isinstance(groups, list) or len(groups) != len(own["param_groups"]):
        raise ValueError(f"{name}.param_groups should have {len(own['param_groups'])} members")
    for ours, theirs in zip(own["param_groups"], groups, strict=True):
        if not isinstance(theirs, dict) or theirs.get("params") != ours["params"]:
            raise ValueError(f"{name} belongs to other parameters")
        for key in ours.keys() & theirs.keys() - {"params", "lr", "capturable", "foreach", "fused"}:
            if _listed(theirs[key]) != _listed(ours[key]):
                raise ValueError(f"{name}.{key} should be {ours[key]}, as configured")
        if not _is_count(theirs.get("lr"), most=math.inf, kind=(float, int)):
            raise ValueError(f"{name}.lr should be a finite number, not {described(theirs.get('lr'))}")
    if not isinstance(given["state"], dict):
        raise ValueError(f"{name}.state should be a dictionary, not {described(given['state'])}")
    parameters, likes = [], []
    for group in optimizer.param_groups:
        parameters += group["params"]
        likes += [_after_a_step(optimizer, group)] * len(group["params"])
    for index, values in given["state"].items():
        if type(index) is not int or not 0 <= index < len(parameters):
            raise ValueError(f"{name} belongs to other parameters")
        _check_moments(f"{name}.{index}", parameters[index], likes[index], values)


def _check_moments(name: str, parameter: Tensor, like: State | None, values: Any) -> None:
    """Check what an optimiser remembers of one parameter; `like` is what it would, or None if that is not known."""
    if not isinstance(values, dict):
        raise ValueError(f"{name} should be a dictionary, not {described(values)}")
    if like is not None and values:
        _refuse_other_keys(name, like, values)
    for key, value in values.items():
        expected = None if like is None else like[key]
        if not isinstance(value, Tensor):
            if expected is not None or not (value is None or _is_count(value, most=MOST, kind=(float, int))):
                raise ValueError(f"{name}.{key} should be a tensor, not {described(value)}")
            continue
        scalar = value.dim() == 0 if expected is None else expected.dim() == 0
        shape, dtype = torch.Size() if scalar else parameter.shape, value.dtype if expected is None else expected.dtype
        if value.shape != shape or value.dtype != dtype:
            raise ValueError(f"{name}.{key} should be a tensor {tuple(shape)} of {dtype}, not {described(value)}")
        if not value.isfinite().all() or (scalar and not 0 <= value.item() <= MOST):
            raise ValueError(f"{name}.{key} is not finite, or no count")


def _after_a_step(optimizer: Optimizer, group: State) -> State | None:
    """Return what an optimiser remembers of a parameter after a step, learnt on a stand-in; None if it takes more than that."""
    real = group["params"][0]
    stand_in = nn.Parameter(torch.zeros(2, 3, dtype=real.dtype, device=real.device))
    stand_in.grad = torch.zeros_like(stand_in)
    like = copy.copy(optimizer)
    like.param_groups, like.state = [{**group, "params": [stand_in]}], defaultdict(dict)
    try:
        like.step()
    except Exception:  # a user's own optimiser may need more than gradients
        return None
    return dict(like.state[stand_in])


def _check_drawing(name: str, own: State, given: Any, device: torch.device) -> None:
    _refuse_other_keys(name, own, given)
    for key, value in own.items():
        if key.endswith("rng"):
            torch.Generator(device).set_state(given[key])
        else:
            refuse_unlike(f"{name}.{key}", value, given[key])


def check_counts(name: str, own: Any, given: Any) -> None:
    """Check the numbers of a state, all of which count something, but for a measurement that was lowest."""
    if isinstance(own, dict):
        for key, value in own.items():
            check_counts(key, value, given[key])
    elif name == "lowest":
        if type(given) is not float or math.isnan(given):
            raise ValueError("lowest should be a number")
    elif type(own) in (int, float) and not _is_count(given, kind=(type(own),)):
        raise ValueError(f"{name} should be a count, not {str(given)[:40]}")


def _is_count(value: Any, *, most: float = MOST, kind: tuple[type, ...] = (int,)) -> bool:
    return type(value) in kind and math.isfinite(value) and 0 <= value <= most


def _check_meter(own: State, given: Any) -> None:
    _refuse_other_keys("meter", own, given)
    _refuse_other_keys("updates", own["updates"], given["updates"])
    check_counts("updates", own["updates"], given["updates"])
    sums, counts = given["sums"], given["counts"]
    if not isinstance(sums, dict) or not isinstance(counts, dict) or not counts.keys() <= sums.keys() or len(sums) > 1000:
        raise ValueError("meter should have a sum for each of its counts")
    for key, value in sums.items():
        scalar = isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point()
        if not isinstance(key, str) or not scalar or not _is_count(counts.get(key, 0)):
            raise ValueError(f"meter.{str(key)[:80]} should be a sum and a count")
    for name in ("last_real", "last_fake"):
        scores = given[name]
        if scores is None:
            continue
        if not isinstance(scores, Tensor) or scores.dim() not in (1, 2) or not scores.is_floating_point():
            raise ValueError(f"{name} should be scores, one per image, not {described(scores)}")
        if not 0 < len(scores) <= MOST_SCORES or not scores.numel():
            raise ValueError(f"{name} should be the scores of a batch, not {described(scores)}")


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
