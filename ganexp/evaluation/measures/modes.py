"""Mode counting: how many known modes of the data are covered, and how evenly."""

from typing import ClassVar

import torch

from ganexp.data.modes import Modes
from ganexp.evaluation.base import Measure, high, low
from ganexp.evaluation.features import Features
from ganexp.evaluation.statistics import ModeCounts
from ganexp.facts import Facts, Misfit


class ModeCounting(Measure[ModeCounts]):
    """Modes covered by at least one sample, share of samples of high quality, and KL(generated ‖ uniform) over modes, in nats.

    As in Srivastava et al. 2017 and Lin et al. 2018, who take 2,500 samples of ring and grid, and 26,000 of stacked MNIST; more
    samples cover more modes. The divergence is that of the samples of high quality; an empty mode counts as 0 log 0 = 0.
    """

    keys: ClassVar = {
        "eval/modes": high("modes covered"),
        "eval/high_quality": high("share of samples of high quality"),
        "eval/mode_kl": low("KL divergence of modes from uniform, in nats"),
    }
    keeps = ModeCounts
    rank = 7
    looks_at_reals = False

    def suits(self, run: Facts) -> bool:
        return run.dataset.modes is not None

    def check(self, run: Facts) -> None:
        if run.dataset.modes is None:
            raise Misfit("needs data with known modes, and these have none", dataset="ring", measure="auto")

    def sees_features(self, modes: Modes | None) -> bool:
        return modes is not None and modes.by_classes

    def unsuited(self, features: Features, modes: Modes | None) -> str:
        if modes is None:
            return "it needs data with known modes, such as ring, grid or stacked_mnist"
        if modes.by_classes and features.classes != modes.count:
            return (
                f"its {modes.count} modes need features with as many classes, and {features.name} have {features.classes}: "
                "choose evaluation.features=classifier"
            )
        return ""

    def statistic(self, features: Features, modes: Modes | None) -> ModeCounts:
        assert modes is not None
        return ModeCounts(modes)

    def basis(self, features: Features, modes: Modes | None) -> str:
        assert modes is not None
        return f"by {features.name} {features.checksum}".rstrip() if modes.by_classes else modes.name

    def __call__(self, real: ModeCounts, fake: ModeCounts) -> dict[str, float]:
        """Return the figures; without any sample of high quality, the divergence is that of a single mode."""
        good = int(fake.at.sum())
        modes = len(fake.at)
        share = fake.at.double() / good if good else torch.eye(modes, dtype=torch.float64)[0]
        divergence = float(torch.special.xlogy(share, share * modes).sum())
        return {
            "eval/modes": float((fake.at > 0).sum()),
            "eval/high_quality": good / fake.n,
            "eval/mode_kl": divergence,
        }
