"""A discriminator that ends in a sigmoid is warned of where the loss takes its scores for logits."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Prior
from ganexp.losses import EBGAN, LSGAN, WGAN, Hinge, NonSaturating


class Discriminator(nn.Module):
    """Points to scores, by one convolution and what comes last."""

    def __init__(self, last):
        super().__init__()
        self.layers, self.last = nn.Conv1d(1, 1, 1), last

    def forward(self, x):
        return self.last(self.layers(x.unsqueeze(1)))


ENDS = {
    "module": lambda x: nn.Sigmoid()(x.flatten(1).sum(1)),
    "function, then shape": lambda x: torch.sigmoid(x.sum(2)).view(-1, 1).squeeze(1),
    "map": torch.sigmoid,
    "patches": lambda x: torch.sigmoid(x).flatten(1).mean(1),
    "hard": lambda x: nn.functional.hardsigmoid(x.mean((1, 2))),
}
OTHERS = {"map": lambda x: x, "linear": lambda x: x.mean((1, 2)), "logit": lambda x: torch.sigmoid(x).logit().mean((1, 2))}


def warned(end, loss, caplog):
    generator, discriminator = nn.Linear(3, 2), Discriminator(end)
    optimizers = (torch.optim.SGD(one.parameters(), lr=0.1) for one in (generator, discriminator))
    gan = GAN(generator, discriminator, loss, *optimizers, Prior(3), batch_size=4)
    for _ in range(2):
        gan.update_d(gan.d_loss(torch.rand(4, 2), gan.generate(gan.sample())))
    return [record.getMessage() for record in caplog.records if "sigmoid" in record.getMessage()]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("loss", [NonSaturating, Hinge, WGAN])
def test_it_is_warned_of_once(end, loss, caplog):
    (said,) = warned(ENDS[end], loss(), caplog)
    assert loss.__name__ in said


@pytest.mark.parametrize("end", OTHERS)
def test_no_other_end_is(end, caplog):
    assert not warned(OTHERS[end], NonSaturating(), caplog)


@pytest.mark.parametrize("loss", [LSGAN, EBGAN])
def test_nor_is_a_loss_that_suits_it(loss, caplog):
    assert not warned(ENDS["module"], loss(), caplog)
