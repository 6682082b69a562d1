"""Features from files, and what is said of those that cannot be used."""

import importlib
import sys

import pytest
import torch
from torch import nn

from ganexp.evaluation import Evaluator, Exported, Inception, Raw
from ganexp.evaluation.features import features_checksum
from ganexp.facts import UserError
from tests.composing import measures


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 5)

    def forward(self, x):
        features = self.layer(x.flatten(1))
        return features, features[:, :2]


class Pixels(nn.Module):
    def forward(self, x):
        return x


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.parametrize("kind", ["ts", pytest.param("pt2", marks=pytest.mark.slow)])
def test_torchscript_and_exported_files_are_seen_through(kind, tmp_path):
    torch.manual_seed(0)
    net, images, path = Net().eval(), torch.randn(4, 3, 2, 2), tmp_path / f"net.{kind}"
    if kind == "ts":
        torch.jit.trace(net, images).save(path)
    else:
        batch = torch.export.Dim("batch", min=1, max=1000)
        torch.export.save(torch.export.export(net, (images,), dynamic_shapes=({0: batch},)), path)
    features = Exported(path, (3, 2, 2))
    assert (features.name, features.size, features.classes, len(features.checksum)) == (path.name, 5, 2, 16)
    torch.testing.assert_close(features(images.double()), net(images))
    with pytest.raises(UserError, match=r"net\.\w+ is no network"):
        Exported(path, (3, 4, 4))


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning", "ignore:.*torch.jit:DeprecationWarning")
def test_what_is_no_network_of_features_is_refused_in_a_sentence(tmp_path):
    torch.jit.trace(Pixels(), torch.zeros(2, 3, 2, 2)).save(tmp_path / "pixels.ts")
    with pytest.raises(UserError, match=r"pixels\.ts is no network"):
        Exported(tmp_path / "pixels.ts", (3, 2, 2))
    (tmp_path / "text.pt").write_text("no network")
    with pytest.raises(UserError, match=r"text\.pt is no network"):
        Exported(tmp_path / "text.pt", (3, 2, 2))
    with pytest.raises(UserError, match=r"none\.pt cannot be read"):
        Exported(tmp_path / "none.pt", (3, 2, 2))


def test_a_library_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(UserError, match=r"^kid: this needs torch_fidelity"):
        Evaluator(measures("kid"), Raw((2,)), samples=100)
    Evaluator(measures("density_coverage"), Raw((2,)), samples=100)


def test_inception_without_a_network_says_where_its_weights_belong(monkeypatch, tmp_path):
    module = importlib.import_module("torch_fidelity.feature_extractor_inceptionv3")

    def unreachable(*args, **kwargs):
        raise OSError("<urlopen error [Errno -3] Temporary failure in name resolution>")

    monkeypatch.setattr(module, "load_state_dict_from_url", unreachable)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    with pytest.raises(UserError, match=r"^the weights of Inception cannot be downloaded .*name resolution"):
        Inception()


def test_a_checksum_is_of_every_weight():
    torch.manual_seed(0)
    net = Net()
    before = features_checksum(net.state_dict())
    assert before == features_checksum(net.state_dict())
    with torch.no_grad():
        net.layer.bias[0] += 1e-6
    assert features_checksum(net.state_dict()) != before
