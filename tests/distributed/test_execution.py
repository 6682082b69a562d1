"""How networks are executed in several processes: in bfloat16, and fed from memory."""

import pytest
import torch

from ganexp import build
from ganexp.distributed.processes import Processes
from tests.composing import composed
from tests.distributed.forks import several

RUN = ["dataset=fake", "dataset.image_size=16", "dataset.n=23", "batch_size=12", "device=cpu", "logger=[]"]
RUN += ["log_every=2", "sample_every=0", "iterations=6", "average.decay=0.9"]
DCGAN = ["generator=dcgan", "generator.width=4", "discriminator=dcgan", "discriminator.width=4"]


def weights(*overrides):
    def train(processes):
        torch.set_num_threads(1)
        trainer = build(composed(*RUN, *overrides), processes=processes)
        trainer.fit()
        networks = trainer.gan.generator, trainer.gan.discriminator, trainer.step.average.generator
        return [value.detach() for network in networks for value in network.state_dict().values()]

    return train


@pytest.mark.slow
def test_bfloat16_and_both_feeds(tmp_path):
    resident, streamed = (weights(*DCGAN, "precision=bf16", f"feed={feed}") for feed in ("resident", "streamed"))
    alone = resident(Processes())
    first, second = several(2, resident, tmp_path / "resident")
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.testing.assert_close(first, several(2, streamed, tmp_path / "streamed")[1], rtol=0, atol=0)
    torch.testing.assert_close(first, alone, rtol=0.02, atol=0.01)  # 8 bits, in products of other sizes
