"""`ganexp translate`: what is written is what the network makes of each file, read by hand."""

import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from tests.calling import call
from tests.cli.commands.translators import LARGER, SMALL, TWO_WAY, UNET
from tests.composing import composed
from tests.data.samples import noise, zipped


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    place = tmp_path_factory.mktemp("runs")
    words = {"unet": [*UNET, *SMALL], "larger": [*LARGER, "discriminator=patch", *SMALL], "two_way": TWO_WAY}
    for name, one in words.items():
        ganexp.build(composed(*one), place / name).fit()
    return place


@pytest.fixture
def pictures(tmp_path):
    """Write pictures of several sizes and kinds, and return the levels of each, in [0, 255], by the name of the result."""
    (tmp_path / "in" / "deep").mkdir(parents=True)
    grey, colour, clear, deep = noise(1, 16, 24, 1)[0], noise(1, 16, 24, 3)[0], noise(1, 13, 9, 4)[0], noise(1, 16, 24, 1)[0]
    Image.fromarray(grey[..., 0]).save(tmp_path / "in/a.bmp")
    Image.fromarray(colour).save(tmp_path / "in/deep/b.png")
    Image.fromarray(clear).save(tmp_path / "in/c.png")
    Image.fromarray(deep[..., 0].astype(np.uint16) * 257).save(tmp_path / "in/d.png")
    (tmp_path / "in/notes.txt").write_text("no image")
    alpha = clear[..., 3:] / 255
    levels = {"a": grey, "deep/b": colour, "c": np.rint(clear[..., :3] * alpha + 255 * (1 - alpha)).astype(np.uint8), "d": deep}
    return {f"{name}.png": np.asarray(Image.fromarray(one.squeeze()).convert("L")) for name, one in levels.items()}


def written(folder):
    return {str(path.relative_to(folder)): np.asarray(Image.open(path)) for path in folder.rglob("*") if path.is_file()}


def made(network, levels, sides=(8, 8)):
    """Return what a network makes of grey levels, which are continued to multiples of some sides, and cut again."""
    (height, width), scale = levels.shape, 255 / 2
    further = [(0, -side % step) for side, step in zip(levels.shape, sides, strict=True)]
    source = torch.from_numpy(np.pad(levels, further, mode="edge")).float() / scale - 1
    with torch.no_grad():
        out = network(source[None, None])[0, 0].numpy()
    factor = out.shape[0] // source.shape[0]
    return (out[: factor * height, : factor * width] + 1) * scale


@pytest.mark.parametrize("archived", [False, True])
def test_every_picture_is_translated_in_its_size_under_its_name(runs, pictures, tmp_path, archived, capsys):
    place = zipped(tmp_path / "in") if archived else tmp_path / "in"
    assert call("translate", runs / "unet", place, "--output", tmp_path / "out", "--batch-size", "2") == tmp_path / "out"
    found, network = written(tmp_path / "out"), ganexp.load(runs / "unet")
    assert found.keys() == pictures.keys()
    for name, levels in pictures.items():
        assert found[name].shape == levels.shape
        np.testing.assert_allclose(found[name], made(network, levels), atol=1.2 if name == "c.png" else 0.51)
    assert "4 images" in (said := capsys.readouterr().out)
    assert "\n1 had sides" in said


def test_small_pictures_become_larger_and_a_size_scales_them_as_in_training(runs, pictures, tmp_path):
    call("translate", runs / "larger", tmp_path / "in", "--output", tmp_path / "out")
    found, network = written(tmp_path / "out"), ganexp.load(runs / "larger")
    for name, levels in pictures.items():
        assert found[name].shape == tuple(4 * side for side in levels.shape)
        np.testing.assert_allclose(found[name], made(network, levels, (1, 1)), atol=2 if name == "c.png" else 0.51)
    call("translate", runs / "larger", tmp_path / "in", "--output", tmp_path / "out", "--size", "8", "12", "--overwrite")
    assert {one.shape for one in written(tmp_path / "out").values()} == {(32, 48)}


@pytest.mark.parametrize("direction", ["a_to_b", "b_to_a"])
def test_either_direction_of_two(runs, pictures, tmp_path, direction):
    call("translate", runs / "two_way", tmp_path / "in", "--output", tmp_path / "out", "--direction", direction)
    network = getattr(ganexp.load(runs / "two_way").network, direction)
    found = written(tmp_path / "out")
    np.testing.assert_allclose(found["a.png"], made(network, pictures["a.png"]), atol=0.51)


def test_nothing_is_replaced_unless_it_is_said(runs, pictures, tmp_path):
    line = ["translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out"]
    call(*line)
    (tmp_path / "out/a.png").write_bytes(b"mine")
    with pytest.raises(SystemExit, match="--overwrite"):
        call(*line)
    assert (tmp_path / "out/a.png").read_bytes() == b"mine"
    call(*line, "--overwrite")
    assert written(tmp_path / "out").keys() == pictures.keys()


def test_what_cannot_be_translated_is_refused_before_anything_is_written(runs, pictures, tmp_path):
    def said(run, *words, folder="in"):
        with pytest.raises(SystemExit) as end:
            call("translate", runs / run, tmp_path / folder, "--output", tmp_path / "out", *words)
        assert not (tmp_path / "out").exists()
        return end.value.code

    assert "--direction" in said("unet", "--direction", "b_to_a")
    (tmp_path / "none").mkdir()
    assert "none of .jpg" in said("unet", folder="none")
    (tmp_path / "in/a.png").write_bytes((tmp_path / "in/a.bmp").read_bytes())
    assert "a.bmp" in said("unet")
    ganexp.build(composed("generator=mlp", "discriminator=mlp", "iterations=1", "logger=[]"), runs / "latents").fit()
    assert "ganexp sample" in said("latents")


def test_no_name_in_an_archive_leads_out_of_the_folder_of_results(runs, pictures, tmp_path):
    with zipfile.ZipFile(tmp_path / "in.zip", "w") as archive:
        for name in ("../evil.bmp", "/absolute.bmp", "good.bmp"):
            archive.write(tmp_path / "in/a.bmp", name)
    call("translate", runs / "unet", tmp_path / "in.zip", "--output", tmp_path / "deep/out")
    assert written(tmp_path / "deep").keys() == {"out/absolute.png", "out/good.png"}


def test_what_cannot_be_decoded_is_left_out_and_named(runs, pictures, tmp_path, capsys):
    (tmp_path / "in/broken.png").write_text("no image")
    out = call("translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out")
    said = capsys.readouterr().out
    assert {str(one.relative_to(out)) for one in out.rglob("*.png")} == {*pictures}
    assert "broken.png cannot be decoded" in said
    assert f"{len(pictures)} images written" in said
    only = tmp_path / "only"
    only.mkdir()
    (only / "broken.png").write_text("no image")
    with pytest.raises(SystemExit, match=r"no image in .*only can be decoded"):
        call("translate", runs / "unet", only, "--output", tmp_path / "none")
