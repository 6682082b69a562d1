"""Iterations that repeat in turns: one recording for each turn, and all are eager ones to the last bit, on a CPU by tapes."""

import copy
from collections import Counter
from functools import partial

import pytest
import torch

from ganexp import strategies
from ganexp.losses import Minimax, NonSaturating
from ganexp.penalties import R1, R2, NoPenalty, Sum
from ganexp.strategies import Drift
from ganexp.training import Step
from ganexp.training.cuda_graph import reason_against
from ganexp.wrappers import Anchoring, Lookahead, Replay, Skip, TopK, WarmUp
from ganexp.wrappers.base import Remembering, Wrapper
from tests.composing import every_strategy
from tests.small_runs import Rows, assert_same
from tests.tiny import STRATEGIES, Case, iterate, state, tiny_gan, tiny_trainer
from tests.training.tape import Tapes

ONCE_IN_FOUR = partial(R1, every=4)


def lazily_and_always():
    return Sum(parts={"r1": R1(every=2), "r2": R2()})


def recorded_as_eager(make_strategy, penalty=NoPenalty, loss=NonSaturating, **steps):
    """Assert that a recorded run is the eager one, and return how many recordings it has."""
    runs = []
    for recording in (None, Tapes):
        gan, logger = tiny_gan(Case(loss, penalty), fused=True), Rows()
        settings = {"iterations": 31, "log_every": 1, "loggers": [logger], **steps}
        trainer = tiny_trainer(strategy=make_strategy(), gan=gan, recording=recording, **settings)
        trainer.fit()
        times = ("time/", "speed/", "memory/", "progress/wall_s")
        rows = [{key: value for key, value in row.items() if not key.startswith(times)} for row in logger.rows]
        runs.append((trainer, rows))
    (eager, eager_rows), (recorded, rows) = runs
    assert rows == eager_rows
    assert_same(recorded.gan.meter.state_dict(), eager.gan.meter.state_dict())
    assert_same(recorded.step.state_dict(), eager.step.state_dict())
    assert all(torch.equal(a, b) for a, b in zip(state(eager.gan), state(recorded.gan), strict=True))
    return len(recorded.step.recordings)


@pytest.mark.parametrize(
    ("wrap", "penalty", "recordings"),
    [
        (partial(Lookahead, every=3), NoPenalty, 3),
        (lambda strategy: Lookahead(Lookahead(strategy, every=2), every=4), NoPenalty, 4),
        (partial(WarmUp, first=3, every=5, many=4), NoPenalty, 2),
        (partial(WarmUp, first=25, every=0, many=2), NoPenalty, 1),  # whose first turn never comes again
        (partial(Lookahead, every=3), lazily_and_always, 6),
        (partial(TopK, every=6, gamma=0.8), NoPenalty, 1),  # the last of five, recorded one after the other
        (Anchoring, NoPenalty, 1),
        (partial(Replay, size=20, share=0.3), NoPenalty, 1),
        (lambda strategy: Lookahead(Replay(Anchoring(strategy), size=20), every=3), NoPenalty, 3),
    ],
    ids=[
        *("lookahead", "nested lookahead", "warm-up", "long warm-up", "lookahead and a lazy penalty"),
        *("topk", "anchoring", "replay", "lookahead, replay and anchoring"),
    ],
)
@pytest.mark.parametrize("strategy", ["detach", pytest.param("extragradient", marks=pytest.mark.slow)])
def test_wrappers(wrap, penalty, recordings, strategy):
    assert recorded_as_eager(lambda: wrap(STRATEGIES[strategy]), penalty) == recordings


@pytest.mark.slow
def test_a_recorded_run_goes_on_where_its_wrappers_were():
    runs = []
    for stop in (None, 13):
        trainers = [
            tiny_trainer(
                strategy=TopK(Replay(Anchoring(STRATEGIES["extragradient"]), size=20), every=4, gamma=0.8),
                gan=tiny_gan(Case(NonSaturating), fused=True),
                recording=Tapes,
            )
            for _ in range(2)
        ]
        iterate(trainers[0], stop or 24)
        if stop:
            trainers[1].load_state_dict(copy.deepcopy(trainers[0].state_dict()))
            iterate(trainers[1], 24 - stop)
        last = trainers[1 if stop else 0]
        assert last.step.recordings
        runs.append(last.state_dict()["gan"] | last.state_dict()["step"])
    assert_same(*runs)


