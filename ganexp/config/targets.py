"""Resolves `_target_`: the class or function is imported, and checked against its group's contract, before it is called.

Importing a module runs its code, and so does calling what is in it. Hence two barriers, in this order: for a checkpoint or
someone else's run folder, only ganexp's modules, those of plugins, and those that the user has named are imported; and whatever
is found must meet the contract of its group, so that `os.system` is refused as a loss, wherever its name comes from.
"""

import inspect
import pkgutil
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_type_hints

from torch import nn
from torch.optim import Optimizer
from torch.utils.data import Dataset as MapStyle
from torch.utils.data import IterableDataset

from ganexp.augmentations import Augmentation
from ganexp.config.plugins import plugins
from ganexp.config.schema import Node
from ganexp.data import Dataset
from ganexp.evaluation import Measure
from ganexp.facts import UserError
from ganexp.logging import Logger
from ganexp.losses import Loss
from ganexp.penalties import Penalty
from ganexp.printable import one_line
from ganexp.schedules import Schedule
from ganexp.strategies import Strategy
from ganexp.terms import Balance, Term
from ganexp.training import Average
from ganexp.wrappers import Wrapper

Target = Callable[..., Any]
Trust = Sequence[str] | str | None
"""Modules besides ganexp's from which targets may come; None allows any, for what the user has typed."""


def target(node: Node, key: str, trust: Trust = None) -> Target:
    """Return the class or function that a node names, if its group takes it."""
    name = node.get("_target_")
    if not isinstance(name, str) or not all(part.isidentifier() for part in name.split(".")) or "." not in name:
        raise UserError(f"{key}._target_ must name a class or a function, by its module and name.")
    if trust is not None:
        refuse_foreign(key, name, name, trust)
    try:
        member = pkgutil.resolve_name(":".join(name.rsplit(".", 1)))  # with a colon, a function wins over a module of its name
    except (ImportError, AttributeError, ValueError) as error:
        reason, module = one_line(error), name.partition(".")[0]
        if isinstance(error, ModuleNotFoundError) and error.name == module:
            reason += f". If {module}.py is in this folder, put PYTHONPATH=. before the command"
        raise UserError(f"{key}._target_={name} cannot be imported: {reason}.") from None
    place = re.sub(r"^dataset(\.of)+(?=\.|$)", "dataset", key)  # a data set inside another is chosen as the outer one
    place = "dataset.dataset.…" if place.startswith("dataset.dataset.") else place
    contract = CONTRACTS.get(place) or CONTRACTS[key.partition(".")[0]]
    if not contract.fits(member):
        raise UserError(f"{key}._target_={name} must be {contract.description}.")
    return member


def refuse_foreign(key: str, name: str, module: str, trust: Sequence[str] | str) -> None:
    """Refuse a module that is neither ganexp's nor a plugin's nor one that the user has named."""
    trusted = ("ganexp", *(plugin.module for plugin in plugins()), *([trust] if isinstance(trust, str) else trust))
    if not any(module == allowed or module.startswith(f"{allowed}.") for allowed in trusted):
        top = module.partition(".")[0]
        raise UserError(
            f"{key}._target_={name} is not ganexp's, and would run code of {top}: if you know where this configuration "
            f"comes from, and trust it, add trust={top} (for ganexp's commands, --trust {top})."
        )


def _is_a(base: type) -> Callable[[Any], bool]:
    return lambda member: inspect.isclass(member) and issubclass(member, base)


def _is_map_style(member: Any) -> bool:
    """Return whether it is a torch dataset whose samples have indices."""
    return _is_a(MapStyle)(member) and not issubclass(member, IterableDataset)


def _is_made_to_be_called(member: Any) -> bool:
    """Return whether it is a class of transforms, or of whatever else maps a sample, or a torch dataset inside another."""
    return inspect.isclass(member) and ("__call__" in dir(member) or _is_map_style(member)) and not issubclass(member, type)


