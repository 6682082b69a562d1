"""`--help` explains every group, option and key that there is, those of one's own too, and imports no torch for it."""

import re
import subprocess
import sys

import pytest

from ganexp.cli.options import options as described
from ganexp.config.schema import GROUPS, keys_of, meaning_of
from tests.composing import CONF, options

EVERY = (*GROUPS, "experiment")


def help_of(*arguments, columns=120):
    code = (
        f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); sys.argv = {['train.py', *arguments]!r}\n"
    )
    code += f"import runpy; runpy.run_path({str(CONF.parent / 'train.py')!r}, run_name='__main__')"
    environment = {"PATH": "", "PYTHONPATH": str(CONF.parent), "COLUMNS": str(columns)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """Return the help with a loss of someone's own, in a module that is not there."""
    folder = tmp_path_factory.mktemp("mine")
    (folder / "loss").mkdir()
    (folder / "loss" / "mine.yaml").write_text(
        "# Nobody 2026: costs $5.\nname: mine\n_target_: nowhere.Mine\nsteepness: 1e-3\n"
    )
    return help_of("--config-dir", str(folder), "--help")


def words(text):
    """Return a text without the line breaks that a terminal's width brings."""
    return " ".join(text.split())


def test_every_key_is_explained_with_its_default(said):
    told = words(said.partition("\nKEYS\n")[2])
    for key, field in keys_of():
        default = str(field.default) if isinstance(field.default, (str, float, list)) else str(field.default).lower()
        assert words(f" {key}={'null' if field.default is None else default} {meaning_of(field)}") in told, key


def test_every_option_and_its_settings_are_explained(said):
    for group in EVERY:
        block = re.search(rf"^{group}=\w+  \S.*\n(?:  .*\n)+", said, re.MULTILINE)[0]
        for option in described(group, [CONF]):
            settings = ", ".join(f"{key}={value}" for key, value in option.settings.items())
            assert words(f"{option.name} {option.meaning} {f'({settings})' if settings else ''}") in words(block), option
        assert {option.name for option in described(group, [CONF])} == set(options(group))


def test_an_option_of_ones_own_is_there_though_its_class_is_not_imported(said):
    assert "  mine              Nobody 2026: costs $5 (steepness=1e-3)\n" in said
    assert said.endswith("\nFalse\n"), "torch was imported"


def test_settings_that_others_stand_for_and_values_that_must_be_given():
    (adam,) = [option for option in described("optimizer", [CONF]) if option.name == "adam"]
    assert adam.settings["lr"] == "5e-4"
    assert {"g.eps", "d.fused"} <= set(adam.settings)
    assert "g.lr" not in adam.settings
    (folder,) = [option for option in described("dataset", [CONF]) if option.name == "image_folder"]
    assert folder.settings["path"] == "…"


@pytest.mark.parametrize("columns", [80, pytest.param(130, marks=pytest.mark.slow), 300])
def test_lines_fit_a_terminal_of_a_hundred_columns_and_use_no_more_than_130(columns):
    longest = max(len(line) for line in help_of("--help", columns=columns).splitlines())
    assert longest <= max(120, min(130, columns))
