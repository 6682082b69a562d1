"""The strategies of the page, with their coefficients; a new one is one line here, and tape.py records it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

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
        name: Its name in conf/strategy, or in conf/wrapper.
        colors: On light and on dark ground; those of strategies likely to be shown together can be told apart in any kind of
            colour vision, and dashes tell apart the rest.
        dash: Lengths of dash and gap in pixels; empty for a solid line.
        words: What it does, in a few words.
        coefficient: Its own slider, if it has one.
        also: Strategies that go the same way on this page's games.
        exactly: Settings that make an iterative strategy exact on a game of two weights.
        around: What a wrapper stands around: a strategy, or another entry.
        cycle: After how many iterations the same operations come again.
    """

    name: str
    colors: tuple[str, str]
    dash: tuple[int, ...]
    words: str
    coefficient: Coefficient | None = None
    also: tuple[str, ...] = ()
    exactly: tuple[tuple[str, float], ...] = ()
    around: str = ""
    cycle: int = 1


ORANGE, BLUE, GREEN, PINK = ("#c2500a", "#ff8f52"), ("#0b6fb3", "#5cb8f5"), ("#00805c", "#3ad6a8"), ("#a8457f", "#f490cb")
VIOLET, GREY, YELLOW = ("#5f3dc4", "#b9a3ff"), ("#495057", "#ced4da"), ("#856300", "#f0c53a")
LINE, DASHED, DOTTED, MIXED = (), (7, 4), (2, 3), (10, 3, 2, 3)

SHOWN = (
    Shown("joint", ORANGE, LINE, "both networks step from the same point", also=("one_stage", "g_first")),
    Shown("detach", BLUE, LINE, "D steps, then G answers", also=("resample", "retain_graph", "reuse_z")),
    Shown("g_first_resample", BLUE, DASHED, "G steps, then D answers", also=("g_first_reuse_z",)),
    Shown(
        "alex_gda", BLUE, DOTTED, "D steps, G answers as if D had gone further", Coefficient("gamma", "γ", 0.0, 3.0, 0.25, 2.0)
    ),
    Shown(
        "extragradient",
        GREEN,
        LINE,
        "look a steps ahead, go back, step with the gradient found there",
        Coefficient("ahead", "a", 0.5, 3.0, 0.25, 1.0),
    ),
    Shown("past_extragradient", GREEN, DASHED, "look ahead along the previous gradient, step with the one there"),
    Shown("anchoring", GREEN, MIXED, "extragradient, drawn back to the start less and less", around="extragradient"),
    Shown("runge_kutta", GREEN, DOTTED, "follow the flow itself, to order p", Coefficient("order", "p", 2, 4, 2, 2)),
    Shown(
        "lookahead",
        PINK,
        LINE,
        "five steps of joint, then a part of the way back",
        Coefficient("alpha", "α", 0.1, 1.0, 0.1, 0.5),
        around="joint",
        cycle=5,
    ),
    Shown(
        "outer_lookahead",
        PINK,
        DASHED,
        "lookahead, and every 25 iterations a part of that way back too",
        Coefficient("alpha", "α", 0.1, 1.0, 0.1, 0.5),
        around="lookahead",
        cycle=25,
    ),
    Shown(
        "consensus", VIOLET, LINE, "descend the length of the gradient as well", Coefficient("gamma", "γ", 0.0, 2.0, 0.1, 0.5)
    ),
    Shown("jare", VIOLET, DOTTED, "descend the length of the other's gradient", Coefficient("gamma", "γ", 0.0, 2.0, 0.1, 0.5)),
    Shown("symplectic", VIOLET, DASHED, "turn against the rotation", Coefficient("strength", "λ", 0.0, 2.0, 0.1, 0.5)),
    Shown("hamiltonian", VIOLET, MIXED, "descend the length of the gradient, and nothing else"),
    Shown("competitive", GREY, LINE, "each expects the other's answer", exactly=(("tolerance", 1e-14), ("steps", 1))),
    Shown("lead", GREY, DASHED, "expect the other's last motion once more", Coefficient("alpha", "α", 0.0, 2.0, 0.1, 1.0)),
    Shown("drift", GREY, DOTTED, "take away what finite steps add to the flow"),
    Shown("unrolled", YELLOW, LINE, "G steps against the D that k further steps would make", Coefficient("k", "k", 1, 9, 4, 5)),
    Shown(
        "follow_the_ridge",
        YELLOW,
        DASHED,
        "D moves along as G changes what is best for D",
        Coefficient("damping", "λ", 0.0, 1.0, 0.1, 0.1),
        exactly=(("tolerance", 1e-14), ("steps", 1)),
    ),
)
BY_NAME = {one.name: one for one in SHOWN}


def made(name: str, coefficient: float | None, settings: Settings) -> Strategy:
    """Return a new instance of a strategy of ganexp, by its own name or one in `also`, with its coefficient if it has one.

    Steps of the strategy's own, such as those of `unrolled`, have the learning rate as their size.
    """
    shown = BY_NAME.get(name)
    if shown is not None and shown.around:
        node = _node(CONF / "wrapper" / f"{name}.yaml")[name]
    else:
        node = _node(CONF / "strategy" / f"{name}.yaml")
    found, own = target(node, "strategy"), settings_of(node)
    if own.get("rate") is not None:  # where it is None, it is the optimisers' own
        own["rate"] = settings.rate
    if shown is not None:
        own |= dict(shown.exactly)
        if shown.coefficient is not None and coefficient is not None:
            own[shown.coefficient.key] = type(own[shown.coefficient.key])(coefficient)
        if shown.around:
            return found(made(shown.around, None, settings), **own)
    return found(**own) if isinstance(found, type) else found


def _node(file: Path) -> dict[str, Any]:
    return dict(OmegaConf.to_container(OmegaConf.load(file)))  # type: ignore[arg-type]
