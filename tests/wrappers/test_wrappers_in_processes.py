"""What several processes train with wrappers is what one trains: what is chosen, or kept, is of all of them."""

import pytest
import torch

from ganexp.distributed.processes import Processes
from ganexp.strategies import detach, joint
from ganexp.wrappers import Balanced, LatentStep, LossChange, Replay, TopK
from tests.distributed.forks import several
from tests.tiny import CASES, tiny_gan
from tests.tiny import train_share as train

WRAPPED = {
    "topk": ("rpgan", lambda: TopK(joint, nu=0.5, gamma=0.7, every=2)),
    "replay": ("wgan_gp", lambda: Replay(detach, size=8, share=0.5)),
    "latent_step": ("hinge", lambda: LatentStep(joint, alpha=0.5)),
    "loss_change": ("nonsaturating", lambda: LossChange(detach, factor=0.5)),
    "balanced": ("hinge", lambda: Balanced(detach, bound=0.6, window=2)),
}


def trained(processes):
    return {name: train(tiny_gan(CASES[loss], processes=processes), wrap()) for name, (loss, wrap) in WRAPPED.items()}


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 3])
def test_parameters_and_rows_are_those_of_one_process(count, tmp_path):
    alone = trained(Processes())
    for made in several(count, trained, tmp_path):
        for name, (tensors, measured) in alone.items():
            torch.testing.assert_close(made[name][0], tensors, rtol=1e-9, atol=1e-10)
            assert made[name][1] == pytest.approx(measured, rel=1e-9, abs=1e-10), name
