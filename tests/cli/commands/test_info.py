"""`ganexp info`: what a place is, and what lies on the disk."""

import json

import pytest
import torch

from ganexp import build, load
from ganexp.cli.commands.info.disk import of_size, size
from ganexp.sampling.exporting import described, export
from ganexp.sampling.saved import save
from tests.calling import call
from tests.composing import composed
from tests.sampling import tiny_generators as tiny
from tests.small_runs import SMALL


def told(capsys):
    """Return what was printed, by name, without the entry of BibTeX behind it."""
    printed = capsys.readouterr().out
    assert "@software{ganexp," in printed
    return dict(line.split("  ", 1) for line in printed.partition("\n\n")[0].splitlines())


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "a"
    build(composed(*SMALL, "average.decay=0.9", "keep_best=loss/d", "iterations=10"), folder).fit()
    return folder


def test_a_run_and_its_checkpoint_say_what_they_are_and_how_they_are_used(run, capsys):
    call("info", run)
    of_run = {key: value.strip() for key, value in told(capsys).items()}
    assert of_run["what"] == "a run, finished"
    assert {"last.pt", "best.pt", "loss", "strategy", "size"} <= of_run.keys()
    assert of_run["samples"] == f"ganexp sample {run}"
    best = run / "checkpoints" / "best.pt"
    call("info", best)
    of_file = {key: value.strip() for key, value in told(capsys).items()}
    config = json.loads((run / "config.json").read_text())
    assert of_file["what"] == "a checkpoint"
    assert of_file["in"] == f"latents n × {config['latent_dim']}, {config['prior']}"
    assert of_file["weights"].startswith("as trained and averaged")
    assert of_file["dataset"] == config["dataset"]["name"]
    call("info", run.parent)
    assert told(capsys)["what"].strip() == "a sweep of 1 runs: 1 finished"


NO_ONNX = pytest.mark.skipif(torch.__version__ < "2.7", reason="torch 2.6 writes no batch norm as ONNX")


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize(
    ("form", "suffix"), [("torchscript", ".ts"), ("torch_export", ".pt2"), pytest.param("onnx", ".onnx", marks=NO_ONNX)]
)
def test_exported_files_say_what_they_are(form, suffix, tmp_path, capsys):
    if form == "onnx":
        for package in ("onnx", "onnxscript", "onnxruntime"):
            pytest.importorskip(package)
    G = tiny.images(3)
    export(G, form, tmp_path / f"x{suffix}")
    call("info", tmp_path / f"x{suffix}")
    lines = {key: value.strip() for key, value in told(capsys).items()}
    assert lines["samples"] == " × ".join(map(str, ["n", *G.shape]))
    assert lines["argument z"] == f"n × {G.latent_dim}"
    assert lines["how"] == "network(z, labels)"
    assert lines["iterations"] == str(described(G)["iterations"])


@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")
@pytest.mark.parametrize(
    ("name", "averaged", "which"),
    [
        ("last.pt", True, "averaged by ema, of last.pt"),
        ("best.pt", True, "averaged by ema, of best.pt"),
        ("last.pt", False, "as trained, of last.pt"),
    ],
)
def test_exports_say_which_weights_they_hold_and_how_these_were_trained(run, name, averaged, which, tmp_path, capsys):
    config = json.loads((run / "config.json").read_text())
    G = load(run / "checkpoints" / name, averaged=averaged)
    export(G, "torchscript", tmp_path / "x.ts")
    save(G, tmp_path / "saved")
    export(load(tmp_path / "saved"), "torchscript", tmp_path / "again.ts")
    for place, iteration in (("x.ts", "iterations"), ("saved", "iteration"), ("again.ts", "iterations")):
        call("info", tmp_path / place)
        printed = capsys.readouterr().out
        lines = {
            key: value.strip() for key, value in (line.split("  ", 1) for line in printed.partition("\n\n")[0].splitlines())
        }
        assert lines["weights"] == which
        assert {group: lines[group] for group in ("loss", "strategy", "generator", "optimizer")} == {
            group: config[group]["name"] for group in ("loss", "strategy", "generator", "optimizer")
        }
        assert lines[iteration] == str(G.origin.iterations)
        assert "{yazici2019," in printed  # of its average
    assert f"| weights | {which} |" in (tmp_path / "saved" / "README.md").read_text()


def test_what_is_nothing_of_ganexps_is_one_sentence(tmp_path):
    (tmp_path / "x.pt2").write_bytes(b"PK")
    (tmp_path / "empty").mkdir()
    for place, said in (
        (tmp_path / "x.pt2", "does not say what it is"),
        (tmp_path / "empty", "is no run, checkpoint"),
        (tmp_path / "none", "does not exist"),
    ):
        with pytest.raises(SystemExit, match=said):
            call("info", place)
    with pytest.raises(SystemExit, match="name a place, or say --disk"):
        call("info")


def test_the_disk_is_listed_with_a_link_that_leads_nowhere(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for path, count in {"outputs/one/summary.json": 3 * 2**20, "cache/decoded/x": 2**20, "wandb/y": 2**21}.items():
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes(b" " * count)
    (tmp_path / "outputs" / "latest").symlink_to("gone")
    call("info", "--disk")
    printed = capsys.readouterr().out
    for line in (
        "3.0 MiB  outputs/one",
        "2.0 MiB  wandb",
        f"1.0 MiB  {tmp_path / 'cache' / 'decoded'}",
        "leads to a run that is gone",
    ):
        assert line in printed
    assert size(tmp_path / "outputs") == 3 * 2**20 + len("gone")
    assert of_size(3 * 2**30) == "3.0 GiB"


def test_a_saved_generator_says_what_it_is(run, tmp_path, capsys):
    import ganexp

    save(ganexp.load(run), tmp_path / "shared")
    call("info", tmp_path / "shared")
    lines = {key: value.strip() for key, value in told(capsys).items()}
    assert lines["what"] == "a saved generator"
    assert lines["in Python"] == f'G = ganexp.load("{tmp_path / "shared"}")'
