"""What several processes train is what one trains with the whole batch, to rounding."""

import itertools
import signal
from pathlib import Path

import pytest
import torch

from ganexp import strategies
from ganexp.losses import NonSaturating
from ganexp.penalties import R1, Dragan, GradientPenalty, LatentConsistency, LeCam, Orthogonal, PathLength, Sum
from ganexp.strategies.base import as_strategy
from ganexp.training import Stopping
from tests.distributed.alike import assert_the_same
from tests.distributed.forks import several
from tests.tiny import CASES, LATENT, STRATEGIES, Case, real_batches, tiny_gan, tiny_trainer

EXACT = {name: one for name, one in STRATEGIES.items() if not as_strategy(one).differentiates_gradients}
QUICK = [
    ("softmaxgan", "one_stage"),
    ("began", "detach"),
    ("wgan_gp", "joint"),
    ("rpgan", "extragradient"),
    ("ragan", "past_extragradient"),
]
PENALTIES = {
    "gradient_penalty": lambda: GradientPenalty(weight=2.0),
    "dragan": Dragan,
    "lecam": lambda: LeCam(weight=2.0, decay=0.7),
    "zcr": LatentConsistency,
    "sum": lambda: Sum(parts={"r1": R1(every=2), "weights": Orthogonal(weight=0.1)}),
}


class Normalised(torch.nn.Module):
    """A discriminator with batch norm."""

    output = "logit"

    def __init__(self, momentum=0.1):
        super().__init__()
        norm = torch.nn.BatchNorm1d(5, momentum=momentum)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(2, 5), norm, torch.nn.Tanh(), torch.nn.Linear(5, 1), torch.nn.Flatten(0)
        )

    def forward(self, x):
        return self.layers(x)


class Styling(torch.nn.Module):
    """A generator of points with two layers of styles."""

    def __init__(self):
        super().__init__()
        self.mapping, self.layer = torch.nn.Linear(LATENT, 6), torch.nn.Linear(6, 2)

    def styles(self, z):
        return self.mapping(z).tanh().view(-1, 2, 3)

    def synthesis(self, styles):
        return self.layer(styles.flatten(1).tanh())

    def forward(self, z):
        return self.synthesis(self.styles(z))


def chosen(pairs):
    return {f"{loss} {strategy}": (CASES[loss], EXACT[strategy]) for loss, strategy in pairs}


@pytest.mark.slow
def test_parameters_and_rows_are_those_of_one_process(tmp_path):
    assert_the_same(chosen(QUICK), 3, tmp_path)


@pytest.mark.slow
def test_they_are_for_every_loss_and_every_strategy(tmp_path):
    """Those that rescale what a loss gives need every loss; to the others a loss is what it is to `detach`."""
    pairs = [*itertools.product(CASES, ("detach", "one_stage")), *(("softmaxgan", strategy) for strategy in EXACT)]
    assert_the_same(chosen(pairs), 2, tmp_path)


@pytest.mark.slow
def test_they_are_with_penalties_and_synchronised_batch_norm(tmp_path):
    cases = {name: (Case(NonSaturating, penalty), strategies.joint) for name, penalty in PENALTIES.items()}
    cases["batch norm"] = (Case(NonSaturating, discriminator=Normalised), strategies.detach)
    cases["batch norm, averaged"] = (Case(NonSaturating, discriminator=lambda: Normalised(None)), strategies.Extragradient())
    paths = Case(NonSaturating, lambda: PathLength(weight=0.5, every=2, share=2 / 3, decay=0.7), generator=Styling)
    cases["path lengths"] = (paths, strategies.detach)
    cases["batch norm, penalised"] = (Case(NonSaturating, R1, Normalised), strategies.joint)
    assert_the_same(cases, 2, tmp_path)


def fitted(processes, asked_at):
    """Fit a trainer of five iterations, whose first process is asked to stop in one of them; return how it ends."""
    stopping = Stopping()

    def reals():
        for i, x in enumerate(real_batches()):
            if i == asked_at and processes.is_main:
                stopping.received = signal.SIGTERM
            yield processes.own(x)

    gan = tiny_gan(CASES["nonsaturating"], processes=processes)
    summary = tiny_trainer(gan=gan, reals=reals(), iterations=5, stopping=stopping).fit()
    return summary["state"], summary["iteration"]


def test_a_request_to_stop_ends_with_its_run(tmp_path):
    """An answer is read an iteration after it was given, so that the last ones are never read by their own run.

    The first batch comes before the first iteration.
    """
    ends = several(2, lambda processes: [fitted(processes, at) for at in (0, 3, 99)], tmp_path)
    assert ends == [[("preempted", 1), ("finished", 5), ("finished", 5)]] * 2


def communicating(processes):
    """Return how many of gloo's threads there are before a process leaves the group, and after."""
    processes.any_rank(False)
    processes.tell(None)
    before = _gloo_threads()
    processes.close()
    return before, _gloo_threads()


def _gloo_threads():
    return sum("gloo" in name.read_text() for name in Path("/proc/self/task").glob("*/comm"))


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs the names of threads in /proc")
@pytest.mark.skipif(torch.__version__ < "2.14", reason="in torch 2.6, gloo's threads have no name")
def test_no_thread_communicates_once_a_process_has_left(tmp_path):
    """One that still held a tensor while Python ended would abort the process."""
    for before, after in several(2, communicating, tmp_path):
        assert before > 0
        assert after == 0
