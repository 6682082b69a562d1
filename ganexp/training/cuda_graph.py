"""A whole iteration as one CUDA graph: recorded once, then replayed without any of the host's work."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.optim import Optimizer

Iteration = Callable[[Iterator[Tensor]], None]


class NotRecordable(RuntimeError):
    """An iteration cannot be recorded, said in half a sentence."""


class Eager:
    """The contract, and the member that does nothing of its own: every iteration runs as it is written."""

    always_the_same = False
    """Whether no iteration may differ from another in what it does, so that what is measured at all is measured in each."""

    def __init__(self, iteration: Iteration) -> None:
        self.iteration = iteration

    def prepare(self) -> None:
        """Do what must be done before the next iteration and is no part of it."""

    def __call__(self, reals: Iterator[Tensor]) -> None:
        """Run one iteration on batches drawn from `reals`."""
        self.iteration(reals)


class Recording(Protocol):
    """What runs a call in the way that recording needs, records one, and replays it."""

    def warm_up(self, call: Callable[[], None]) -> None:
        """Run a call as it is."""

    def record(self, call: Callable[[], None]) -> None:
        """Record what a call does to tensors."""

    def replay(self) -> None:
        """Do it again, in the same tensors."""


class CudaGraph(Eager):
    """Runs the first iterations eagerly, records one, and replays it from then on. Each call is one true iteration.

    A replay does what the recorded iteration did to the same tensors: real batches are copied into those that it read,
    random generators are registered and go on in their own streams, and what Python counted is counted again. So the
    results are those of eager iterations, to the last bit where kernels are deterministic. What an iteration does must
    not depend on anything that the host remembers from one to the next.

    Args:
        iteration: One iteration, a function of an iterator of real batches.
        counters: What Python counts while an iteration runs.
        optimizers: Those that step within it; they are told to keep everything on the device.
        recording: What records and replays; see `CudaRecording`.
        profile: Called with 1 before the last eager iteration, which is like those that follow, and with 0 after it.
        warm_up: How many iterations are eager: libraries choose their kernels, optimisers create their state.
    """

    always_the_same = True

    def __init__(
        self,
        iteration: Iteration,
        *,
        counters: Sequence[Counter[str]],
        optimizers: Sequence[Optimizer],
        recording: Recording,
        profile: Callable[[int], None] = lambda left: None,
        warm_up: int = 4,
    ) -> None:
        super().__init__(iteration)
        self.counters = counters
        self.recording = recording
        self.profile = profile
        self.warm_up = warm_up
        self._eager_iterations = 0
        self._batches: list[Tensor] = []
        self._increments: list[Counter[str]] | None = None
        for optimizer in optimizers:
            keep_on_device(optimizer)

    def prepare(self) -> None:
        """Record, when it is time.

        Raises:
            NotRecordable: Something in the iteration waits for the device, or depends on the host.
        """
        if self._increments is not None or self._eager_iterations < self.warm_up - 1:
            return
        self.profile(self.warm_up - self._eager_iterations)
        if self._eager_iterations == self.warm_up:
            self._record()

    def __call__(self, reals: Iterator[Tensor]) -> None:
        """Run one iteration, or replay one, on batches drawn from `reals`."""
        if self._increments is None:
            seen = _Seen(reals)
            self.recording.warm_up(lambda: self.iteration(seen))
            self._eager_iterations += 1
            self._batches = seen.batches
            return
        for place in self._batches:
            batch = next(reals)
            if batch.shape != place.shape:
                raise ValueError(
                    f"a batch of shape {tuple(batch.shape)} came after those of shape {tuple(place.shape)}: with cuda_graph "
                    "all must be alike; leave out the last one of an epoch, or choose cuda_graph=false"
                )
            place.copy_(batch)
        self.recording.replay()
        for counter, increment in zip(self.counters, self._increments, strict=True):
            counter.update(increment)

    def _record(self) -> None:
        before = [counter.copy() for counter in self.counters]
        self._batches = [batch.clone() for batch in self._batches]
        try:
            self.recording.record(lambda: self.iteration(iter(self._batches)))
        except (RuntimeError, StopIteration) as error:
            reason = "it draws a varying number of batches" if isinstance(error, StopIteration) else str(error).splitlines()[0]
            raise NotRecordable(reason) from error
        finally:
            increments = [counter - earlier for counter, earlier in zip(self.counters, before, strict=True)]
            for counter, increment in zip(self.counters, increments, strict=True):
                counter.subtract(increment)  # what was recorded has not happened yet
        self._increments = increments


class CudaRecording:
    """Records on a GPU.

    Args:
        generators: Returns the random generators that are drawn from, beside torch's own.
    """

    def __init__(self, generators: Callable[[], Sequence[torch.Generator]]) -> None:
        self.generators = generators
        self.graph = torch.cuda.CUDAGraph()
        self.aside = torch.cuda.Stream()

    def warm_up(self, call: Callable[[], None]) -> None:
        """Run a call on a stream beside the current one, as recording will, and let the current one wait for it."""
        self.aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.aside):
            call()
        torch.cuda.current_stream().wait_stream(self.aside)

    def record(self, call: Callable[[], None]) -> None:
        """Record a call; nothing is computed yet. Other threads may go on using the device, to pin memory for example."""
        for generator in self.generators():
            self.graph.register_generator_state(generator)
        with torch.cuda.graph(self.graph, stream=self.aside, capture_error_mode="thread_local"):
            call()

    def replay(self) -> None:
        """Launch the graph."""
        self.graph.replay()


class _Seen:
    """Batches on their way, kept."""

    def __init__(self, reals: Iterator[Tensor]) -> None:
        self.reals = reals
        self.batches: list[Tensor] = []

    def __iter__(self) -> Iterator[Tensor]:
        return self

    def __next__(self) -> Tensor:
        self.batches.append(next(self.reals))
        return self.batches[-1]


def keep_on_device(optimizer: Optimizer) -> None:
    """Let an optimiser of torch's count its steps on the GPU, where its parameters are."""
    for group in optimizer.param_groups:
        if "capturable" in group and all(parameter.is_cuda for parameter in group["params"]):
            group["capturable"] = True
            for parameter in group["params"]:
                state: dict[str, Any] = optimizer.state.get(parameter, {})
                if "step" in state:
                    state["step"] = torch.as_tensor(state["step"], dtype=torch.float32).to(parameter.device)


def reason_against(strategy: object) -> str:
    """Say why a strategy cannot be recorded, or nothing. One with a `state_dict` remembers something on the host."""
    return f"{type(strategy).__name__} keeps count of iterations" if hasattr(strategy, "state_dict") else ""
