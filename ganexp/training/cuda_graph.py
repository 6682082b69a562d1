"""Whole iterations as CUDA graphs: recorded once, then replayed without work of the host."""

import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ganexp.batch import Batch
from ganexp.optimizers.rates import counts_on_host, keep_on_device
from ganexp.printable import one_line
from ganexp.training.step import Step, copied

log = logging.getLogger(__name__)


class CudaRecorder:
    """Records on a GPU. Its graphs share their memory: they run one after another, and read nothing that another has made."""

    def __init__(self) -> None:
        self.aside = torch.cuda.Stream()
        self.pool = torch.cuda.graph_pool_handle()

    def warm_up(self, call: Callable[[], None]) -> None:
        """Run a call on a side stream, as recording will, and make the current stream wait for it."""
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            call()
        torch.cuda.current_stream().wait_stream(self.aside)

    def record(self, call: Callable[[], None], streams: Sequence[torch.Generator]) -> Callable[[], None]:
        """Record a call, and return what launches it; nothing is computed yet.

        Other threads may keep using the device, for example to pin memory.
        """
        graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings(action="ignore"):  # torch warns where it does this itself
            for stream in streams:
                getattr(graph, "register_generator_state", lambda _: None)(stream)
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()  # an older graph that is freed meanwhile would end the recording
        try:
            recording = torch.cuda.graph(graph, pool=self.pool, stream=self.aside, capture_error_mode="thread_local")
            with torch.cuda.stream(self.aside), recording:  # the stream is left even if the recording cannot be ended
                call()
        finally:
            if collecting:
                gc.enable()
        return graph.replay


@dataclass
class Recording:
    """The recorded iteration of one turn."""

    replay: Callable[[], None]  # does once more what the iteration did on the device
    batches: int  # how many real batches it reads
    increments: list[Counter[str]]  # by how much it advances the counts on the host
    held: tuple[Any, ...]  # what the meter holds after it


class Recorded(Step):
    """The same iteration: the first few run eagerly, then one is recorded, and replayed from then on.

    A replay does what the recorded iteration did, to the same tensors: real batches are copied into those that it read,
    random streams are registered and advance, and Python's counters are incremented as before. So the results are those
    of eager iterations, to the last bit where kernels are deterministic. What an iteration does must not depend on
    anything that the host remembers from one to the next, besides the turn that the strategy and the penalty say: for each
    turn an iteration is recorded, when it comes for the second time at the earliest. Where a new turn comes later, all are
    recorded again, so that its eager iteration has the memory of the graphs. An iteration that cannot be recorded runs
    eagerly, as do all others from then on, with one warning.

    The first `warm_up` iterations run eagerly, while libraries choose their kernels and optimisers create their state.
    `new_recorder` makes the object that records, such as a `CudaRecorder`.
    """

    def __init__(self, step: Step, new_recorder: Callable[[], CudaRecorder], *, warm_up: int = 4) -> None:
        vars(self).update(vars(step))  # its schedule has begun, and does not begin again
        reason = reason_against(step)
        if reason:
            raise ValueError(f"it cannot be recorded: {reason}")
        self.new_recorder = new_recorder
        self.warm_up = warm_up
        self.restart()

    def restart(self) -> None:
        """Record again, since tensors have been replaced."""
        self.recorder: CudaRecorder | None = self.new_recorder()
        self.recordings: dict[Hashable, Recording] = {}
        self.gan.timer.restart()
        self._eager_iterations = 0
        self._met: dict[Hashable, int] = {}  # how many batches the last eager iteration of each turn drew
        self._places: list[Batch] = []  # where recorded iterations read them, of whatever turn
        for optimizer in (self.gan.optimizer_g, self.gan.optimizer_d):
            keep_on_device(optimizer)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.restart()

    def __call__(self, reals: Iterator[Batch], *, keep_gradients: bool = False) -> None:
        """Run one iteration, or replay one, on batches drawn from `reals`; a graph keeps its gradients in any case."""
        self.strategy.prepare()
        turn = self.strategy.turn(self.d_steps, self.g_steps), self.gan.penalty.turn(self.d_steps, self.g_steps)
        if self.recorder and turn in self._met and turn not in self.recordings and self._eager_iterations >= self.warm_up:
            self._record(self.recorder, turn)
        if self.recorder is None:
            super().__call__(reals, keep_gradients=keep_gradients)
        elif turn in self.recordings:
            with self.gan.timer.phase("iteration"):
                self._replay(self.recordings[turn], reals)
            self.schedule.advance()
        else:
            if self.recordings and turn not in self._met:
                self.recordings, self.recorder = {}, self.new_recorder()
            self._met[turn] = self._warm_up(self.recorder, reals)

    def _warm_up(self, recorder: CudaRecorder, reals: Iterator[Batch]) -> int:
        """Run an iteration eagerly, and return how many batches it has drawn.

        The last one before the first recording is like the replays that follow, and shows how phases share their time.
        """
        self._eager_iterations += 1
        if self._eager_iterations == self.warm_up:
            self.gan.timer.restart()
        batches = []

        def noted() -> Iterator[Batch]:
            for batch in reals:
                batches.append(batch)
                yield batch

        self.gan.meter.begin(keep_gradients=True)
        with self.gan.timer.phase("iteration"):
            recorder.warm_up(lambda: self.iterate(noted()))
        self.schedule.advance()
        self._places += [batch.map(torch.clone) for batch in batches[len(self._places) :]]
        return len(batches)

    def _replay(self, recording: Recording, reals: Iterator[Batch]) -> None:
        for place in self._places[: recording.batches]:
            _copy_into(place, next(reals))
        recording.replay()
        for counter, increment in zip(self._counters(), recording.increments, strict=True):
            counter.update(increment)
        self.gan.meter.held = recording.held

    def _record(self, recorder: CudaRecorder, turn: Hashable) -> None:
        counters, kept = self._counters(), self.strategy.state_dict()
        before = [counter.copy() for counter in counters]
        batches, gan = self._met[turn], self.gan
        streams = [*gan.prior.streams, *gan.penalty.streams(), *gan.augment.streams(), *self.strategy.streams()]
        try:
            self.gan.timer.freeze("d", "g")  # phases within a graph cannot be timed
            self.gan.meter.begin(keep_gradients=True)
            replay = recorder.record(lambda: self.iterate(iter(self._places[:batches])), streams)
            increments = [counter - earlier for counter, earlier in zip(counters, before, strict=True)]
            self._refuse_counts(increments[0])
            _put_back(counters, before)
            if len(self._met) > 1 and not _is_unchanged(kept, self.strategy.state_dict()):
                self.strategy.load_state_dict(copied(kept, self.gan.prior.device))
                raise RuntimeError(f"{self.strategy} changes a state that it neither counts nor writes in place")
            self.recordings[turn] = Recording(replay, batches, increments, self.gan.meter.held)
        except (RuntimeError, StopIteration) as error:
            first = _first(error)
            reason = "it draws a varying number of batches" if isinstance(first, StopIteration) else one_line(first)
            log.warning("cuda_graph: an iteration cannot be recorded (%s), so all are run eagerly.", reason)
            self.recordings, self.recorder = {}, None
            self.gan.timer.restart()
        _put_back(counters, before)  # what was recorded has not happened yet

    def _refuse_counts(self, updates: Counter[str]) -> None:
        """Reject iterations whose update counts differ from d_steps and g_steps, and networks that rest in some turns."""
        counts = self.gan.penalty.turn(self.d_steps, self.g_steps) is not None
        if counts and updates != {"d": self.d_steps, "g": self.g_steps}:
            raise RuntimeError(
                f"{type(self.gan.penalty).__name__} counts updates, and {self.strategy} makes other numbers of them "
                "than d_steps and g_steps"
            )
        if len(self._met) > 1 and len(updates) < 2:
            raise RuntimeError(f"{self.strategy} lets a network rest in some iterations")

    def _counters(self) -> list[Counter[str]]:
        gan = self.gan
        return [gan.meter.updates, gan.meter.counts, *self.strategy.counters(), *gan.penalty.counters()]


