"""Compose configurations as the command line would."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import DictConfig

CONF = Path(__file__).parent.parent / "conf"


def composed(*overrides: str) -> DictConfig:
    with initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        return compose("train", [*overrides])


def options(group: str) -> list[str]:
    return sorted(path.stem for path in (CONF / group).glob("*.yaml"))


GAMES = ("alex_gda", "hamiltonian", "lead", "drift", "jare", "competitive", "consensus", "past_extragradient", "symplectic")
"""Strategies from game theory, which have tests of their own."""


def every_strategy(*, but: tuple[str, ...] = ()) -> list:
    """Return the strategies to test something with; with those of `GAMES` it is tested by CI."""
    return [pytest.param(one, marks=pytest.mark.slow) if one in GAMES else one for one in options("strategy") if one not in but]


def suited(strategy: str, loss: str = "nonsaturating") -> str:
    """Return the loss, or a zero-sum one for a strategy that refuses others."""
    return "minimax" if strategy == "competitive" and loss not in ("minimax", "wgan", "wgan_gp") else loss


def discriminator_for(loss: str) -> list[str]:
    """Return the overrides by which a loss gets scores of the kind that it needs, where that is not the default's."""
    return ["discriminator=began"] if loss in ("began", "ebgan") else []


def each_with_a_usual_one(*, but: tuple[str, ...] = ()) -> list:
    """Return pairs of a strategy and a loss, in which each comes once with a usual partner: what it meets is the same code."""
    others = [one for one in options("strategy") if one != "detach"]
    slow = [pytest.param(one, "minimax", marks=pytest.mark.slow) for one in others if one != "one_stage"]
    return [*(("detach", loss) for loss in losses_of_scores() if loss not in but), ("one_stage", "minimax"), *slow]


def losses_of_scores() -> list[str]:
    """Return the losses that read scores alone; acgan, which reads more, has tests of its own."""
    return [name for name in options("loss") if name != "acgan"]


def fits(loss, discriminator):
    """Say which losses suit which discriminators, by their papers."""
    if loss == "acgan":
        return False  # with labels only
    if discriminator == "began":
        return loss in ("began", "ebgan", "softmaxgan")
    return loss not in ("began", "ebgan")
