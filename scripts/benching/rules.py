"""The update rules that are compared, and the ranges in which their own coefficients are tuned."""

import importlib
import inspect
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benching.space import DIMENSIONS, DIVISIONS, VERSION, Coefficient, Point, crossed, point
from ganexp.wrappers import Wrapper

BASE = "detach"
"""What every other rule is compared with."""
TUNING_SEED = 1000


@dataclass(frozen=True)
class Rule:
    """An update rule.

    Args:
        name: What it is called.
        overrides: As for `train.py`.
        coefficients: What is tuned besides the rates and the momentum, in ranges around the values of its paper.
        draw: At which set of points it is tuned, and with which seeds.
    """

    name: str
    overrides: tuple[str, ...]
    coefficients: tuple[Coefficient, ...] = ()
    draw: int = VERSION

    def at(self, number: int, division: str, *, extended: bool = False) -> Point:
        """Return a point of its space; the arguments are those of `point`."""
        return point(number, DIVISIONS[division], self.coefficients, extended=extended, draw=self.draw)

    def crossed(self, number: int, division: str) -> list[int]:
        """Return the points with the rates of this one and other coefficients; none if it has no coefficients."""
        return crossed(number) if any(division in one.divisions for one in self.coefficients) else []

    @property
    def tuning_seed(self) -> int:
        """The seed of its tuning runs; those that follow it are for the choice among its best points."""
        return TUNING_SEED * self.draw


def _strategy(name: str, *coefficients: Coefficient, fixed: Sequence[str] = ()) -> Rule:
    return Rule(name, (f"strategy={name}", *fixed), coefficients)


def _wrapper(name: str, *coefficients: Coefficient, fixed: Sequence[str] = ()) -> Rule:
    return Rule(name, ("strategy=detach", f"wrapper=[{name}]", *fixed), coefficients)


def _log(key: str, low: float, high: float, *divisions: str) -> Coefficient:
    return Coefficient(key, low, high, "log", divisions=divisions or ("adam", "sgd"))


_RULES = (
    _strategy("detach"),
    _strategy("resample"),
    _strategy("g_first_resample"),
    _strategy("joint"),
    _strategy("past_extragradient"),
    # Lee et al. 2024: both at least 1, of which prediction is (2, 1)
    _strategy("alex_gda", Coefficient("strategy.gamma", 1, 3), Coefficient("strategy.delta", 1, 3)),
    # Gidel et al. 2019: 1; Hsieh et al. 2020: longer
    _strategy("extragradient", _log("strategy.ahead", 0.5, 10)),
    # Mishchenko et al. 2020
    Rule(
        "extragradient_same_batch",
        ("strategy=extragradient", "strategy.same_batch=true"),
        (_log("strategy.ahead", 0.5, 10),),
    ),
    # Qin et al. 2020: 0.01 and around, Heun's method
    _strategy("runge_kutta", _log("strategy.rate", 1e-3, 1e-1, "adam"), _log("strategy.regulariser", 1e-4, 1e-1)),
    _strategy("jare", _log("strategy.gamma", 1e-2, 10)),  # Nie & Patel 2020
    _strategy("consensus", _log("strategy.gamma", 1e-1, 10)),  # Mescheder et al. 2017: 0.1 to 10
    _strategy("hamiltonian"),
    _strategy("drift", _log("strategy.rate", 1e-4, 1e-1, "adam")),  # Rosca et al. 2021: the learning rate
    _strategy("lead", _log("strategy.alpha", 1e-1, 10)),  # Askari Hemmat et al. 2023: about 1 in units of the rate
    _strategy("symplectic", _log("strategy.strength", 1e-1, 10)),  # Balduzzi et al. 2018: 1
    _strategy("follow_the_ridge", _log("strategy.damping", 1e-2, 10)),  # Wang et al. 2020
    _strategy("unrolled", _log("strategy.rate", 1e-3, 1e-1)),  # Metz et al. 2017: the rate of D's optimiser; k = 5
    _strategy("competitive", _log("strategy.rate", 1e-3, 1, "adam")),  # Schäfer & Anandkumar 2019
    # Chavdarova et al. 2021: 0.5, every 5 and more
    _wrapper(
        "lookahead",
        Coefficient("wrapper.lookahead.every", values=("5", "10", "20", "50")),
        Coefficient("wrapper.lookahead.alpha", 0.3, 0.8),
    ),
    Rule("anchoring", ("strategy=extragradient", "wrapper=[anchoring]")),
    # Sinha et al. 2020: 0.5 and 0.75
    _wrapper("topk", Coefficient("wrapper.topk.nu", 0.25, 0.9), fixed=("wrapper.topk.gamma=0.9", "wrapper.topk.every=50")),
    _wrapper("replay", Coefficient("wrapper.replay.share", 0.25, 0.75)),  # Shrivastava et al. 2017: 0.5
    # Wu et al. 2019: 0.9 and 5
    _wrapper("latent_step", Coefficient("wrapper.latent_step.alpha", 0.1, 1), _log("wrapper.latent_step.beta", 0.5, 50)),
)
RULES = {rule.name: rule for rule in _RULES}
_R1 = ("+penalty.r1._target_=ganexp.penalties.R1", "+penalty.r1.weight=1", "+penalty.r1.every=1")
"""Beside whatever penalty the loss brings along."""
ADDED = {
    rule.name: rule
    for rule in (
        Rule("detach_again", ("strategy=detach",), draw=2),  # a control: `detach`, tuned at other points with another seed
        Rule("detach_r1", ("strategy=detach", *_R1), (_log("penalty.r1.weight", 1e-2, 1e2),)),  # Mescheder et al. 2018: 10
    )
}
"""Added when the results of `RULES` were known. They are judged as a rule of one's own is, and change no verdict on others."""
KNOWN = RULES | ADDED