def _put_back(counters: list[Counter[str]], before: list[Counter[str]]) -> None:
    for counter, earlier in zip(counters, before, strict=True):
        counter.clear()
        counter.update(earlier)


def _is_unchanged(before: Any, after: Any) -> bool:
    """Return whether a state has the same numbers, and the same tensors, whatever is in them."""
    if isinstance(before, dict) and isinstance(after, dict):
        return before.keys() == after.keys() and all(_is_unchanged(before[key], after[key]) for key in before)
    if isinstance(before, (list, tuple)) and isinstance(after, (list, tuple)):
        return len(before) == len(after) and all(map(_is_unchanged, before, after))
    return before is after or (not isinstance(before, torch.Tensor) and before == after)


def _first(error: BaseException) -> BaseException:
    """Return the error that came first: ending a recording that has failed raises another one."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return error


def _copy_into(place: Batch, batch: Batch) -> None:
    for kept, new in zip(place.tensors(), batch.tensors(), strict=True):
        if new.shape != kept.shape:
            raise ValueError(
                f"a batch of shape {tuple(new.shape)} came after those of shape {tuple(kept.shape)}: with cuda_graph "
                "all must be alike; leave out the last one of an epoch, or choose cuda_graph=false"
            )
        kept.copy_(new)


def reason_against(step: Step) -> str:
    """Return why an iteration cannot be recorded, or an empty string."""
    gan, strategy = step.gan, step.strategy
    if step.schedule.on_host:
        return f"{step.schedule.on_host[0]} on the host"
    for part in (gan.augment, gan.penalty):
        if part.gathers and torch.are_deterministic_algorithms_enabled():
            return f"the gradient of {type(part).__name__} waits for the host with deterministic=true"
    for optimizer in (gan.optimizer_g, gan.optimizer_d):
        if counts_on_host(optimizer):
            return f"{type(optimizer).__name__} may count its steps on the host"
    if gan.penalty.keeps_count:
        return f"{type(gan.penalty).__name__} keeps count of updates"
    if not strategy.constant_steps and gan.penalty.turn(step.d_steps, step.g_steps) is not None:
        return f"{type(gan.penalty).__name__} counts updates, whose number {strategy} varies"
    counting: Any = strategy
    while getattr(counting, "in_turns", False) and counting.strategy.keeps_count:
        counting = counting.strategy  # the one inside
    return f"{counting} keeps count of iterations" if strategy.keeps_count else ""