@pytest.mark.slow
@pytest.mark.parametrize(("d_steps", "g_steps"), [(1, 1), (1, 2), (2, 1)])
@pytest.mark.parametrize("strategy", every_strategy())
def test_a_lazy_penalty(strategy, d_steps, g_steps):
    recorded_as_eager(lambda: STRATEGIES[strategy], ONCE_IN_FOUR, Minimax, d_steps=d_steps, g_steps=g_steps)


def test_an_objective_that_is_formed_once_more_after_the_last_update():
    assert recorded_as_eager(lambda: Drift(alternating=True), ONCE_IN_FOUR) == 3


@pytest.mark.parametrize(
    ("every", "d_steps", "turns"), [(1, 1, {None}), (4, 1, {0, 1, 2}), (16, 3, {0, 1, 2, 3, 4}), (2, 3, {0, 1})]
)
def test_lazy_iterations_of_one_turn_have_it_in_the_same_places(every, d_steps, turns):
    penalty, places_of = R1(every=every), {}
    for _ in range(48):
        turn, places = penalty.turn(d_steps, 1), []
        for place in range(d_steps + 1):
            places += [place] if penalty.passed["updates"] % every == 0 else []
            if place < d_steps:
                penalty.advance(torch.zeros(1), torch.zeros(1))
        assert places_of.setdefault(turn, places) == places
    assert places_of.keys() == turns


class Resting(Remembering):
    """Lets D rest in every fourth iteration, and counts where it says so, or elsewhere."""

    in_turns = True

    def __init__(self, strategy, *, rests=True, counts=True):
        super().__init__(strategy)
        self.rests, self.counts, self.passed = rests, counts, {"iterations": 0}
        if counts:
            self.passed = Counter(self.passed)

    def __call__(self, gan, reals, *, d_steps, g_steps):
        rests = self.rests and self.passed["iterations"] % 4 == 3
        super().__call__(gan, reals, d_steps=0 if rests else d_steps, g_steps=g_steps)
        self.passed["iterations"] += 1

    def turn(self, d_steps, g_steps):
        return self.passed["iterations"] % 4 == 3

    def counters(self):
        return [self.passed] if self.counts else []

    def remembered(self):
        return dict(self.passed)

    def remember(self, state):
        self.passed.update(state)


def one_more(gan, reals, *, d_steps, g_steps):
    strategies.detach(gan, reals, d_steps=d_steps + 1, g_steps=g_steps)


@pytest.mark.parametrize(
    ("make_strategy", "penalty", "sentence"),
    [
        (
            lambda: one_more,
            ONCE_IN_FOUR,
            "R1 counts updates, and one_more makes other numbers of them than d_steps and g_steps",
        ),
        (lambda: Resting(strategies.detach), NoPenalty, "Resting lets a network rest in some iterations"),
        (
            lambda: Resting(strategies.detach, rests=False, counts=False),
            NoPenalty,
            "Resting changes a state that it neither counts nor writes in place",
        ),
    ],
)
def test_what_turns_do_not_say_is_found_and_runs_eagerly(make_strategy, penalty, sentence, caplog):
    assert recorded_as_eager(make_strategy, penalty) == 0
    assert sentence in caplog.text


def test_what_keeps_count_of_more_is_not_recorded():
    class Counting(Wrapper):
        keeps_count = True

    def reason(strategy, penalty=NoPenalty):
        return reason_against(Step(tiny_gan(Case(NonSaturating, penalty), fused=True), strategy))

    assert reason(Lookahead(WarmUp(Skip(Lookahead(strategies.detach))))) == "Skip keeps count of iterations"
    assert reason(Lookahead(Counting(Skip(strategies.detach)))) == "Skip keeps count of iterations"
    assert reason(Lookahead(TopK(Replay(Anchoring(strategies.detach))))) == ""
    assert reason(Counting(strategies.detach)) == "detach keeps count of iterations"
    assert reason(WarmUp(strategies.detach, many=1000)) == "WarmUp keeps count of iterations"
    assert reason(WarmUp(strategies.detach), ONCE_IN_FOUR) == "R1 counts updates, whose number WarmUp varies"
    assert reason(WarmUp(strategies.detach), R1) == ""
