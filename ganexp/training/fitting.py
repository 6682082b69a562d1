"""Whether a checkpoint fits a run, decided before anything of the run is touched.

What a run has already, such as weights and buffers, is what the checkpoint's is compared with. What it gets only as it
trains is derived: an optimiser's state from one step of its like on a stand-in parameter, all else from trying the
state on a shallow copy.
"""

import copy
import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from ganexp.gan import GAN
from ganexp.training import random_states

if TYPE_CHECKING:
    from ganexp.training.trainer import Trainer

State = dict[str, Any]
MOST = 10**15
"""No run counts further."""
MOST_SCORES = 2**20


def refuse_unfitting(trainer: "Trainer", own: State, state: State) -> None:
    """Compare a state with that of a trainer which was built in the same way.

    Args:
        trainer: Left as it is.
        own: Its state.
        state: What is to be put into it.

    Raises:
        Exception: It does not fit; the text of a ValueError says in what.
    """
    _refuse_other_keys("the checkpoint", own, state)
    for name in ("generator", "discriminator", "loss", "ema"):
        refuse_unlike(name, own[name], state[name])
    for name, optimizer in {"optimizer_g": trainer.gan.optimizer_g, "optimizer_d": trainer.gan.optimizer_d}.items():
        _check_optimizer(name, optimizer, state[name])
    _check_counts(trainer, state)
    _check_meter(state["meter"])
    _check_scores(state)
    _check_strategy(trainer.strategy, trainer.gan, state["strategy"])
    for stream in ("python", "numpy"):
        refuse_unlike(f"random.{stream}", own["random"][stream], state["random"][stream])
    random_states.refuse_unfitting(state["random"], trainer.device)
    torch.Generator(trainer.device).set_state(state["latents"])
    copy.copy(trainer.gan.penalty).load_state_dict(state["penalty"], trainer.device)


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


def adapted(optimizer: Optimizer, state: State) -> State:
    """Return an optimiser's state from a file as one for this optimiser, in memory of its own.

    Tensors are laid out like the parameters that they belong to, since fused kernels read both as flat arrays. Settings
    are the optimiser's own, but for the learning rate, which a schedule may have moved.
    """
    own = optimizer.state_dict()
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    groups = [{**ours, "lr": theirs["lr"]} for ours, theirs in zip(own["param_groups"], state["param_groups"], strict=True)]
    moved = {
        index: {name: _laid_out_like(parameters[index], value) for name, value in values.items()}
        for index, values in state["state"].items()
    }
    return {"state": moved, "param_groups": groups}


def _laid_out_like(parameter: Tensor, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    if value.shape != parameter.shape:
        return value.clone()
    return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)


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
            raise ValueError(f"{name} is of other parameters")
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
            raise ValueError(f"{name} is of other parameters")
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
    except Exception:  # whatever an optimiser of someone's own may want beside gradients
        return None
    return dict(like.state[stand_in])


def _check_counts(trainer: "Trainer", state: State) -> None:
    _refuse_other_keys("updates", trainer.gan.updates, state["updates"])
    counts = {name: state[name] for name in ("iteration", "real_batches", "real_images", "rollbacks")}
    for name, count in {**counts, **{f"updates.{side}": count for side, count in state["updates"].items()}}.items():
        if not _is_count(count):
            raise ValueError(f"{name} should be a count, not {str(count)[:40]}")
    if not _is_count(state["wall_s"], kind=(float, int)):
        raise ValueError("wall_s should be a number of seconds")
    if type(state["best"]) is not float or math.isnan(state["best"]):
        raise ValueError("best should be a number")


def _is_count(value: Any, *, most: float = MOST, kind: tuple[type, ...] = (int,)) -> bool:
    return type(value) in kind and math.isfinite(value) and 0 <= value <= most


def _check_meter(given: Any) -> None:
    _refuse_other_keys("meter", {"sums": None, "counts": None}, given)
    sums, counts = given["sums"], given["counts"]
    if not isinstance(sums, dict) or not isinstance(counts, dict) or not counts.keys() <= sums.keys() or len(sums) > 1000:
        raise ValueError("meter should have a sum for each of its counts")
    for key, value in sums.items():
        scalar = isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point()
        if not isinstance(key, str) or not scalar or not _is_count(counts.get(key, 0)):
            raise ValueError(f"meter.{str(key)[:80]} should be a sum and a count")


def _check_scores(state: State) -> None:
    for name in ("last_real", "last_fake"):
        scores = state[name]
        if scores is None:
            continue
        if not isinstance(scores, Tensor) or scores.dim() != 1 or not scores.is_floating_point():
            raise ValueError(f"{name} should be scores, one per image, not {described(scores)}")
        if not 0 < len(scores) <= MOST_SCORES:
            raise ValueError(f"{name} should be the scores of a batch, not {described(scores)}")


def _check_strategy(strategy: Any, gan: GAN, given: Any) -> None:
    own: State = getattr(strategy, "state_dict", dict)()
    _refuse_other_keys("strategy", own, given)
    getattr(strategy, "check_state_dict", lambda *_: None)(given, gan)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