def own(target: str, coefficients: Sequence[str]) -> Rule:
    """Return a rule for a class or function of the user's own.

    Args:
        target: Where it is imported from, as in `mine.Rule`: a strategy, or a wrapper, which goes around `detach`.
        coefficients: What is tuned, as in `gamma=0.01..10`: from low to high by equal ratios, or by equal differences where low
            is not above 0. An argument that is annotated as `int` is tuned over integers; so is one without annotation whose
            default is an integer, between ends without a point.

    Raises:
        ValueError: There is no such class or function, a range is invalid, or there are too many of them.
    """
    module, _, name = target.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, TypeError, ValueError) as error:  # a TypeError by ./mine.Rule
        raise ValueError(
            f"--rule {target} cannot be imported ({error}): name it as in mine.Rule, from the current folder"
        ) from None
    place, overrides = "strategy", ("strategy=detach", f"strategy._target_={target}", f"strategy.name={name}")
    if inspect.isclass(found) and issubclass(found, Wrapper):
        place, overrides = "wrapper.own", ("strategy=detach", "wrapper=[]", f"+wrapper.own._target_={target}")
    parameters = inspect.signature(found, eval_str=True).parameters
    ranges = tuple(_range(place, one, parameters) for one in coefficients)
    if len(ranges) > DIMENSIONS - 3:
        raise ValueError(f"--tune names {len(ranges)} coefficients, and a rule is tuned by at most {DIMENSIONS - 3}")
    return Rule(target, overrides, ranges)


def _range(place: str, typed: str, parameters: Mapping[str, inspect.Parameter]) -> Coefficient:
    key, _, ends = typed.partition("=")
    low, _, high = ends.partition("..")
    try:
        numbers = float(low), float(high)
    except ValueError:
        numbers = 0.0, 0.0
    if not key.isidentifier() or not -math.inf < numbers[0] < numbers[1] < math.inf:
        raise ValueError(f"--tune {typed} is no range: write it as in gamma=0.01..10")
    whole = _is_integer(parameters.get(key), ends)
    if whole and not all(end.is_integer() for end in numbers):
        raise ValueError(f"--tune {typed}: {key} is an integer, so its range begins and ends at integers, as in {key}=1..10")
    return Coefficient(f"++{place}.{key}", *numbers, "log" if numbers[0] > 0 else "linear", whole=whole)


def _is_integer(parameter: inspect.Parameter | None, ends: str) -> bool:
    """Return whether an argument is annotated as `int`; without annotation, whether its default and the typed ends are."""
    if parameter is None:
        return False
    if parameter.annotation is inspect.Parameter.empty:
        return type(parameter.default) is int and re.fullmatch(r"-?\d+\.\.-?\d+", ends) is not None
    return getattr(parameter.annotation, "__origin__", parameter.annotation) is int
