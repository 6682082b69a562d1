"""What the README says can be typed does what it says."""

import re
import shlex
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from ganexp.checking import check
from tests.composing import CONF, composed, options

README = (CONF.parent / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_the_library_example_runs(capsys):
    (example,) = [block for block in blocks("python") if block.startswith("import torch")]
    exec(example, {})
    assert float(capsys.readouterr().out) > 0
    code = [line for line in example.splitlines() if line]
    assert len(code) <= 10


def test_every_option_is_listed():
    for group in ("dataset", "generator", "loss", "penalty", "strategy", "optimizer", "experiment"):
        for option in options(group):
            assert f"`{option}`" in README, f"{group}={option}"


def first_value(override):
    """Return an override with the first value of its list, range or interval."""
    if override.is_interval_sweep():
        return f"{override.get_key_element()}={override.value().start}"
    if override.is_sweep_override():
        return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"
    return override.input_line


@pytest.mark.parametrize("line", [line for line in "".join(blocks("bash")).splitlines() if "train.py " in line])
def test_every_command_composes_and_fits(line, tmp_path):
    arguments = shlex.split(line.split("  #")[0].split("train.py ")[1])
    arguments = [
        one
        for one in arguments
        if one not in ("-m", "device=cuda") and not one.startswith(("hydra", "sweep.resume=", "resume="))
    ]
    first = [first_value(one) for one in OverridesParser.create().parse_overrides(arguments)]
    (tmp_path / "image.png").touch()
    check(composed(*[argument.replace("/path/to/images", str(tmp_path)) for argument in first]))


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (CONF.parent / target).exists(), target


def test_the_tree_names_every_file_of_the_package():
    tree = blocks("text")[-1]
    for path in Path(CONF.parent / "ganexp").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            assert path.name in tree, path.name
