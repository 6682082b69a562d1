"""Seeds of streams are NumPy's, computed without NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ganexp.streams import mixed_seed


@given(st.lists(st.integers(0, 2**130), max_size=7))
def test_a_seed_is_that_of_numpys_seed_sequence(entropy: list[int]):
    expected = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
    assert mixed_seed(entropy) == int(expected) >> 1


def test_negative_seeds_are_refused():
    with pytest.raises(ValueError, match=r"^a seed should be at least 0, not -1$"):
        mixed_seed([3, -1])
