"""The choices of a configuration: each names a class and its settings, which are checked before anything is made."""

import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, get_origin, get_type_hints

from torch import nn
from torch.utils.data import Dataset as MapStyle

from ganexp.config.defaults import options_in
from ganexp.config.parsing import check_type, shown, unknown_key
from ganexp.config.remedies import REMEDIES
from ganexp.config.schema import AUTO, GROUPS, LISTS, Config, Node, Nodes
from ganexp.config.targets import CONTRACTS, Target, Trust, target
from ganexp.data import Dataset
from ganexp.data.dataset import Size
from ganexp.facts import Facts, Misfit, UserError
from ganexp.printable import one_line


@dataclass(frozen=True)
class Choice:
    """A class or function that a configuration names, and its settings.

    Args:
        key: Where it lies: `loss`, `optimizer.g`, `penalty.r1`, `loss.base`.
        name: The name by which it was chosen.
        target: The class or function.
        settings: Its keyword arguments, as plain values.
        takes: Names of all settings that it takes.
        inner: What it is made of, by keyword argument: the base of a loss, the torch dataset of a dataset, its transforms.
    """

    key: str
    name: str
    target: Target
    settings: Mapping[str, Any]
    takes: Collection[str]
    inner: Mapping[str, "Choice | list[Any]"]

    @property
    def called(self) -> str:
        """Its name in messages: `loss=hinge`, or `wrapper.topk`."""
        return self.key if self.key.partition(".")[0] in LISTS else f"{self.key}={self.name}"

    def make(self, *positional: Any, **given: Any) -> Any:
        """Make the part from its settings and from arguments that the run gives."""
        inner = {
            name: part.make if self._makes_networks and isinstance(part, Choice) else _made(part)
            for name, part in self.inner.items()
        }
        try:
            with self.saying():
                part = self.target(*positional, **self.settings, **inner, **given)
                if isinstance(part, nn.Module) and "_modules" not in vars(part):
                    raise Misfit(f"needs super().__init__() in the __init__ of {type(part).__name__}, before anything else")
                return part
        except UserError:  # a misfit, in the command line's words
            raise
        except (OSError, ValueError, TypeError, RuntimeError) as error:
            raise self._sentence(error) from error

    def _sentence(self, error: Exception) -> Exception:
        """Return what a part has raised as a sentence; an error that may be a bug is returned as it is."""
        if isinstance(error, OSError):
            reason = f"{error.strerror}, {str(error.filename)[:200]}" if error.strerror else str(error)
            return UserError(f"{self.called}: {reason}.")
        if isinstance(error, ValueError):
            return UserError(f"{self.called}: {error}.")
        if not self.target.__module__.startswith("torchvision."):  # of anyone else's class, it may be a bug
            return error
        return UserError(f"{self.key}._target_={self.name} cannot be made of these settings: {one_line(error)}.")

    @property
    def _makes_networks(self) -> bool:
        """Whether what it is made of are networks, which it makes itself, of shapes that it knows."""
        return self.key.partition(".")[0] in ("generator", "discriminator")

    def ask(self, check: Callable[[Facts], None], facts: Facts) -> None:
        """Ask the part whether it fits the run, and raise a misfit in the command line's words.

        Args:
            check: The function that tells whether the part fits.
            facts: The facts of the run, to whose warnings the part may add.
        """
        before = len(facts.warnings)
        with self.saying():
            check(facts)
        facts.warnings[before:] = [f"{self.called} {sentence}." for sentence in facts.warnings[before:]]

    @contextmanager
    def saying(self) -> Iterator[None]:
        """Raise a `Misfit` of the block as a `UserError` in the command line's words."""
        try:
            yield
        except Misfit as misfit:
            raise as_user_error(misfit, self.called, self.takes) from None


@dataclass(frozen=True)
class Choices:
    """The choices of a configuration, by key."""

    config: Config
    by_key: Mapping[str, Choice]

    def __getitem__(self, key: str) -> Choice:
        """Return the choice at a key."""
        return self.by_key[key]

    def of(self, group: str) -> list[Choice]:
        """Return the members of a group that is a list, in their order."""
        return [choice for key, choice in self.by_key.items() if key.startswith(f"{group}.")]

    def typed(self, group: str) -> str:
        """Return the choice of a group as it is typed: `loss=hinge`, `penalty=[r1,spectral]`."""
        return f"{group}=[{','.join(getattr(self.config, group))}]" if group in LISTS else self[group].called


def chosen_by(config: Config, trust: Trust = None) -> Choices:
    """Find the class or function that each group names, and check its settings; nothing is made."""
    choices = [choice for group in GROUPS if group != "optimizer" for choice in chosen_of(config, group, trust)]
    for side in ("g", "d"):
        if not isinstance(config.optimizer.get(side), dict):
            raise UserError(f"optimizer.{side} must be a group of settings, as in conf/optimizer/adam.yaml.")
        choices.append(choose(f"optimizer.{side}", config.optimizer[side], trust, inherited=config.optimizer))
    shared = {"name", "g", "d"}.union(*(choice.settings for choice in choices[-2:]))
    for name in config.optimizer:
        if name not in shared:
            raise UserError(unknown_key(f"optimizer.{name}", shared))
    return Choices(config, {choice.key: choice for choice in choices})


