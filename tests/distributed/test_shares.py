"""What several processes would compute is what one does: each forms the global loss, and gradients are summed."""

import pytest
import torch

from ganexp import Batch
from ganexp.distributed.processes import Processes
from ganexp.losses import NonSaturating
from ganexp.penalties import R1, Orthogonal, Sum
from tests.tiny import CASES, Case, real_batches, tiny_gan, tiny_trainer

PENALISED = {"penalised": Case(NonSaturating, lambda: Sum(parts={"samples": R1(), "weights": Orthogonal(weight=1.0)}))}
BOTH = CASES | PENALISED


class Share(Processes):
    """One of two processes, which hears the other's scores from a list."""

    def __init__(self, rank, heard):
        self.rank, self.heard, self.said = rank, list(heard), []

    def gather(self, scores):
        self.said.append(scores.detach())
        other = self.heard.pop(0) if self.heard else torch.zeros_like(scores)
        return torch.cat([scores, other] if self.rank == 0 else [other, scores])


def gradients_of_a_share(loss, rank, x, fake, heard):
    gan = tiny_gan(BOTH[loss])
    gan.processes = Share(rank, heard)
    half = slice(0, 3) if rank == 0 else slice(3, 6)
    fake = gan.generate(Batch(fake[half]))
    return gan.processes, gan.gradients(*gan.losses(Batch(x[half]), fake))


@pytest.mark.parametrize("loss", [name for name in BOTH if name != "wgan_gp"])
def test_the_sum_of_the_shares_gradients_is_the_global_one(loss):
    gan, x = tiny_gan(BOTH[loss]), next(real_batches())
    z = gan.sample().values
    whole = gan.gradients(*gan.losses(x, gan.generate(z)))
    said = [gradients_of_a_share(loss, rank, x, z, [])[0].said for rank in (0, 1)]
    shares = [gradients_of_a_share(loss, rank, x, z, said[1 - rank])[1] for rank in (0, 1)]
    for network in (0, 1):
        summed = [a + b for a, b in zip(shares[0][network], shares[1][network], strict=True)]
        torch.testing.assert_close(summed, list(whole[network]), rtol=1e-12, atol=1e-14)


class Told(Processes):
    """Stands for a second process that has the same gradients, and was asked to stop."""

    def __init__(self):
        self.summed = 0

    def sum(self, gradients):
        self.summed += 1
        return tuple(None if g is None else 2 * g for g in gradients)

    def any_rank(self, asked):
        return True


def test_gradients_are_summed_once_for_each_move_and_what_is_logged_is_the_sum():
    rows = []
    for processes in (Processes(), Told()):
        made = tiny_trainer(log_every=1, iterations=1)
        made.gan.processes = processes
        made.step(made.reals, keep_gradients=True)
        rows.append(made.gan.meter.read({}))
    assert rows[1]["grad_norm/d"] == pytest.approx(2 * rows[0]["grad_norm/d"], rel=1e-12)
    assert processes.summed == 2


def test_all_stop_when_one_is_asked_to():
    made = tiny_trainer(iterations=10)
    made.gan.processes = Told()
    assert made.fit()["state"] == "preempted"
    assert made.iteration == 0
