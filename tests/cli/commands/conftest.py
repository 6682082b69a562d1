"""A run for the commands that read one."""

import pytest

import ganexp
from tests.composing import composed

SMALL = ("dataset.image_size=8", "generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    ganexp.build(composed(*SMALL, "logger=[]", "batch_size=8", "iterations=2", "conditional=true"), folder).fit()
    return folder
