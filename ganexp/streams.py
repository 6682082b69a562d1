"""Independent random streams, all derived from one seed.

Latents, data order and penalties each draw from a stream of their own, so that draws of one do not shift another: two
strategies that draw latents equally often see the same latents, whatever else they do.
"""

import random
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def stream(seed: int, purpose: str, device: torch.device | str = "cpu", index: int = 0) -> torch.Generator:
    """Return a generator on `device` that is a function of (seed, purpose, index) alone.

    `index` distinguishes streams of one purpose, for example the epochs of the data order. On the meta device nothing is drawn,
    and the generator is the CPU's.
    """
    device = "cpu" if torch.device(device).type == "meta" else device
    return reseeded(torch.Generator(device), seed, purpose, index)


def reseeded(generator: torch.Generator, seed: int, purpose: str, index: int = 0) -> torch.Generator:
    """Begin another stream with the same generator, as recorded iterations require."""
    entropy = np.random.SeedSequence([seed, zlib.crc32(purpose.encode()), index])
    return generator.manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> np.uint64(1)))


class Drawing:
    """A part that may have a random stream of its own, which is then its state."""

    rng: torch.Generator | None = None
    """The stream, if it has one: it draws numbers for the global batch, of which each process takes its share."""

    def streams(self) -> list[torch.Generator]:
        """Return the random streams that it draws from."""
        return [] if self.rng is None else [self.rng]

    def state_dict(self) -> dict[str, Any]:
        """Return the stream's state, if there is a stream."""
        return {} if self.rng is None else {"rng": self.rng.get_state()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the stream from a state."""
        if self.rng is not None:
            self.rng.set_state(state["rng"])


def seed_global_streams(seed: int) -> None:
    """Seed the streams that belong to the whole process: torch's, for every device, NumPy's and Python's."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    random.seed(seed)


@contextmanager
def undisturbed(device: torch.device, seed: int = 0) -> Iterator[None]:
    """Seed the global streams for the code inside, and restore their states at the end.

    The streams are torch's, for the CPU and for `device`, NumPy's and Python's.
    """
    numpys, pythons = np.random.get_state(), random.getstate()  # noqa: NPY002
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        seed_global_streams(seed)
        try:
            yield
        finally:
            np.random.set_state(numpys)  # noqa: NPY002
            random.setstate(pythons)
