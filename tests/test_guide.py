"""docs/guide.md: its examples run as they stand, say what their comments say, and its strategy is ganexp's own."""

import re

import torch

import draw
from ganexp import build, compose, strategies
from tests.composing import CONF

PAGE = (CONF.parent / "docs" / "guide.md").read_text()
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SMALL = ["generator=mlp", "discriminator=mlp", "dataset.image_size=8", "logger=[]"]


def test_a_line_for_each_word(capsys):
    exec(PYTHON[0], {})
    assert capsys.readouterr().out.splitlines() == re.findall(r"^print.*: (.*)$", PYTHON[0], re.MULTILINE)


def test_the_strategy_is_joint():
    own = {}
    exec(PYTHON[1], own)
    ends = []
    for strategy in (own["joint"], strategies.joint):
        trainer = build(compose("strategy=joint", *SMALL))
        strategy(trainer.gan, trainer.reals, d_steps=1, g_steps=1)
        ends.append(torch.cat([one.flatten() for one in trainer.gan.g_parameters + trainer.gan.d_parameters]))
    assert torch.equal(*ends)


def test_the_files_that_it_names_exist():
    found = re.findall(r"`(ganexp/[\w/.]+)`", PAGE)
    assert len(found) > 5
    assert [name for name in found if not (CONF.parent / name).exists()] == []


def test_the_words_of_the_picture_are_explained_and_stay_within_their_boxes():
    figure = draw.concepts()
    figure.draw_without_rendering()
    (axes,) = figure.axes
    boxes = [patch.get_window_extent() for patch in axes.patches]
    within = [text for text in axes.texts if text.get_ha() == "left" and text.get_style() == "normal" and text.get_text()]
    names = [text.get_text() for text in within if text.get_weight() == "bold"]
    assert [name.lower() for name in re.findall(r"^(?:The )?\*\*(\w+)\.?\*\*", PAGE, re.MULTILINE)] == [
        name.lower() for name in names
    ]
    for box, pair in zip(boxes, zip(within[::2], within[1::2], strict=True), strict=True):
        for text in pair:
            extent = text.get_window_extent()
            assert box.x0 < extent.x0 < extent.x1 < box.x1, text
            assert box.y0 < extent.y0 < extent.y1 < box.y1, text
