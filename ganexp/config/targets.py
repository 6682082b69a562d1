"""What a `_target_` may name: found, and held to the contract of its group, before anything of it is called.

Importing a module runs its code, and so does calling what it holds. Hence two barriers, in this order: from a checkpoint
or another's run folder only modules of ganexp's and those that the user has named are imported; and whatever was found
must be what its group consists of, so that `os.system` is no loss, wherever its name comes from.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, get_type_hints

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import IterableDataset

from ganexp.augmentations import Augmentation
from ganexp.config.parsing import check_type, shown, unknown_key
from ganexp.config.schema import LISTS, Config, ConfigError, Node
from ganexp.data import Dataset
from ganexp.evaluation import MEASURES, Measure
from ganexp.facts import Misfit
from ganexp.logging import Logger
from ganexp.losses import Loss
from ganexp.penalties import Penalty
from ganexp.schedules import Schedule
from ganexp.strategies import Strategy
from ganexp.training import Average
from ganexp.wrappers import Wrapper

Target = Callable[..., Any]
Trust = Sequence[str] | str | None
"""Modules beside ganexp's from which targets may come, or None for any: for what the user has typed."""

FROM_THE_RUN = {
    "dataset": 0,
    "generator": 2,
    "discriminator": 1,
    "loss": 0,
    "penalty": 0,
    "augment": 0,
    "strategy": 2,
    "optimizer": 1,
    "wrapper": 1,
    "schedule": 1,
    "average": 1,
    "logger": 0,
}
"""How many leading arguments of a target are not configured but given by the run, by group."""


GIVEN = {"strategy": {"d_steps", "g_steps"}, "generator": {"classes"}, "discriminator": {"classes"}}
"""Keyword arguments that are given by the run as well, by group."""


def check_targets(config: Config, trust: Trust = None) -> None:
    """Check every group of a configuration: its target, and its keys against the target's signature.

    Raises:
        ConfigError: A target is not trusted, is nothing that its group takes, or does not have a key.
    """
    for group in FROM_THE_RUN:
        for key, node in members(config, group).items() if group != "optimizer" else ():
            check_node(key, node, trust)
    if config.evaluation.measures != "auto":
        measures_called(config.evaluation.measures, trust)
    for side in ("g", "d"):
        if not isinstance(config.optimizer.get(side), dict):
            raise ConfigError(f"optimizer.{side} must be a group of settings, as in conf/optimizer/adam.yaml.")
        check_node(f"optimizer.{side}", config.optimizer[side], trust, said_above=config.optimizer)
    shared = {"name", "g", "d"} | set(arguments(config.optimizer["g"])) | set(arguments(config.optimizer["d"]))
    for name in config.optimizer:
        if name not in shared:
            raise ConfigError(unknown_key(f"optimizer.{name}", shared))


