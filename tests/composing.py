"""Compose configurations as the command line would, and find every option of a group by its file."""

import copy
import functools
import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf
from torch import nn

from ganexp.batch import Batch
from ganexp.cli.composing import settle_groups
from ganexp.cli.hydra_internal import VERSION_BASE, ConfigLoaderImpl
from ganexp.config import metrics
from ganexp.config.choices import settings_of
from ganexp.config.defaults import option_files
from ganexp.config.targets import target
from ganexp.networks import MLPDiscriminator
from ganexp.strategies.base import as_strategy

CONF = Path(__file__).parent.parent / "conf"
GROUPS = {str(folder.relative_to(CONF)) for folder in CONF.rglob("*") if folder.is_dir()}


def composed(*words: str) -> DictConfig:
    """Return a configuration of the test's own, as Hydra composes it.

    Composing is slow, so what is chosen from groups is composed once, and Hydra applies the values to a copy.
    """
    parsed = [_parsed(word) for word in words]
    chosen = [word for word, one in zip(words, parsed, strict=True) if not _is_a_value(one)]
    cfg = copy.deepcopy(_composed(*chosen))
    ConfigLoaderImpl._apply_overrides_to_config([one for one in parsed if _is_a_value(one)], cfg)
    return cfg


def settled(*words: str) -> DictConfig:
    """Return a configuration without what its presets set of list members that are not chosen, as the command line does."""
    cfg = composed(*words)
    typed = {"runtime": {"choices": dict.fromkeys(GROUPS)}, "overrides": {"task": [*words]}}
    settle_groups(cfg, OmegaConf.create(typed))
    return cfg


@functools.cache
def _parsed(word: str) -> Override:
    (override,) = OverridesParser.create().parse_overrides([word])
    return override


def _is_a_value(override: Override) -> bool:
    """Return whether an override is of one key, and chooses nothing from a group."""
    of_a_group = override.key_or_group in GROUPS or override.package is not None
    return not (of_a_group or override.is_sweep_override() or override.is_hydra_override())


@functools.cache
def _composed(*words: str) -> DictConfig:
    with initialize_config_dir(**VERSION_BASE, config_dir=str(CONF)):
        cfg = compose("train", [*words])
        OmegaConf.resolve(cfg.measure)
    return cfg


def options(group: str) -> list[str]:
    """Return the names of a group's options, those of installed plug-ins among them."""
    return sorted(option_files(group))


@functools.cache
def declared(group: str, name: str) -> Any:
    """Return the class or function that an option names."""
    return target({"_target_": OmegaConf.load(option_files(group)[name])._target_}, group)


def chosen(group: str, name: str, **settings: Any) -> Any:
    """Return what an option makes, with other settings if they are given; a function stays itself."""
    found = declared(group, name)
    node: Any = OmegaConf.to_container(OmegaConf.load(option_files(group)[name]))
    node.pop("defaults", None)
    return found(**settings_of(node) | settings) if inspect.isclass(found) else found


def measures(*names: str) -> dict[str, Any]:
    """Return the package's own measures of these names, with their defaults; all of them if none is named."""
    offered = metrics.measures_offered()
    return {name: offered[name]() for name in names or offered}


REPRESENTATIVES = ("extragradient", "unrolled")
"""A strategy that looks ahead, and one that differentiates gradients."""


@functools.cache
def games() -> tuple[str, ...]:
    """Return the other strategies that do so, which have tests of their own."""
    every = {name: as_strategy(chosen("strategy", name)) for name in options("strategy") if name not in REPRESENTATIVES}
    return tuple(name for name, one in every.items() if one.looks_ahead or one.differentiates_gradients)


def every_strategy(*, but: tuple[str, ...] = ()) -> list:
    """Return the strategies to test something with; with those of `games()` it is tested by CI."""
    return [
        pytest.param(one, marks=pytest.mark.slow) if one in games() else one for one in options("strategy") if one not in but
    ]


@functools.cache
def suited(strategy: str, loss: str = "nonsaturating") -> str:
    """Return the loss, or a zero-sum one for a strategy that refuses it on scores alone."""
    found = declared("loss", loss)
    bare = found.__new__(found)  # what it declares is all that counts
    nn.Module.__init__(bare)
    bare.reads = ""
    try:
        as_strategy(chosen("strategy", strategy)).refuse(MLPDiscriminator((2,), width=2), bare, Batch(torch.zeros(2, 2)))
    except ValueError:
        return "minimax"
    return loss


def discriminator_for(loss: str) -> list[str]:
    """Return the overrides by which a loss gets scores of the kind that it needs, where that is not the default's."""
    return [] if "logit" in declared("loss", loss).accepts else ["discriminator=began"]


def each_with_a_usual_one() -> list:
    """Return pairs of a strategy and a loss, in which each comes once with a usual partner: what it meets is the same code."""
    others = [one for one in options("strategy") if one != "detach"]
    slow = [pytest.param(one, "minimax", marks=pytest.mark.slow) for one in others if one != "one_stage"]
    return [*(("detach", loss) for loss in losses_of_scores()), ("one_stage", "minimax"), *slow]


def losses_of_scores() -> list[str]:
    """Return the losses that read scores alone; those that read more have tests of their own."""
    return [name for name in options("loss") if not declared("loss", name).reads]
