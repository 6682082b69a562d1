"""docs/own_images.md: its scripts find near-duplicates, and cut tiles."""

import re

import numpy as np
from PIL import Image, ImageFilter

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