def chosen_of(config: Config, group: str, trust: Trust = None) -> list[Choice]:
    """Find the members of a group, one or several in their order; for `measure`, also those that `auto` may take."""
    chosen = getattr(config, group)
    if group not in LISTS:
        return [choose(group, chosen, trust)]
    chosen = measures_in(chosen) if group == "measure" else chosen
    for name, node in chosen.items():
        if "_target_" not in node:
            raise UserError(unknown_key(f"{group}.{name}", chosen, preset=True))
    return [choose(f"{group}.{name}", node, trust) for name, node in chosen.items()]


def measures_in(chosen: Mapping[str, Node]) -> Nodes:
    """Return the measures of a list by name, with `auto` replaced by all those that it may take."""
    listed = ({name: node} if name != AUTO else node or options_in("measure") for name, node in chosen.items())
    return {name: chosen.get(name, node) for members in listed for name, node in members.items()}


def choose(key: str, node: Node, trust: Trust = None, *, inherited: Mapping[str, Any] = MappingProxyType({})) -> Choice:
    """Find the class or function that a node names, and check its settings against the signature; nothing is made.

    Args:
        key: Where the node lies.
        node: The target, and its settings.
        trust: Modules from which it may come.
        inherited: Settings of the group that the node may inherit; mistakes in inherited ones are reported at the group's key.
    """
    group = key.partition(".")[0]
    function = target(node, key, trust)
    try:
        hints = get_type_hints(function.__init__ if inspect.isclass(function) else function, include_extras=True)
        known = CONTRACTS[group].configured(function)
    except (ValueError, TypeError, NameError) as error:
        raise UserError(f"{key}._target_={node['_target_']} has no signature to check against: {error}.") from None
    hints = {name: float for name, default in known.items() if type(default) in (int, float)} | hints  # for unannotated ones
    if group not in LISTS and not re.fullmatch(r"[\w.-]+", str(node.get("name", "x")), re.ASCII):
        raise UserError(f"{key}.name must consist of letters, digits and . _ -; got {node['name']}.")
    settings, inner = settings_of(node, key), {}
    for name, value in settings.items():
        below = f"{key}.{name}"
        if name not in known:
            raise UserError(unknown_key(below, known, preset=True))
        if _names_targets(value) and (get_origin(hints.get(name)) or hints.get(name)) is not dict:
            inner[name] = _chosen(below, value, trust)
        elif name in hints and value != "???":
            if _is_a_part(hints[name]):
                if name == "of":
                    raise UserError(f"{below} is a choice of its own, as in {group}@{below}=…; got {shown(value)}.")
                raise UserError(f"{below} should be a class with its arguments: name it by {below}._target_=mine.Faces.")
            if hints[name] in (Size, Size | None) and (sides := re.fullmatch(r"(\d{1,9})[x×](\d{1,9})", str(value))):
                settings[name] = value = [int(sides[2]), int(sides[1])]  # image programs write the width first
            taken_over = name in inherited and repr(inherited[name]) == repr(value)  # NaN is not equal to itself
            check_type(f"{group if taken_over else key}.{name}", value, hints[name])
    for name, default in known.items():
        if node.get(name, default) in ("???", inspect.Parameter.empty):
            raise UserError(f"{key}.{name} must be given, for example {key}.{name}=….")
    own = {name: value for name, value in settings.items() if name not in inner}
    return Choice(key, name_of(node), function, own, known.keys(), inner)


def name_of(node: Node) -> str:
    """Return what a member of a group is called."""
    return str(node["name"] if "name" in node else node["_target_"])


def settings_of(node: Node, key: str = "") -> dict[str, Any]:
    """Return the keyword arguments of the node at a key; `name` is one only in a list, which names its members itself."""
    names = ("_target_",) if key.partition(".")[0] in LISTS else ("name", "_target_")
    return {name: value for name, value in node.items() if name not in names}


def as_user_error(misfit: Misfit, called: str, settings: Collection[str]) -> UserError:
    """Return the sentence for a part's `Misfit`: about what is `called`, with the names of its settings below its key."""
    key = called.partition("=")[0]
    named = {f"{key}.{name}" if name in settings else name: value for name, value in misfit.remedy.items()}
    named |= REMEDIES.get(misfit.lack, {})
    remedy = " or ".join(f"{name}={shown(value)}" for name, value in named.items())
    return UserError(f"{called} {misfit.reason}{f': choose {remedy}' if remedy else ''}.")


def _names_targets(value: Any) -> bool:
    """Return whether a setting is a node, or a list with nodes in it."""
    return "_target_" in value if isinstance(value, dict) else isinstance(value, list) and any(map(_names_targets, value))


def _is_a_part(hint: Any) -> bool:
    """Return whether an annotation is that of data sets or of what makes networks, which no plain value is."""
    kind = get_origin(hint) or hint
    return kind is Callable or (inspect.isclass(kind) and issubclass(kind, (Dataset, MapStyle)))


def _chosen(key: str, part: Any, trust: Trust) -> Any:
    """Find what a setting names that is a node, or a list with nodes in it; anything else in the list stays as it is."""
    if isinstance(part, list):
        return [_chosen(f"{key}.{place}", item, trust) if _names_targets(item) else item for place, item in enumerate(part)]
    return choose(key, part, trust)


def _made(part: Any) -> Any:
    return part.make() if isinstance(part, Choice) else [_made(item) for item in part] if isinstance(part, list) else part
