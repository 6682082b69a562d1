"""A whole iteration as one CUDA graph: recorded once, then replayed without any of the host's work."""

import gc
import logging
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ganexp.batch import Batch
from ganexp.optimizers.rates import counts_on_host, keep_on_device
from ganexp.training.step import Step

log = logging.getLogger(__name__)


class CudaRecording:
    """Records on a GPU."""

    def __init__(self) -> None:
        self.graph = torch.cuda.CUDAGraph()
        self.aside = torch.cuda.Stream()

    def warm_up(self, call: Callable[[], None]) -> None:
        """Run a call on a side stream, as recording will, and make the current stream wait for it."""
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            call()
        torch.cuda.current_stream().wait_stream(self.aside)

    def record(self, call: Callable[[], None], streams: Sequence[torch.Generator]) -> None:
        """Record a call; nothing is computed yet. Other threads may keep using the device, for example to pin memory."""
        with warnings.catch_warnings(action="ignore"):  # torch warns where it does this itself
            for stream in streams:
                getattr(self.graph, "register_generator_state", lambda _: None)(stream)
        collecting = gc.isenabled()
        gc.collect()
        gc.disable()  # an older graph that is freed meanwhile would end the recording
        try:
            recording = torch.cuda.graph(self.graph, stream=self.aside, capture_error_mode="thread_local")
            with torch.cuda.stream(self.aside), recording:  # the stream is left even if the recording cannot be ended
                call()
        finally:
            if collecting:
                gc.enable()

    def replay(self) -> None:
        """Launch the graph."""
        self.graph.replay()


class Recorded(Step):
    """The same iteration: the first few run eagerly, then one is recorded, and replayed from then on.

    A replay does what the recorded iteration did, to the same tensors: real batches are copied into those that it read,
    random streams are registered and advance, and Python's counters are incremented as before. So the results are those
    of eager iterations, to the last bit where kernels are deterministic. What an iteration does must not depend on
    anything that the host remembers from one to the next. An iteration that cannot be recorded runs eagerly, with one warning.

    Args:
        step: The iteration.
        new_recording: Makes the object that records and replays; see `CudaRecording`.
        warm_up: How many iterations run eagerly first, while libraries choose their kernels and optimisers create their state.

    Raises:
        ValueError: The strategy or another part cannot be recorded.
    """

    def __init__(self, step: Step, new_recording: Callable[[], CudaRecording], *, warm_up: int = 4) -> None:
        vars(self).update(vars(step))  # its schedule has begun, and does not begin again
        reason = reason_against(step)
        if reason:
            raise ValueError(f"it cannot be recorded: {reason}")
        self.new_recording = new_recording
        self.warm_up = warm_up
        self.restart()

    def restart(self) -> None:
        """Record again, since tensors have been replaced."""
        self.recording: CudaRecording | None = self.new_recording()
        self.gan.timer.restart()
        self._eager_iterations = 0
        self._batches: list[Batch] = []
        self._increments: list[Counter[str]] | None = None
        for optimizer in (self.gan.optimizer_g, self.gan.optimizer_d):
            keep_on_device(optimizer)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.restart()

    def __call__(self, reals: Iterator[Batch], *, keep_gradients: bool = False) -> None:
        """Run one iteration, or replay one, on batches drawn from `reals`; a graph keeps its gradients in any case."""
        if self.recording and self._increments is None and self._eager_iterations == self.warm_up:
            self._record(self.recording)
        if self.recording is None:
            super().__call__(reals, keep_gradients=keep_gradients)
        elif self._increments is None:
            self._warm_up(self.recording, reals)
        else:
            with self.gan.timer.phase("iteration"):
                self._replay(self.recording, self._increments, reals)
            self.schedule.advance()

    def _warm_up(self, recording: CudaRecording, reals: Iterator[Batch]) -> None:
        """Run an iteration eagerly; the last one is like the replays that follow, and shows how phases share their time."""
        self._eager_iterations += 1
        if self._eager_iterations == self.warm_up:
            self.gan.timer.restart()
        self._batches = []

        def seen() -> Iterator[Batch]:
            for batch in reals:
                self._batches.append(batch)
                yield batch

        self.gan.meter.begin(keep_gradients=True)
        with self.gan.timer.phase("iteration"):
            recording.warm_up(lambda: self.iterate(seen()))
        self.schedule.advance()

    def _replay(self, recording: CudaRecording, increments: list[Counter[str]], reals: Iterator[Batch]) -> None:
        for place in self._batches:
            _copy_into(place, next(reals))
        recording.replay()
        for counter, increment in zip(self._counters(), increments, strict=True):
            counter.update(increment)

    def _record(self, recording: CudaRecording) -> None:
        counters = self._counters()
        before = [counter.copy() for counter in counters]
        self._batches = [Batch(b.values.clone(), tuple(one.clone() for one in b.conditions)) for b in self._batches]
        streams = [*self.gan.prior.streams, *self.gan.penalty.streams(), *self.gan.augment.streams()]
        try:
            self.gan.timer.freeze("d", "g")  # phases within a graph cannot be timed
            self.gan.meter.begin(keep_gradients=True)
            recording.record(lambda: self.iterate(iter(self._batches)), streams)
            self._increments = [counter - earlier for counter, earlier in zip(counters, before, strict=True)]
        except (RuntimeError, StopIteration) as error:
            first = _first(error)
            said = (str(first).splitlines() or [type(first).__name__])[0]
            reason = "it draws a varying number of batches" if isinstance(first, StopIteration) else said
            log.warning("cuda_graph: an iteration cannot be recorded (%s), so all are run eagerly.", reason)
            self.recording = None
            self.gan.timer.restart()
        for counter, earlier in zip(counters, before, strict=True):
            counter.clear()
            counter.update(earlier)  # what was recorded has not happened yet

    def _counters(self) -> list[Counter[str]]:
        return [self.gan.meter.updates, self.gan.meter.counts]


def _first(error: BaseException) -> BaseException:
    """Return the error that came first: ending a recording that has failed raises another one."""
    while error.__context__ is not None and not error.__suppress_context__:
        error = error.__context__
    return error


def _copy_into(place: Batch, batch: Batch) -> None:
    for kept, new in zip((place.values, *place.conditions), (batch.values, *batch.conditions), strict=True):
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
    return f"{strategy} keeps count of iterations" if strategy.keeps_count else ""
