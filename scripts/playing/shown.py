"""Which strategies the page shows, with their coefficients: a new one is one line here and one recurrence in recurrences.js.

Lines whose YAML is not in conf/strategy are left out.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ganexp import strategies, wrappers
from ganexp.config.choices import settings_of
from ganexp.config.targets import target
from playing.games import Settings, Strategy

CONF = Path(__file__).resolve().parent.parent.parent / "conf"


@dataclass(frozen=True)
class Coefficient:
    """A strategy's own setting, as a slider."""

    key: str
    symbol: str
    low: float
    high: float
    step: float
    default: float

    @property
    def stops(self) -> tuple[float, float, float]:
        """Its ends and its default."""
        return self.low, self.default, self.high


@dataclass(frozen=True)
class Shown:
    """One strategy of the page.

    Args:
        name: In conf/strategy, or `lookahead`, which stands for the wrapper around `joint`.
        colors: On light and on dark ground; those of strategies likely to be shown together can be told apart in any kind of
            colour vision, and a dash and a marker tell apart the rest.
        dash: Lengths of dash and gap in pixels; empty for a line.
        words: What it does, in a few words.
        coefficient: Its own slider, if it has one.
        also: Strategies that go the same way on this page's games.
        exactly: Settings that make an iterative strategy exact.
    """

    name: str
    colors: tuple[str, str]
    dash: tuple[int, ...]
    words: str
    coefficient: Coefficient | None = None
    also: tuple[str, ...] = ()
    exactly: tuple[tuple[str, float], ...] = ()

    @property
    def exists(self) -> bool:
        """Whether the project has it."""
        return self.name == "lookahead" or (CONF / "strategy" / f"{self.name}.yaml").exists()


ALL = (
    Shown("joint", ("#c2500a", "#ff8f52"), (), "both networks step from the same point", also=("one_stage", "g_first")),
    Shown("detach", ("#0b6fb3", "#5cb8f5"), (), "D steps, then G answers", also=("resample", "retain_graph", "reuse_z")),
    Shown("g_first_resample", ("#0b6fb3", "#5cb8f5"), (7, 4), "G steps, then D answers"),
    Shown("extragradient", ("#00805c", "#3ad6a8"), (), "look one step ahead, step with the gradient found there"),
    Shown(
        "lookahead",
        ("#a8457f", "#f490cb"),
        (),
        "five steps of joint, then a part of the way back",
        Coefficient("alpha", "α", 0.1, 1.0, 0.1, 0.5),
    ),
    Shown(
        "past_extragradient", ("#00805c", "#3ad6a8"), (7, 4), "look ahead along the previous gradient, step with the one there"
    ),
    Shown(
        "consensus",
        ("#5f3dc4", "#b9a3ff"),
        (),
        "descend the length of the gradient as well",
        Coefficient("gamma", "γ", 0.0, 2.0, 0.1, 0.5),
    ),
    Shown(
        "symplectic",
        ("#5f3dc4", "#b9a3ff"),
        (7, 4),
        "turn against the rotation",
        Coefficient("strength", "λ", 0.0, 2.0, 0.1, 0.5),
    ),
    Shown("competitive", ("#495057", "#ced4da"), (), "each expects the other's answer", exactly=(("tolerance", 1e-14),)),
    Shown(
        "unrolled",
        ("#856300", "#f0c53a"),
        (),
        "G steps against the D that k further steps would make",
        Coefficient("k", "k", 0, 10, 1, 5),
    ),
)
SHOWN = tuple(one for one in ALL if one.exists)


def made(name: str, coefficient: float | None, settings: Settings) -> Strategy:
    """Return a strategy of the project's, by its own name or one in `also`, with its coefficient if it has one.

    Steps of its own, such as those of `unrolled`, have the learning rate for their size.
    """
    if name == "lookahead":
        return wrappers.Lookahead(strategies.joint, every=5, alpha=0.5 if coefficient is None else coefficient)
    node: dict[str, Any] = dict(OmegaConf.to_container(OmegaConf.load(CONF / "strategy" / f"{name}.yaml")))  # type: ignore[arg-type]
    found, own = target(node, "strategy"), settings_of(node)
    if "rate" in own:
        own["rate"] = settings.rate
    for one in ALL:
        if one.name == name:
            own |= dict(one.exactly)
        if one.name == name and one.coefficient is not None and coefficient is not None:
            own[one.coefficient.key] = type(own[one.coefficient.key])(coefficient)
    return found(**own) if isinstance(found, type) else found
