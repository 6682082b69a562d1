"""What tests of features share."""

import pytest
import torch

from ganexp.evaluation.features import PUBLISHED
from tests.evaluation.small_networks import SIZES, SMALL, random_weights


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """Put small networks in the place of the published ones, with files of random weights, and return the folder."""
    timm = pytest.importorskip("timm")
    published = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda model, **sizes: published(model, **sizes | SIZES))
    for name, small in SMALL.items():
        monkeypatch.setitem(PUBLISHED, name, small)
        torch.save(random_weights(name), tmp_path / small.file)
    return tmp_path
