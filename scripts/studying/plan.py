"""What the study compares: settings, losses and strategies, and what each may be tuned by."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

EVALUATIONS = 8
"""So many times is every compared run judged, evenly over its iterations."""
TUNING_RUNS = 4
"""So many short searches has every strategy for each loss: two rates × two coefficients, or two rates × two seeds."""
TUNING_SEEDS = (100, 101)
"""Seeds of the search: none of those that are compared."""


@dataclass(frozen=True)
class Setting:
    """A data set with networks for it.

    Args:
        overrides: As for `train.py`.
        iterations: How long a run is.
        metric: By what runs are compared; the lowest is best.
        unit: What that is called in tables.
        losses: The losses that are tried.
        rates: The two learning rates, of both networks, that every strategy is tuned over.
    """

    overrides: tuple[str, ...]
    iterations: int
    metric: str
    unit: str
    losses: tuple[str, ...]
    rates: tuple[str, str]


@dataclass(frozen=True)
class Choice:
    """A strategy, and the coefficient of its own that it is tuned by, if it has one."""

    overrides: tuple[str, ...]
    coefficient: str = ""
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """A strategy for a loss in a setting, all by name: what is tuned, and then compared."""

    setting: str
    loss: str
    strategy: str


_POINTS = ("generator.width=64", "discriminator.width=64", "threads=1")
_IMAGES = ("dataset.image_size=16", "discriminator.batch_norm=false", "threads=1")
_W2, _FID = ("eval/sliced_wasserstein", "sliced Wasserstein distance"), ("eval/fid", "FID in the classifier's features")
_ALL = ("nonsaturating", "hinge", "lsgan", "wgan_gp", "softmaxgan")
_THREE = ("nonsaturating", "lsgan", "wgan_gp")
_FOUR = ("nonsaturating", "hinge", "wgan_gp", "softmaxgan")

SETTINGS = {
    "ring": Setting(("experiment=ring", *_POINTS), 1000, *_W2, _ALL, ("5e-4", "2e-3")),
    "grid": Setting(("experiment=ring", "dataset=grid", *_POINTS), 1200, *_W2, _THREE, ("5e-4", "2e-3")),
    "digits": Setting(("dataset=digits", *_IMAGES), 480, *_FID, _FOUR, ("2e-4", "1e-3")),
    "mnist": Setting(("dataset=mnist", *_IMAGES), 480, *_FID, _THREE, ("2e-4", "1e-3")),
}

STRATEGIES = {
    "detach": Choice(("strategy=detach",)),
    "resample": Choice(("strategy=resample",)),
    "joint": Choice(("strategy=joint",)),
    "extragradient": Choice(("strategy=extragradient",)),
    "lookahead": Choice(("strategy=detach", "wrapper=[lookahead]"), "wrapper.lookahead.alpha", ("0.5", "0.8")),
    "consensus": Choice(("strategy=consensus",), "strategy.gamma", ("0.1", "1")),
    "topk": Choice(
        ("strategy=detach", "wrapper=[topk]", "wrapper.topk.gamma=0.9", "wrapper.topk.every=50"),
        "wrapper.topk.nu",
        ("0.5", "0.75"),
    ),
}


def arms(settings: Sequence[str], losses: Sequence[str], strategies: Sequence[str]) -> Iterator[Arm]:
    """Yield everything that is compared: of the losses those that a setting has."""
    for setting, strategy in product(settings, strategies):
        for loss in SETTINGS[setting].losses:
            if loss in losses:
                yield Arm(setting, loss, strategy)


def search(setting: Setting, choice: Choice, losses: Sequence[str], iterations: int) -> tuple[str, ...]:
    """Return the sweep that tunes a strategy in a setting for all losses at once, by runs half as long as those compared."""
    short = iterations // 2
    seeds = TUNING_SEEDS[: TUNING_RUNS // (len(setting.rates) * max(len(choice.values), 1))]
    return (
        *_common(setting, choice, short),
        f"loss={','.join(loss for loss in setting.losses if loss in losses)}",
        f"optimizer.lr={','.join(setting.rates)}",
        *([f"{choice.coefficient}={','.join(choice.values)}"] if choice.coefficient else []),
        f"seed={','.join(map(str, seeds))}",
        f"evaluate_every={short}",
    )


def comparison(arm: Arm, tuned: Sequence[str], seeds: int, iterations: int) -> tuple[str, ...]:
    """Return the sweep over seeds of a tuned strategy for one loss."""
    setting, choice = SETTINGS[arm.setting], STRATEGIES[arm.strategy]
    return (
        *_common(setting, choice, iterations),
        f"loss={arm.loss}",
        *tuned,
        f"seed={','.join(map(str, range(seeds)))}",
        f"evaluate_every={iterations // EVALUATIONS}",
    )


def _common(setting: Setting, choice: Choice, iterations: int) -> tuple[str, ...]:
    measure = setting.metric.removeprefix("eval/")
    return (
        *setting.overrides,
        *choice.overrides,
        f"iterations={iterations}",
        f"measure=[{measure}]",
        "evaluation.samples=2000",
        f"log_every={max(1, iterations // EVALUATIONS)}",
        "sample_every=0",
        "checkpoint_every=0",
        "device=cpu",
        "logger=[]",
    )
