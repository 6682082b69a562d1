"""Exported files compute what the generator computes, and one that does not is not kept."""

import contextlib
import sys
from functools import partial

import pytest
import torch
from torch import nn

from ganexp.cli.commands.sample import SUFFIXES
from ganexp.facts import UserError
from ganexp.sampling import Trained
from ganexp.sampling.exporting import EXAMPLES, FORMS, export
from tests.composing import declared, options
from tests.full import on_a_full_disk
from tests.sampling import tiny_generators as tiny

OF_TORCH = ["torchscript", "torch_export"]


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize("form", [*OF_TORCH, pytest.param("onnx", marks=pytest.mark.slow)])
def test_outputs_are_the_generators_on_a_batch_of_any_size(tmp_path, form):
    if form == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    G = tiny.images(3)
    path = tmp_path / f"x{SUFFIXES[form]}"
    assert 0 <= export(G, form, path) <= 1e-5
    z, labels = G.latents(range(20, 33)).values, G.labels(range(20, 33))
    torch.testing.assert_close(FORMS[form][1](path.read_bytes())(z, *labels), G(z, *labels), rtol=0, atol=1e-5)
    assert [*tmp_path.iterdir()] == [path]


def test_on_a_full_disk_nothing_aborts_and_nothing_is_left(tmp_path):
    path = tmp_path / "x.ts"
    said = on_a_full_disk(export, tiny.points(), "torchscript", path, room=1000)
    assert said == f"OSError: [Errno 27] File too large: '{path}'"
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("form", OF_TORCH)
def test_points_and_float64(tmp_path, form):
    assert export(tiny.points(), form, tmp_path / f"x{SUFFIXES[form]}") <= 1e-5
    assert export(tiny.images(dtype=torch.float64), form, tmp_path / f"y{SUFFIXES[form]}") <= 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("form", OF_TORCH)
@pytest.mark.parametrize("name", options("generator"))
def test_every_generator_can_be_exported(tmp_path, name, form):
    kind, shape = declared("generator", name), (3, 32, 32)
    source = {"srresnet": (3, 8, 8)}.get(name, shape) if getattr(kind, "reads_sources", False) else ()
    if name == "two_way":
        shape = source = (6, 32, 32)
        network = kind(source, shape, of=partial(declared("generator", "resnet_translator"), width=8, blocks=1))
    else:
        network = kind(source or 5, shape, width=8, **{"unet": {"depth": 2}, "dit": {"depth": 2, "heads": 2}}.get(name, {}))
    G = Trained(network, latent_dim=5, prior="normal", shape=shape, source_shape=source)
    assert export(G, form, tmp_path / f"x{SUFFIXES[form]}") <= 1e-5


class OfTheBatch(nn.Module):
    """Bakes the size of the batch that it was traced with into the file."""

    def forward(self, z):
        return z[:, :2] * int(z.shape[0])


class NowhereElse(nn.Module):
    """Makes NaN of batches of any size but the traced one, which a trace does not see."""

    def forward(self, z):
        return z[:, :2] if z.shape[0] == EXAMPLES else z[:, :2] * torch.nan


class Undecided(nn.Module):
    """Branches on values, which no graph can."""

    def forward(self, z):
        return z[:, :2] if float(z.sum()) > 0 else -z[:, :2]


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_file_that_computes_something_else_is_refused(tmp_path):
    wrong = Trained(OfTheBatch(), latent_dim=3, prior="normal", shape=(2,))
    (tmp_path / "x.ts").write_text("what was there before")
    with pytest.raises(UserError, match=r"the torchscript file computes samples that are [\d.]+ off the generator's"):
        export(wrong, "torchscript", tmp_path / "x.ts")
    nowhere = Trained(NowhereElse(), latent_dim=3, prior="normal", shape=(2,))
    with pytest.raises(UserError, match=r"the torchscript file computes samples that are nan off the generator's"):
        export(nowhere, "torchscript", tmp_path / "x.ts")
    undecided = Trained(Undecided(), latent_dim=3, prior="normal", shape=(2,))
    with pytest.raises(UserError, match=r"\Athe generator cannot be written as torch_export \([^\n]*\)\Z"):
        export(undecided, "torch_export", tmp_path / "x.pt2")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["what was there before"]


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
@pytest.mark.parametrize(("off", "kept"), [(1e-5, True), (1e-3, False)])
def test_what_may_be_off_is_a_share_of_the_samples(tmp_path, monkeypatch, scale, off, kept):
    write, read = FORMS["torchscript"]
    monkeypatch.setitem(FORMS, "torchscript", (write, lambda content: lambda z: read(content)(z) * (1 + off)))
    network = nn.Linear(3, 2, bias=False)
    network.weight.data *= scale
    G = Trained(network, latent_dim=3, prior="normal", shape=(2,))
    with contextlib.nullcontext() if kept else pytest.raises(UserError):
        export(G, "torchscript", tmp_path / "x.ts")
    assert [path.name for path in tmp_path.iterdir()] == (["x.ts"] if kept else [])


@pytest.mark.slow
def test_stylegan2_of_its_normal_width_can_be_written_as_onnx(tmp_path):
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package)
    G = Trained(declared("generator", "stylegan2")(512, (3, 32, 32)), latent_dim=512, prior="normal", shape=(3, 32, 32))
    assert export(G, "onnx", tmp_path / "x.onnx") < 8e-5  # a hundredth of a grey level


def test_onnx_without_its_packages_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(UserError, match="onnx needs onnx, which is not installed: pip install onnx onnxscript onnxruntime"):
        export(tiny.points(), "onnx", tmp_path / "x.onnx")
    assert not [*tmp_path.iterdir()]
