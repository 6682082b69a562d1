"""docs/own_images.md: its scripts find near-duplicates and cut tiles, and what it advises for one folder runs together."""

import re
import shlex

import numpy as np
import pytest
from PIL import Image, ImageFilter

from tests import forked
from tests.calling import call
from tests.composing import CONF

PAGE = (CONF.parent / "docs" / "own_images.md").read_text()
NEAR_DUPLICATES, TILES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def photograph(seed, size=(256, 192)):
    noise = np.random.default_rng(seed).integers(0, 256, (*size[::-1], 3), dtype=np.uint8)
    blurred = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(20))
    return blurred.point(lambda level: min(255, max(0, 12 * (level - 127) + 127)))


def test_a_smaller_and_a_darker_copy_are_found_and_other_images_are_not(tmp_path, capsys):
    for seed in range(6):
        photograph(seed).save(tmp_path / f"{seed}.jpg")
    photograph(3).resize((100, 75)).save(tmp_path / "small.jpg", quality=60)
    photograph(5).point(lambda level: level // 2).save(tmp_path / "dark.jpg")
    exec(NEAR_DUPLICATES.replace("/path/to/images", str(tmp_path)), {})
    found = {frozenset(line.replace(f"{tmp_path}/", "").split()) for line in capsys.readouterr().out.splitlines()}
    assert found == {frozenset({"3.jpg", "small.jpg"}), frozenset({"5.jpg", "dark.jpg"})}


def test_tiles_cover_a_photograph(tmp_path):
    (tmp_path / "photographs").mkdir()
    photograph(0).save(tmp_path / "photographs" / "wood.jpg")
    exec(TILES.replace("/path/to", str(tmp_path)), {})
    tiles = {path.stem: np.asarray(Image.open(path)) for path in (tmp_path / "tiles").iterdir()}
    assert set(tiles) == {f"wood_{left}_{top}" for left in (0, 64, 128) for top in (0, 64)}
    whole = np.asarray(Image.open(tmp_path / "photographs" / "wood.jpg"))
    assert (tiles["wood_64_0"] == whole[:128, 64:192]).all()


def test_all_that_the_page_advises_for_a_folder_runs_one_after_the_other(tmp_path, monkeypatch, capsys):
    """As typed, but for the size of the networks and of the runs, and for features that need no download."""
    for number, part in enumerate(["train"] * 12 + ["test"] * 6):
        (tmp_path / "images" / part).mkdir(parents=True, exist_ok=True)
        photograph(number, (24, 24)).save(tmp_path / "images" / part / f"{number}.png")
    (how_good,) = re.findall(r"```bash\n(python train.py.*?)```", PAGE.partition("## How good it is")[2], re.DOTALL)
    (first, *others) = (shlex.split(line, comments=True) for line in how_good.splitlines())
    small = ["dataset.image_size=16", "generator=mlp", "discriminator=mlp", "batch_size=4", "iterations=4", "evaluate_every=2"]
    small += ["evaluation.samples=16", "evaluation.features=raw", "device=cpu", "threads=1", "logger=[]"]
    typed = [word.replace("/path/to/images", str(tmp_path / "images")) for word in first[2:]]
    assert "evaluation.against=test" in typed
    done = forked.train(*typed, *small, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    monkeypatch.chdir(tmp_path)
    for words in others:
        assert words[0] == "ganexp"
        call(*words[1:])
    assert "eval/copies" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"choose --against train"):
        call("evaluate", "run=outputs/latest", "--measure", "memorisation", "--overwrite")
