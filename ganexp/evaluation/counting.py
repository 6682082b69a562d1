"""How many of the known modes of the data are there, and how evenly."""

from typing import ClassVar

import torch

from ganexp.evaluation.comparison import Comparison, high, low
from ganexp.evaluation.parts import Counts, Part


class ModeCounting(Comparison):
    """Modes covered by at least one sample, share of samples of high quality, and KL(generated ‖ uniform) over modes, in nats.

    As in Srivastava et al. 2017 and Lin et al. 2018, who take 2,500 samples of ring and grid, and 26,000 of stacked MNIST; more
    samples cover more modes. The divergence is that of the samples of high quality; modes without any count 0 log 0 = 0.
    """

    keys: ClassVar = {
        "eval/modes": high("modes covered"),
        "eval/high_quality": high("share of samples of high quality"),
        "eval/mode_kl": low("KL divergence of modes from uniform, in nats"),
    }
    part = Counts
    in_features = False
    looks_at_reals = False

    def __call__(self, real: Part, fake: Part) -> dict[str, float]:
        """Return them; without a single sample of high quality the divergence is that of a single mode."""
        assert isinstance(fake, Counts)
        good = int(fake.at.sum())
        modes = len(fake.at)
        share = fake.at.double() / good if good else torch.eye(modes, dtype=torch.float64)[0]
        divergence = float(torch.special.xlogy(share, share * modes).sum())
        return {
            "eval/modes": float((fake.at > 0).sum()),
            "eval/high_quality": good / fake.n,
            "eval/mode_kl": divergence,
        }
