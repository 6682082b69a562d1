"""Every command on a run whose generator is given sources: it works, or says in one sentence what takes its place."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from ganexp.config.loading import set_of
from ganexp.config.run_data import preview_of
from ganexp.logging.pictures import translations
from ganexp.training.execution import Machine
from tests.calling import call
from tests.cli.commands.translators import SMALL, TWO_WAY, UNET
from tests.composing import composed

LONGER = [
    *("average=power", "average.beside=[0.05]", "checkpoint_every=2", "keep_checkpoints=5", "iterations=4"),
    *("evaluation.features=raw", "evaluation.samples=40", "measure=[kid]"),
]
WORKS = [
    "sample RUN",
    "sample RUN --n 3 --first 2 --output OUT/grid.png",
    pytest.param("sample RUN --export --form torch_export", marks=pytest.mark.slow),
    pytest.param("sample RUN --export --form onnx", marks=pytest.mark.slow),
    pytest.param("sample RUN --export --form torchscript", marks=pytest.mark.slow),
    "sample RUN --save --with-discriminator",
    "evaluate RUN --nearest pixels",
    pytest.param("evaluate RUN --measure auto --samples 20 --output OUT/auto", marks=pytest.mark.slow),
    "average RUN --width 0.07",
    "report RUN",
    pytest.param("dynamics RUN --rules joint --path", marks=pytest.mark.slow),
]
REFUSED = {
    "sample RUN --images": "ganexp translate",
    "sample RUN --film": "ganexp translate",
    "sample RUN --standing 2": "standing",
    "sample RUN --method rejection": "--method",
    "sample RUN --method langevin": "--method",
    "sample RUN --truncation 1": "--truncation",
    "sample RUN --seed 1": "--seed",
    "sample RUN --n 500 --output OUT/grid.png": "--n",
}


@pytest.fixture(scope="module", params=["unet", "two_way"])
def run(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / request.param
    ganexp.build(composed(*words_of(folder), *LONGER), folder).fit()
    return folder


def typed(line, run, tmp_path):
    return line.replace("RUN", str(run)).replace("OUT", str(tmp_path)).split()


@pytest.mark.parametrize("line", WORKS)
def test_a_command_works_on_a_translator(line, run, tmp_path):
    call(*typed(line, run, tmp_path))


@pytest.mark.parametrize("line", REFUSED)
def test_what_needs_latents_says_what_takes_its_place(line, run, tmp_path):
    with pytest.raises(SystemExit) as end:
        call(*typed(line, run, tmp_path))
    assert REFUSED[line] in end.value.code
    assert "\n" not in end.value.code


def test_a_grid_shows_held_out_sources_outputs_and_targets(run, tmp_path):
    path = call("sample", run, "--indices", "3", "1", "--output", tmp_path / "grid.png")
    trained, prior = ganexp.load(run), ganexp.build(composed(*words_of(run))).gan.prior
    held_out = prior.fixed(4).map(lambda one: one[[3, 1]])
    wanted = translations(held_out.values, trained(held_out.values), held_out.target, two_way=run.name == "two_way")
    np.testing.assert_array_equal(np.asarray(Image.open(path)), wanted)


def words_of(run):
    return [*UNET, *SMALL, "dataset.hold_out=297"] if run.name == "unet" else [*TWO_WAY, "dataset.of.hold_out=297"]


def test_an_evaluation_shows_pairs_and_what_doing_nothing_would_reach(run, tmp_path, capsys):
    measure = "psnr" if run.name == "unet" else "kid"
    call("evaluate", run, "--measure", measure, "--samples", 20, "--output", tmp_path / "evaluated")
    page = (tmp_path / "evaluated" / "evaluation.html").read_text()
    (result,) = json.loads((tmp_path / "evaluated" / "evaluation.json").read_text())["results"]
    kind = "pairs" if run.name == "unet" else "sources"
    assert result["pairs"] == f"20 held-out {kind}"
    assert f"what the translator makes of 20 held-out {kind}" in page
    assert f"Measured on 20 held-out {kind}." in " ".join(capsys.readouterr().out.split())
    if run.name == "unet":
        dataset, data = set_of(ganexp.load(run))
        batch = preview_of(dataset, data, 0, Machine.resolved("cpu", "fp32")).read(range(20))
        source, target = (np.rint((images.numpy().clip(-1, 1) + 1) * 127.5) for images in (batch.source, batch.values))
        errors = np.square(source - target).mean((1, 2, 3))
        assert result["sources_themselves"]["eval/psnr"] == pytest.approx(np.mean(10 * np.log10(255**2 / errors)), rel=1e-5)
    else:
        assert result["sources_themselves"] == {}


def test_averages_and_saved_folders_are_translators_again(run, tmp_path):
    (average,) = call("average", run, "--width", "0.09")
    folder = call("sample", run, "--save", "--output", tmp_path / "saved")
    source = torch.rand(2, *ganexp.load(run).source_shape)
    for place in (average, folder):
        loaded = ganexp.load(place)
        assert loaded.source_shape == tuple(source.shape[1:])
        assert loaded(source).shape == source.shape
    torch.testing.assert_close(ganexp.load(folder)(source), ganexp.load(run)(source), rtol=0, atol=0)
    card = (folder / "README.md").read_text()
    assert all(words in card for words in ("G(sources)", "# A translator, trained on"))
    assert ("| term |" in card) == bool(json.loads((run / "config.json").read_text())["term"])
    assert not any(words in card for words in ("latent", "prior", "unconditional"))
    assert not (folder / "samples.png").exists()  # it would show data
    assert json.loads((folder / "generator.json").read_text())["source_shape"] == list(source.shape[1:])


def test_an_export_of_one_direction_is_that_translator(run, tmp_path):
    path = tmp_path / "one.pt2"
    line = ["sample", run, "--export", "--direction", "b_to_a", "--output", path]
    if run.name == "unet":
        with pytest.raises(SystemExit, match="one direction"):
            call(*line)
        return
    call(*line)
    b = torch.rand(2, 1, 16, 16) * 2 - 1
    wanted = ganexp.load(run).one_way("b_to_a")(b)
    torch.testing.assert_close(torch.export.load(path).module()(b), wanted, rtol=1e-4, atol=1e-5)
    stack = ganexp.load(run)(torch.cat([torch.zeros_like(b), b], 1))
    torch.testing.assert_close(stack[:, :1], wanted)


def test_outputs_stand_beside_the_nearest_training_images(run, tmp_path, capsys):
    line = ["sample", run, "--neighbours", "--n", "2", "--nearest", "3", "--output", tmp_path / "near.png"]
    width = 32 if run.name == "two_way" else 16
    assert np.asarray(Image.open(call(*line))).shape == (2 + 2 * 18, 2 + 5 * (width + 2), 3)


def test_pictures_of_a_run_have_four_images_of_each_stack_and_three_of_each_pair(run):
    together = 4 if run.name == "two_way" else 3
    pixels = np.asarray(Image.open(run / "samples/samples_0000000.png"))
    assert pixels.shape == (2 + 8 * 18, 2 + 4 * (together * 17 - 1 + 8 + 2), 3)
