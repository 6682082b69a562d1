"""What holds for every test."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _two_threads() -> None:
    torch.set_num_threads(2)
