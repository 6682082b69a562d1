"""`ganexp translate`: what is written is what the network makes of each file, read by hand."""

import errno
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from ganexp.documents import unfinished_name
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


@pytest.mark.parametrize("archived", [False, True])
def test_what_has_no_result_is_named_with_the_reason_and_ends_in_an_error(runs, pictures, tmp_path, archived, capsys):
    place = tmp_path / "in"
    (place / "broken.png").write_text("no image")
    (place / "photo.HEIC").touch()
    lost = ["broken.png cannot be decoded", "photo.HEIC (.heic)"]
    if archived:
        place = zipped(place)
        with zipfile.ZipFile(place, "a") as archive:
            with pytest.warns(UserWarning, match="Duplicate"):
                archive.write(tmp_path / "in/a.bmp", "a.bmp")
            archive.write(tmp_path / "in/a.bmp", "closed.bmp")
        content = bytearray(place.read_bytes())
        content[content.rindex(b"PK\1\2") + 8] |= 1  # as if the last one were encrypted
        place.write_bytes(content)
        lost += ["a.bmp (replaced by a later one of its name)", "closed.bmp (encrypted)"]
    else:
        (place / "gone.png").symlink_to("nowhere")
        lost += ["gone.png (broken link)"]
    with pytest.raises(SystemExit) as end:
        call("translate", runs / "unet", place, "--output", tmp_path / "out")
    assert f"{len(lost)} of the images" in end.value.code
    assert all(one in end.value.code for one in lost)
    assert written(tmp_path / "out").keys() == pictures.keys()
    assert f"{len(pictures)} images written to {tmp_path / 'out'}; skipped: 1 .txt\n" in capsys.readouterr().out


@pytest.mark.parametrize("cause", [OSError(errno.EMFILE, "Too many open files"), MemoryError()])
def test_a_machine_that_fails_is_not_taken_for_a_broken_image(runs, pictures, tmp_path, monkeypatch, cause):
    original = Image.open

    def failing(path):
        if path.name == "c.png":
            raise cause
        return original(path)

    monkeypatch.setattr("ganexp.data.decoding.Image.open", failing)
    with pytest.raises(SystemExit, match=r"c\.png cannot be read"):
        call("translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out")


def test_too_little_memory_is_not_taken_for_a_size_that_the_network_does_not_take(runs, pictures, tmp_path, monkeypatch):
    def failing(*_):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    monkeypatch.setattr("ganexp.sampling.trained.Trained.forward", failing)
    with pytest.raises(SystemExit, match="--batch-size"):
        call("translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out")


def test_names_may_be_as_long_as_a_file_system_takes_them_and_longer_ones_lose_one_result(runs, pictures, tmp_path):
    longest = "é" * 125 + "x.png"  # 255 bytes
    (tmp_path / "in/a.bmp").rename(tmp_path / "in" / longest)
    call("translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out")
    assert longest in written(tmp_path / "out")
    archive = zipped(tmp_path / "in")
    with zipfile.ZipFile(archive, "a") as file:
        file.write(tmp_path / "in" / longest, "0" + longest)
    with pytest.raises(SystemExit, match=r"1 of the images .* cannot be written"):
        call("translate", runs / "unet", archive, "--output", tmp_path / "archived")
    assert len(written(tmp_path / "archived")) == len(pictures)


def test_a_folder_of_the_name_of_a_result_is_refused_and_any_other_is_read(runs, pictures, tmp_path):
    (tmp_path / "in/deep").rename(tmp_path / "in/b.png")
    line = ["translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out"]
    call(*line)
    assert "b.png/b.png" in written(tmp_path / "out")
    (tmp_path / "in/a.bmp").rename(tmp_path / "in/b.bmp")
    with pytest.raises(SystemExit, match=r"b\.bmp would become b\.png, which is a folder"):
        call(*line, "--overwrite")


def test_nothing_is_written_through_a_link_nor_read_from_where_results_go(runs, pictures, tmp_path):
    (tmp_path / "theirs").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/deep").symlink_to(tmp_path / "theirs")
    line = ["translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out", "--overwrite"]
    with pytest.raises(SystemExit, match="deep is a link"):
        call(*line)
    assert not any((tmp_path / "theirs").iterdir())
    (tmp_path / "out/deep").unlink()
    call(*line)
    (tmp_path / "in/results").symlink_to(tmp_path / "out")
    with pytest.raises(SystemExit, match=r"results/.*png lies in --output"):
        call(*line)


def test_what_a_killed_translation_has_left_is_removed_by_the_next(runs, pictures, tmp_path):
    (tmp_path / "out/deep/er").mkdir(parents=True)
    left = unfinished_name(tmp_path / "out/deep/er/a.png")
    left.write_bytes(b"half")
    call("translate", runs / "unet", tmp_path / "in", "--output", tmp_path / "out", "--overwrite")
    assert not left.exists()


def test_the_half_and_the_white_of_training_are_known(tmp_path, capsys):
    """Two halves of 12 bits are trained on; of a dark picture of both, the half alone is translated, as dark as it is."""
    for name, last in (("trained", 4000), ("dark", 200)):
        (tmp_path / name).mkdir()
        pixels = np.linspace(0, last, 16 * 32).reshape(16, 32).astype(np.uint16)
        Image.fromarray(pixels).save(tmp_path / name / "0.png")
    of_pairs = ["dataset=pairs", f"dataset.path={tmp_path / 'trained'}", "dataset.half=right", "dataset.image_size=16"]
    grey = ["dataset.channels=1", "dataset.source_channels=1", "generator=unet", "generator.depth=2", "discriminator=patch"]
    ganexp.build(composed(*of_pairs, *grey, *SMALL[1:], "batch_size=1"), tmp_path / "run").fit()
    network = ganexp.load(tmp_path / "run")
    ganexp.sampling.save(network, tmp_path / "saved")
    for place in ("run", "saved"):
        call("translate", tmp_path / place, tmp_path / "dark", "--output", tmp_path / f"whole_{place}")
        assert "1 of 1 images" in (said := capsys.readouterr().out)
        assert "--half right" in said
        call("translate", tmp_path / place, tmp_path / "dark", "--output", tmp_path / f"half_{place}", "--half", "right")
        assert "--half" not in capsys.readouterr().out
        half = np.rint(pixels[:, 16:] * (255 / 4095)).astype(np.uint8)
        np.testing.assert_allclose(written(tmp_path / f"half_{place}")["0.png"], made(network, half, (4, 4)), atol=0.51)
