"""Independent random streams, all derived from one seed.

Latents, data order and penalties each draw from a stream of their own, so that draws of one do not shift another: two
strategies that draw latents equally often see the same latents, whatever else they do.
"""

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

try:
    import numpy as np
except ModuleNotFoundError:  # torch does without it, and so does a game: what draws from NumPy's stream has imported it
    np = None  # type: ignore[assignment]

WORD = 2**32
POOL = 4
"""Words of 32 bits that entropy is mixed into."""


def stream(seed: int, purpose: str, device: torch.device | str = "cpu", index: int = 0) -> torch.Generator:
    """Return a generator on `device` that is a function of (seed, purpose, index) alone.

    `index` distinguishes streams of one purpose, for example the epochs of the data order. On the meta device nothing is drawn,
    and the generator is the CPU's.
    """
    device = "cpu" if torch.device(device).type == "meta" else device
    return reseeded(torch.Generator(device), seed, purpose, index)


def reseeded(generator: torch.Generator, seed: int, purpose: str, index: int = 0) -> torch.Generator:
    """Begin another stream with the same generator, as recorded iterations require."""
    return generator.manual_seed(mixed_seed([seed, zlib.crc32(purpose.encode()), index]))


def mixed_seed(entropy: Sequence[int]) -> int:
    """Return a seed of 63 bits: the upper ones of the first 64 of `numpy.random.SeedSequence(entropy)` (O'Neill 2015).

    Raises:
        ValueError: A number is negative.
    """
    words: list[int] = []
    for number in entropy:
        if number < 0:
            raise ValueError(f"a seed should be at least 0, not {number}")
        words += [number >> 32 * place & WORD - 1 for place in range(max(1, -(-number.bit_length() // 32)))]
    first = _hashing(0x43B0D7E5, 0x931E8875)
    pool = [first(word) for word in (words + POOL * [0])[:POOL]]
    for source in range(max(POOL, len(words))):
        for target in range(POOL):
            if source != target:
                drawn = first(pool[source] if source < POOL else words[source])
                pool[target] = _folded(0xCA01F9DD * pool[target] - 0x4973F715 * drawn)
    second = _hashing(0x8B51F9DD, 0x58F38DED)
    low, high = second(pool[0]), second(pool[1])
    return (high << 32 | low) >> 1


def _hashing(constant: int, factor: int) -> Callable[[int], int]:
    """Return a hash of words whose constant is multiplied by a factor with every word."""

    def hashed(word: int) -> int:
        nonlocal constant
        word ^= constant
        constant = constant * factor % WORD
        return _folded(word * constant)

    return hashed


def _folded(word: int) -> int:
    word %= WORD
    return word ^ word >> 16


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
    if np is not None:
        np.random.seed(seed % 2**32)
    random.seed(seed)


@contextmanager
def undisturbed(device: torch.device, seed: int = 0) -> Iterator[None]:
    """Seed the global streams for the code inside, and restore their states at the end.

    The streams are torch's, for the CPU and for `device`, NumPy's and Python's.
    """
    numpys: Any = None if np is None else np.random.get_state()
    pythons = random.getstate()
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        seed_global_streams(seed)
        try:
            yield
        finally:
            if np is not None:
                np.random.set_state(numpys)
            random.setstate(pythons)