def check_node(key: str, node: Node, trust: Trust = None, *, said_above: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Check one group's target, and its keys against the target's signature; nothing is called.

    Args:
        key: Where the node lies.
        node: The target, and its keys.
        trust: Modules from which it may come.
        said_above: Settings that the node may take over, and are then named as the mistake's place.
    """
    group = key.partition(".")[0]
    function = target(node, key, trust)
    try:
        hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
        known = _configured(function, group)
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(f"{key}._target_={node['_target_']} has no signature to check against: {error}.") from None
    hints = {name: float for name, default in known.items() if type(default) in (int, float)} | hints  # of unannotated ones
    if group not in LISTS and not re.fullmatch(r"[\w.-]+", str(node.get("name", "x")), re.ASCII):
        raise ConfigError(f"{key}.name should be letters, digits and . _ - only, not {node['name']}.")
    for name, value in arguments(node, key).items():
        if name not in known:
            raise ConfigError(unknown_key(f"{key}.{name}", known, preset=True))
        if name in hints and value != "???":
            taken_over = name in said_above and repr(said_above[name]) == repr(value)  # NaN is not equal to itself
            check_type(f"{group if taken_over else key}.{name}", value, hints[name])
    for name, part in _parts(key, node).items():
        check_node(f"{key}.{name}", part, trust)
    for name, default in known.items():
        if node.get(name, default) in ("???", inspect.Parameter.empty):
            raise ConfigError(f"{key}.{name} must be given, for example {key}.{name}=….")


def target(node: Node, key: str, trust: Trust = None) -> Target:
    """Return the class or function that a node names, if its group takes such.

    Raises:
        ConfigError: It is not trusted, cannot be found, or is not what the group consists of.
    """
    name = node.get("_target_")
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")) or "." not in name:
        raise ConfigError(f"{key}._target_ must name a class or a function, such as ganexp.losses.Hinge.")
    refuse_foreign(key, name, name, trust)
    try:
        found = pkgutil.resolve_name(":".join(name.rsplit(".", 1)))  # the colon: a function before a module of its name
    except (ImportError, AttributeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{key}._target_={name} cannot be imported: {reason}.") from None
    fits, contract = CONTRACTS.get(key) or CONTRACTS[key.partition(".")[0]]
    if not fits(found):
        raise ConfigError(f"{key}._target_={name} must be {contract}.")
    refuse_foreign(key, name, found.__module__, trust)  # what ganexp itself has imported is not ganexp's
    return found


def refuse_foreign(key: str, name: str, module: str, trust: Trust) -> None:
    """Refuse what is neither ganexp's nor of a module that the user has named.

    Raises:
        ConfigError: The module is neither.
    """
    if trust is None:
        return
    trusted = ("ganexp", *([trust] if isinstance(trust, str) else trust))
    if not any(module == one or module.startswith(f"{one}.") for one in trusted):
        top = module.partition(".")[0]
        raise ConfigError(
            f"{key}._target_={name} is not ganexp's, and would run code of {top}: if you know where this configuration "
            f"comes from, and trust it, add trust={top}."
        )


def members(config: Config, group: str) -> dict[str, Node]:
    """Return what is chosen of a group, by the keys that its members lie under: one, or several in their order.

    Raises:
        ConfigError: There are settings of a member that is not in the list.
    """
    chosen = getattr(config, group)
    if group not in LISTS:
        return {group: chosen}
    for name, node in chosen.items():
        if "_target_" not in node:
            raise ConfigError(unknown_key(f"{group}.{name}", chosen, preset=True))
    return {f"{group}.{name}": node for name, node in chosen.items()}


def typed(config: Config, group: str) -> str:
    """Return the choice of a group as it is typed: `loss=hinge`, `penalty=[r1,spectral]`."""
    chosen = getattr(config, group)
    return f"{group}=[{','.join(chosen)}]" if group in LISTS else f"{group}={name_of(chosen)}"


def subject(key: str, node: Node) -> str:
    """Return what a sentence calls the member of a group that lies under a key: `loss=hinge`, or `wrapper.topk`."""
    return key if key.partition(".")[0] in LISTS else f"{key}={name_of(node)}"


def measures_called(names: Iterable[str], trust: Trust = None) -> list[Measure[Any]]:
    """Return measures by their names, each once: the package's, or module and class of others.

    Raises:
        ConfigError: One is not trusted, cannot be found, or is no measure.
    """
    made = (MEASURES.get(name) or target({"_target_": name}, "evaluation.measures", trust)() for name in dict.fromkeys(names))
    return [*made]


@contextmanager
def said_of(called: str, settings: Collection[str]) -> Iterator[None]:
    """Say in the command line's words that a part does not fit: `settings` are those that are written below its key.

    Raises:
        ConfigError: The part does not fit.
    """
    try:
        yield
    except Misfit as misfit:
        key = called.partition("=")[0]
        named = {f"{key}.{name}" if name in settings else name: value for name, value in misfit.remedy.items()}
        remedy = " or ".join(f"{name}={shown(value)}" for name, value in named.items())
        raise ConfigError(f"{called} {misfit.reason}{f': choose {remedy}' if remedy else ''}.") from None


def settings_of(node: Node, key: str) -> set[str]:
    """Return the names of the settings that a member of a group takes."""
    return {*_configured(target(node, key), key.partition(".")[0])}


def _configured(function: Target, group: str) -> dict[str, Any]:
    """Return the arguments of a target that the run does not give, with their defaults."""
    # A strategy with settings is an object, which is given the GAN when it is called.
    leading = 0 if group == "strategy" and inspect.isclass(function) else FROM_THE_RUN[group]
    parameters = inspect.signature(function).parameters.values()
    named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {p.name: p.default for p in named[leading:] if p.name not in GIVEN.get(group, ())}


def name_of(node: Node) -> str:
    """Return what a member of a group is called."""
    return str(node["name"] if "name" in node else node["_target_"])


def arguments(node: Node, key: str = "") -> dict[str, Any]:
    """Return a node's keyword arguments, given where it lies: `name` is one only in a list, which has names itself."""
    own = ("_target_",) if key.partition(".")[0] in LISTS else ("name", "_target_")
    return {name: value for name, value in node.items() if name not in own}


def make(node: Node, key: str, *positional: Any, **runtime: Any) -> Any:
    """Build what a node describes, with arguments that only the run knows.

    Raises:
        ConfigError: The target is not what its group consists of, refuses an argument with a ValueError, does not fit, or
            cannot read a file.
    """
    made = {name: make(part, f"{key}.{name}") for name, part in _parts(key, node).items()}
    try:
        with said_of(subject(key, node), settings_of(node, key)):
            return target(node, key)(*positional, **arguments(node, key) | made, **runtime)
    except ConfigError:
        raise
    except OSError as error:
        reason = f"{error.strerror}, {str(error.filename)[:200]}" if error.strerror else str(error)
        raise ConfigError(f"{subject(key, node)}: {reason}.") from error
    except ValueError as error:
        raise ConfigError(f"{subject(key, node)}: {error}.") from error


def _parts(key: str, node: Node) -> dict[str, Node]:
    """Return the nodes that a member is made of, by their keys below it: the base of a loss, the torch dataset of a dataset."""
    if key.partition(".")[0] == "loss":
        return {"base": node["base"]} if isinstance(node.get("base"), dict) else {}
    if key == "dataset" and "dataset" in node:
        if not isinstance(node["dataset"], dict):
            raise ConfigError(
                f"{key}.dataset should be a class with its arguments: name it by {key}.dataset._target_=mine.Faces."
            )
        return {"dataset": node["dataset"]}
    return {}


def _is_a(base: type) -> Callable[[Any], bool]:
    return lambda found: inspect.isclass(found) and issubclass(found, base)


def _is_map_style(found: Any) -> bool:
    """Return whether it is a torch dataset whose samples have numbers."""
    return _is_a(MapStyle)(found) and not issubclass(found, IterableDataset)


def _is_optimizer(found: Any) -> bool:
    if not inspect.isfunction(found):
        return _is_a(Optimizer)(found)
    try:
        return _is_a(Optimizer)(get_type_hints(found).get("return"))
    except (NameError, TypeError):
        return False


def _is_measure(found: Any) -> bool:
    """Return whether it is a class of measures that can be constructed without arguments."""
    needs = (p for p in inspect.signature(found).parameters.values() if p.default is p.empty and p.kind not in (2, 4))
    return _is_a(Measure)(found) and not any(needs)


def _is_strategy(found: Any) -> bool:
    """Return whether it is a class of strategies, or can be called as `strategy(gan, reals, d_steps=1, g_steps=1)`."""
    if not inspect.isfunction(found):
        return _is_a(Strategy)(found)
    parameters = list(inspect.signature(found).parameters.values())
    leading = [p for p in parameters[:2] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    steps = {p.name for p in parameters[2:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return len(leading) == 2 and {"d_steps", "g_steps"} <= steps


def _is_logger(found: Any) -> bool:
    """Return whether it is a class of loggers that begin when they are opened, so that making one writes nothing."""
    return _is_a(Logger)(found) and found.open is not Logger.open


CONTRACTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "dataset": (_is_a(Dataset), "a ganexp.data.Dataset, as a class"),
    "dataset.dataset": (_is_map_style, "a subclass of torch.utils.data.Dataset, and no IterableDataset"),
    "generator": (_is_a(nn.Module), "a subclass of torch.nn.Module"),
    "discriminator": (_is_a(nn.Module), "a subclass of torch.nn.Module"),
    "loss": (_is_a(Loss), "a ganexp.losses.Loss, as a class"),
    "penalty": (_is_a(Penalty), "a ganexp.penalties.Penalty, as a class"),
    "augment": (_is_a(Augmentation), "a ganexp.augmentations.Augmentation, as a class"),
    "strategy": (
        _is_strategy,
        "a function of (gan, reals, *, d_steps, g_steps), or a ganexp.strategies.Strategy, as a class",
    ),
    "optimizer": (_is_optimizer, "a torch.optim.Optimizer, as a class or a function annotated to return one"),
    "evaluation.measures": (_is_measure, "a ganexp.evaluation.Measure, as a class that is constructed without arguments"),
    "wrapper": (_is_a(Wrapper), "a ganexp.wrappers.Wrapper, as a class"),
    "schedule": (_is_a(Schedule), "a ganexp.schedules.Schedule, as a class"),
    "average": (_is_a(Average), "a ganexp.training.Average, as a class"),
    "logger": (_is_logger, "a ganexp.logging.Logger with an open of its own, as a class"),
}
"""What a group, or a place in one, consists of: the test of it, and in words."""
