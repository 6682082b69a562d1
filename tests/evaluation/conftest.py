"""What tests of features share."""

import pytest
import torch

from ganexp.evaluation.vision_transformers import NETWORKS
from tests.evaluation.small_networks import SMALL, random_weights


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """Put small networks in the place of the published ones, with files of random weights, and return the folder."""
    for name, small in SMALL.items():
        monkeypatch.setitem(NETWORKS[name].published, name, small)
        torch.save(random_weights(name), tmp_path / small.file)
    return tmp_path
