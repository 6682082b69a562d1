"""What is run again for the report changes nothing in the training that follows."""

import random
import threading
import time

import numpy as np
import pytest
import torch
from torch import nn

import ganexp
from ganexp.watching.isolation import NotRun, isolated
from tests.watching.loops import LATENT, SIZE, in_the_usual_order, mlp, setting


class Changing(nn.Module):
    """A network whose output depends on something that is not among its weights, and that each pass moves on."""

    def __init__(self, a, b, noise):
        super().__init__()
        self.layers, self.noise = mlp(a, b), noise

    def forward(self, x):
        return self.layers(x) * (1 + 0.01 * self.noise())


def counting():
    passes = [0]

    def count():
        passes[0] += 1
        return passes[0]

    return count


class Buffered(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.layers = mlp(a, b)
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        return self.layers(x) * (1 + 0.01 * self.passes)


class Itself(nn.Sequential):
    """A network that is never copied, such as one with a connection."""

    def __deepcopy__(self, memo):
        return self


def hooked(a, b):
    network, count = mlp(a, b), counting()
    network[0].register_forward_hook(lambda module, args, output: output * (1 + 0.01 * count()))
    return network


def drawn(draw):
    return lambda a, b: Changing(a, b, draw)


def of_its_own_stream(a, b):
    stream = torch.Generator().manual_seed(5)
    return Changing(a, b, lambda: torch.rand((), generator=stream))


KINDS = {
    "forward hooks": hooked,
    "closures": lambda a, b: Changing(a, b, counting()),
    "NumPy's stream": drawn(lambda: float(np.random.rand())),  # noqa: NPY002
    "Python's stream": drawn(random.random),
    "a stream of its own": of_its_own_stream,
    "torch's stream": drawn(lambda: torch.rand(())),
    "buffers": Buffered,
    "copies that are itself": lambda a, b: Itself(*mlp(a, b)),
}


def loop_of(make):
    random.seed(3), np.random.seed(3)  # noqa: NPY002
    p = setting()
    p.G, p.D = make(LATENT, SIZE), make(SIZE, 1)
    p.og, p.od = (torch.optim.Adam(network.parameters(), 1e-3) for network in (p.G, p.D))
    torch.manual_seed(1)
    return in_the_usual_order(p)


def trained(make, watching):
    """Return the weights after some iterations, of which the first are watched, and what the streams give then."""
    p, step = loop_of(make)
    report = ganexp.watch() if watching else None
    if report is not None:
        with report:
            for _ in range(3):
                step()
    else:
        for _ in range(3):
            step()
    for _ in range(2):
        step()
    tensors = [*p.G.state_dict().values(), *p.D.state_dict().values()]
    for optimizer in (p.og, p.od):
        tensors += [one for state in optimizer.state.values() for one in state.values()]
    streams = random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002
    return report, [one.clone() for one in tensors], streams


@pytest.mark.parametrize("kind", KINDS)
def test_training_goes_on_as_without_watching(kind):
    report, watched, streams = trained(KINDS[kind], watching=True)
    _, plain, same = trained(KINDS[kind], watching=False)
    assert report is not None
    assert report.instead, "nothing was run again"
    assert all(map(torch.equal, watched, plain))
    assert streams == same


def test_other_threads_do_not_prevent_that_networks_are_run_again():
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    try:
        _, step = loop_of(mlp)
        with ganexp.watch() as report:
            for _ in range(3):
                step()
    finally:
        over.set()
        other.join()
    assert (report.rule, report.difference) == ("detach", 0)
    assert report.instead


def test_in_another_thread_nothing_is_run_again():
    reports = []

    def watched():
        _, step = loop_of(mlp)
        with ganexp.watch() as report:
            for _ in range(3):
                step()
        reports.append(report)

    thread = threading.Thread(target=watched)
    thread.start()
    thread.join()
    assert (reports[0].rule, reports[0].difference, reports[0].instead) == ("detach", None, [])
    assert "not the main thread" in reports[0].checked
    assert "not the main thread" in str(reports[0])


def test_a_last_report_is_made_in_the_process_where_it_cannot_be_copied(monkeypatch):
    monkeypatch.setattr("ganexp.watching.isolation.why_not_isolated", lambda: "there is no fork")
    monkeypatch.setattr("ganexp.watching.watched_loop.why_not_isolated", lambda: "there is no fork")
    _, step = loop_of(mlp)
    with ganexp.watch(nothing_follows=True) as report:
        for _ in range(3):
            step()
    assert (report.rule, report.difference, len(report.instead)) == ("detach", 0, 3), str(report)


def test_work_that_takes_too_long_is_stopped():
    began = time.monotonic()
    with pytest.raises(NotRun, match="longer than ten"):
        isolated(lambda: time.sleep(60), time.monotonic() + 0.3)
    assert time.monotonic() - began < 30


def test_work_that_ends_its_copy_of_the_process_is_told():
    def leave():
        raise SystemExit(3)

    with pytest.raises(NotRun, match="ended early"):
        isolated(leave, time.monotonic() + 30)


def test_the_result_of_work_is_returned_however_long():
    assert isolated(lambda: [*range(100_000)], time.monotonic() + 60) == [*range(100_000)]


def test_a_report_takes_no_longer_than_ten_iterations(monkeypatch, capsys):
    """Iterations of a tenth of a second, and networks that take longer once they are run again."""
    monkeypatch.setattr("ganexp.watching.again.LEAST", 0.5)
    slow = [0.0]

    class Slow(nn.Sequential):
        def forward(self, x):
            time.sleep(slow[0])
            return super().forward(x)

    _, step = loop_of(lambda a, b: Slow(*mlp(a, b)))
    report = ganexp.watch()
    with report:
        for _ in range(3):
            step()
            time.sleep(0.1)
        slow[0] = 30.0
        began = time.monotonic()
    assert time.monotonic() - began < 20
    assert (report.rule, report.difference, report.instead) == ("detach", None, [])
    assert "longer than ten of the loop's iterations" in report.checked
    assert "runs these networks again, to check the rule, for at most" in capsys.readouterr().err