def _is_optimizer(member: Any) -> bool:
    if not inspect.isfunction(member):
        return _is_a(Optimizer)(member)
    try:
        return _is_a(Optimizer)(get_type_hints(member).get("return"))
    except (NameError, TypeError):
        return False


def _is_strategy(member: Any) -> bool:
    """Return whether it is a class of strategies, or can be called as `strategy(gan, reals, d_steps=1, g_steps=1)`."""
    if not inspect.isfunction(member):
        return _is_a(Strategy)(member)
    parameters = list(inspect.signature(member).parameters.values())
    leading = [p for p in parameters[:2] if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    steps = {p.name for p in parameters[2:] if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    return len(leading) == 2 and {"d_steps", "g_steps"} <= steps


def _is_logger(member: Any) -> bool:
    """Return whether it is a logger class with its own `open`, so that making a logger writes nothing."""
    return _is_a(Logger)(member) and member.open is not Logger.open


@dataclass(frozen=True)
class Contract:
    """What a group, or a place in one, takes.

    Args:
        fits: Whether it takes a class or a function.
        description: What it takes, in words.
        leading: How many leading arguments come from the run, and not from the configuration.
        given: Keyword arguments that the run gives as well.
    """

    fits: Callable[[Any], bool]
    description: str
    leading: int = 0
    given: tuple[str, ...] = ()

    def configured(self, target: Target) -> dict[str, Any]:
        """Return the arguments of a target that the run does not give, with their defaults."""
        # An object of a strategy class is given the GAN and the reals when it is called; for a function they are the first two.
        leading = 2 if self.fits is _is_strategy and not inspect.isclass(target) else self.leading
        parameters = inspect.signature(target).parameters.values()
        named = [p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return {p.name: p.default for p in named[leading:] if p.name not in self.given}


CONTRACTS = {
    "dataset": Contract(_is_a(Dataset), "a subclass of ganexp.data.Dataset"),
    "dataset.dataset": Contract(_is_map_style, "a subclass of torch.utils.data.Dataset, and no IterableDataset"),
    "dataset.dataset.…": Contract(
        _is_made_to_be_called, "a class whose objects are called, as transforms are, or a torch dataset"
    ),
    "generator": Contract(_is_a(nn.Module), "a subclass of torch.nn.Module", leading=2, given=("classes",)),
    "discriminator": Contract(_is_a(nn.Module), "a subclass of torch.nn.Module", leading=1, given=("classes", "source")),
    "loss": Contract(_is_a(Loss), "a subclass of ganexp.losses.Loss"),
    "penalty": Contract(_is_a(Penalty), "a subclass of ganexp.penalties.Penalty"),
    "balance": Contract(_is_a(Balance), "a subclass of ganexp.terms.Balance"),
    "term": Contract(_is_a(Term), "a subclass of ganexp.terms.Term"),
    "augment": Contract(_is_a(Augmentation), "a subclass of ganexp.augmentations.Augmentation"),
    "strategy": Contract(
        _is_strategy,
        "a function of (gan, reals, *, d_steps, g_steps), or a subclass of ganexp.strategies.Strategy",
        given=("d_steps", "g_steps"),
    ),
    "optimizer": Contract(
        _is_optimizer, "a subclass of torch.optim.Optimizer, or a function annotated to return one", leading=1
    ),
    "measure": Contract(_is_a(Measure), "a subclass of ganexp.evaluation.Measure"),
    "wrapper": Contract(_is_a(Wrapper), "a subclass of ganexp.wrappers.Wrapper", leading=1),
    "schedule": Contract(_is_a(Schedule), "a subclass of ganexp.schedules.Schedule", leading=1),
    "average": Contract(_is_a(Average), "a subclass of ganexp.training.Average", leading=2),
    "logger": Contract(_is_logger, "a subclass of ganexp.logging.Logger with its own method open"),
}
"""What each group takes, or a place in one."""
