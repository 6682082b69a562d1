"""`ganexp sample`: what it leaves where, and what it refuses, on a small run."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from ganexp.cli.commands.sample import READY, playing
from ganexp.config.loading import load_pair
from ganexp.evaluation.nearest import as_yardstick, nearest
from ganexp.sampling import Langevin, Trained
from tests.calling import call
from tests.cli.commands.conftest import SMALL
from tests.composing import composed
from tests.full import on_a_full_disk


@pytest.fixture
def copy(run, tmp_path):
    return shutil.copytree(run, tmp_path / "run")


def test_a_grid_has_a_row_for_each_class_and_says_where_it_lies(copy, capsys):
    path = call("sample", f"run={copy}", "--n", "20", "--truncation", "0.7", "--seed", "3")
    assert path == copy / "generated" / "grid_seed3_truncation0.7.png"
    used = copy / "checkpoints" / "last.pt"
    assert capsys.readouterr().out == f"Weights of {used}, iteration 2.\nWritten to {path}\n"
    shutil.copy(used, used.with_name("best.pt"))
    call("sample", f"run={copy}", "--overwrite")
    assert f"Weights of {used}, iteration 2; the best one is {used.with_name('best.pt')}." in capsys.readouterr().out
    wanted = ganexp.load(copy).sample(20, seed=3, truncation=0.7).numpy()
    with Image.open(path) as file:
        picture = np.asarray(file)
    assert picture.shape == (102, 22, 3)
    np.testing.assert_allclose(picture[32:40, 12:20, 0], (wanted[13, 0] + 1) * 127.5, atol=0.51)


def test_a_grid_of_classes_is_filled_from_any_first_sample_and_each_pixel_is_a_square(copy):
    path = call("sample", copy, "--n", "11", "--first", "3", "--enlarge", "3")
    wanted = ganexp.load(copy).sample(20, first=3).numpy()
    with Image.open(path) as file:
        picture = np.asarray(file)
    assert picture.shape == (306, 66, 3)
    np.testing.assert_array_equal(picture, picture[::3, ::3].repeat(3, 0).repeat(3, 1))
    for number, sample in enumerate(wanted):  # the one of index 3 + number lies in row number % 10
        top, left = 2 + 10 * (number % 10), 2 + 10 * (number // 10)
        shown = picture[::3, ::3][top : top + 8, left : left + 8, 0]
        np.testing.assert_allclose(shown, (sample[0] + 1) * 127.5, atol=0.51)


def test_files_films_and_neighbours(copy, capsys):
    last = copy / "checkpoints" / "last.pt"
    folder = call("sample", last, "--images", "--indices", "3", "5", "--label", "7")
    assert folder == copy / "generated" / "samples_seed0_label7"
    assert sorted(path.name for path in folder.iterdir()) == ["000000003.png", "000000005.png", "samples.json"]
    call("sample", last, "--images", "--n", "6", "--label", "7")
    assert "4 images written, 2 were there already" in capsys.readouterr().out
    assert call("sample", copy, "--images", "--n", "6", "--format", "npz").name == "samples_npz_0-6_seed0.npz"
    chosen = [str(copy), "--images", "--indices", "3", "1", "--format", "npz"]
    assert call("sample", *chosen).name == "samples_npz_seed0_indices3-1.npz"
    shards = call("sample", copy, "--images", "--n", "6", "--format", "tar", "--shard-size", "4", "--first", "2")
    assert sorted(path.name for path in shards.glob("*.tar")) == ["samples-000000.tar", "samples-000001.tar"]
    with Image.open(call("sample", copy, "--film", "--tiles", "2", "--n", "6", "--frames", "2", "--open")) as film:
        assert film.n_frames == 5
    with Image.open(call("sample", copy, "--neighbours", "--n", "2", "--nearest", "3")) as picture:
        assert picture.size == (2 + 5 * 10, 2 + 2 * 10)
    assert not [*copy.rglob("*.unfinished")]


def test_the_discriminator_decides_by_either_method(copy, capsys):
    path = call("sample", copy, "--method", "rejection", "--percentile", "80", "--n", "20")
    assert path == copy / "generated" / "grid_rejection_seed0_percentile80.0.png"
    path = call("sample", copy, "--method", "langevin", "--steps", "3", "--n", "20", "--images", "--format", "npz")
    assert path == copy / "generated" / "samples_npz_0-20_langevin_seed0_steps3_size0.01.npz"
    wanted = Langevin(*load_pair(copy), steps=3).sample(20)
    with np.load(path) as file:
        np.testing.assert_allclose(file["arr_0"][..., 0], (wanted[:, 0] + 1) * 127.5, atol=0.51)
    folder = call("sample", copy, "--method", "langevin", "--steps", "2", "--n", "2", "--images")
    assert json.loads((folder / "samples.json").read_text())["steps"] == 2
    with pytest.raises(SystemExit, match="holds other samples"):
        call("sample", copy, "--n", "2", "--images", "--output", folder)


def test_scores_that_are_no_logits_are_refused(tmp_path):
    for key, *further in (["loss=hinge"], ["pack=2"], ["discriminator=patch", "discriminator.layers=1"]):
        folder = tmp_path / key
        ganexp.build(composed(*SMALL, "logger=[]", "batch_size=8", "iterations=1", key, *further), folder).fit()
        with pytest.raises(SystemExit, match=rf"\AError: {key} [^\n]*\Z"):
            call("sample", folder, "--method", "langevin")


def test_an_export_and_a_folder_to_give_away(copy, tmp_path, capsys):
    path = call("sample", copy, "--export", "--form", "torch_export")
    assert path == copy / "generated" / "generator.pt2"
    assert "Called as network(z, labels), z of shape (n, 64): at most " in capsys.readouterr().out
    folder = call("sample", copy, "--save", "--output", str(tmp_path / "shared"))
    assert f'ganexp.load("{folder}"); choose a licence in {folder / "README.md"}' in capsys.readouterr().out
    assert call("sample", folder, "--n", "10") == folder / "generated" / "grid_seed0.png"
    pair = call("sample", copy, "--save", "--with-discriminator", "--output", str(tmp_path / "pair"))
    assert (
        call("sample", pair, "--method", "langevin", "--steps", "1", "--n", "10").name
        == "grid_langevin_seed0_steps1_size0.01.png"
    )
    lone = shutil.copy(copy / "checkpoints" / "last.pt", tmp_path / "lone.pt")
    assert call("sample", lone, "--n", "10") == tmp_path / "generated" / "grid_seed0.png"
    for again in (["--export"], ["--save", "--output", str(folder)]):
        with pytest.raises(SystemExit, match="is there already: add --overwrite"):
            call("sample", copy, *again)


def test_what_cannot_be_is_one_sentence_and_leaves_nothing(copy, tmp_path, capsys, monkeypatch):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    for arguments, said in {
        (tmp_path / "nowhere",): "nowhere does not exist",
        (copy, "--label", 10): "label should be one of 10 classes, counted from 0, not 10",
        (copy, "--images", "--output", tmp_path / "full"): "full holds something else: add --overwrite",
        (copy, "--output", tmp_path / "full" / "x"): "x is there already: add --overwrite",
        (copy, "--output", tmp_path / "full" / "x" / "y.png"): "cannot be written",
        (copy, "--output", tmp_path / "full" / "grid.jpg"): "grid.jpg should end in .png",
        (copy, "--indices", 3, 7, "--n", 5): "leave out --n and --first",
        (copy, "--device", "cuda:99"): "there is no GPU for --device cuda:99",
        (copy, "--with-discriminator"): "--with-discriminator goes with --save",
        (copy, "--export", "--truncation", "0.5"): "leave truncation out",
        (copy, "--standing", "2"): "standing",
        (copy, "--method", "langevin", "--export"): "--method goes with --grid or --images or --neighbours",
        (copy, "--n", 1000, "--format", "npz"): "--format goes with --images",
        (copy, "--percentile", 80): "--percentile goes with --method rejection",
        (copy, "--method", "rejection", "--steps", 9): "--steps goes with --method langevin",
        (copy, "--device", "tpu"): "--device should be cpu, cuda or cuda:N, not tpu",
    }.items():
        with pytest.raises(SystemExit, match=rf"\AError: [^\n]*{said}[^\n]*\Z"):
            call("sample", *arguments)
    monkeypatch.setattr(Trained, "batches", None)  # what cannot be written is not generated
    for task in ("--grid", "--film", "--neighbours", "--export", ("--images", "--format", "npz")):
        arguments = [task] if isinstance(task, str) else [*task]
        with pytest.raises(SystemExit, match=r"\AError: [^\n]*y\.gif cannot be written: Not a directory; name [^\n]*\.\Z"):
            call("sample", copy, *arguments, "--output", str(tmp_path / "full" / "x" / "y.gif"))
    assert capsys.readouterr().out == ""
    assert [*(tmp_path / "full").iterdir()] == [tmp_path / "full" / "x"]
    assert not (copy / "generated").exists()


def test_neighbours_without_the_data_are_a_sentence(copy, monkeypatch):
    def missing(self):
        raise OSError("no digits on this machine")

    monkeypatch.setattr("ganexp.data.Digits.load", missing)
    monkeypatch.setenv("GANEXP_CACHE", str(copy))
    with pytest.raises(SystemExit, match="Error: dataset=digits, on which it was trained, is not available here: no digits on"):
        call("sample", copy, "--neighbours")


def test_a_generator_to_play_with_is_trained_once_and_sampled_at_once(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(READY, "digits", (*READY["digits"], "iterations=2", "checkpoint_every=2"))
    path = call("sample", "digits")
    told = capsys.readouterr().err
    assert "trained first, once" in told
    assert "2/2  D " in told  # there is no terminal, and so no bar
    (kept,) = (one for one in (tmp_path / "cache" / "generators").iterdir() if one.is_dir())
    assert (kept / "model.safetensors").stat().st_size < 1e6
    with Image.open(path) as picture:
        assert (path.as_posix(), picture.size) == ("generated/grid_seed0.png", (4 * (2 + 8 * 18), 4 * (2 + 10 * 18)))
    for words in (
        ["--label", "7"],
        ["--images", "--n", "3"],
        ["--method", "rejection", "--n", "10"],
        ["--film", "--frames", "2"],
    ):
        assert call("sample", "digits", *words).exists()
    assert "trained first" not in capsys.readouterr().err


def left_of_a_kill(kept):
    (kept.with_suffix(".unfinished") / "run").mkdir(parents=True)
    shutil.rmtree(kept)


def link(kept):
    kept.rename(kept.with_name("elsewhere"))
    kept.with_name("elsewhere").joinpath("generator.json").unlink()
    kept.symlink_to("elsewhere")


BREAKS = {
    "cut": lambda kept: os.truncate(kept / "model.safetensors", 5000),
    "missing": lambda kept: (kept / "discriminator.safetensors").unlink(),
    "settings": lambda kept: (kept / "generator.json").write_text("{"),
    "half": lambda kept: [file.unlink() for file in kept.iterdir()],
    "file": lambda kept: (shutil.rmtree(kept), kept.touch()),
    "dangling link": lambda kept: (shutil.rmtree(kept), kept.symlink_to("nowhere")),
    "link": link,
    "left of a kill": left_of_a_kill,
}


@pytest.mark.slow
def test_the_cache_of_generators_to_play_with_repairs_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    monkeypatch.setitem(READY, "digits", (*READY["digits"], "iterations=1", "checkpoint_every=1"))
    before = playing.ready("digits")
    weights, others = (before / "model.safetensors").read_bytes(), {"elsewhere"}
    for name, action in BREAKS.items():
        action(before)
        assert playing.ready("digits") == before, name
        assert not before.is_symlink()
        assert (before / "model.safetensors").read_bytes() == weights
        assert {one.name for one in before.parent.iterdir()} - others == {before.name, f"{before.name}.lock"}
    assert (before.parent / "elsewhere" / "model.safetensors").exists()


def test_a_full_disk_is_told_before_a_generator_to_play_with_is_trained(tmp_path, monkeypatch):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    monkeypatch.setattr(playing, "build", lambda *_: pytest.fail("trained"))
    said = on_a_full_disk(playing.ready, "digits", room=10**6)
    assert said.startswith("OSError")
    assert str(tmp_path) in said
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(("typed", "times"), [((), 4), (("--enlarge", "1"), 1), (("--enlarge", "2"), 2)])
def test_a_generator_to_play_with_is_enlarged_unless_something_else_is_typed(copy, monkeypatch, tmp_path, typed, times):
    monkeypatch.setattr("ganexp.cli.commands.sample.run.ready", lambda name: copy)
    with Image.open(call("sample", "digits", "--n", "20", "--output", tmp_path / "grid.png", *typed)) as file:
        assert file.size == (22 * times, 102 * times)


def test_the_yardstick_of_neighbours_is_the_distance_of_training_images_to_the_nearest_others():
    images = np.random.default_rng(0).uniform(-1, 1, (9, 1, 4, 4))
    apart = np.sqrt(((images[:, None] - images) ** 2).mean((2, 3, 4)))
    expected = np.sort(np.where(np.eye(9, dtype=bool), np.inf, apart).min(1)[:5])
    reals = torch.from_numpy(images)
    found, _ = nearest(reals[:5], reals.split(4), lambda batch: batch.flatten(1), 2)
    assert as_yardstick(found / 16**0.5) == f"{expected[2]:.4g} in the median of 5, from {expected[0]:.4g} to {expected[4]:.4g}"
