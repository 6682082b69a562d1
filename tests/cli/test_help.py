"""`--help` explains every group, option and key that there is, those of one's own too, and imports no torch for it."""

import re
import subprocess
import sys

import pytest

from ganexp.cli.help import described
from ganexp.cli.options import options as options_of
from ganexp.cli.options import primary
from ganexp.facts import UserError
from tests.composing import CONF, options

OURS = primary([CONF])


def help_of(*arguments):
    code = (
        f"import atexit, sys; atexit.register(lambda: print('torch' in sys.modules)); sys.argv = {['train.py', *arguments]!r}\n"
    )
    code += f"import runpy; runpy.run_path({str(CONF.parent / 'train.py')!r}, run_name='__main__')"
    environment = {"PATH": "", "PYTHONPATH": str(CONF.parent), "COLUMNS": "120"}
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
    told = " " + words(said.partition("\nKEYS\n")[2])
    for key in ("seed=0 of all random numbers", "evaluation.of=average whose samples: average or generator"):
        assert f" {key} " in told
    for key, value in OURS.keys.items():
        assert f" {key}={value} {OURS.meanings[key]} " in told


def test_every_option_and_its_settings_are_explained(said):
    for group in OURS.groups:
        block = re.search(
            rf"^{group}={re.escape(OURS.groups[group])}  {re.escape(OURS.meanings[group])}\n(?:  .*\n)+", said, re.MULTILINE
        )[0]
        for option in options_of(group, [CONF]):
            settings = ", ".join(f"{key}={value}" for key, value in option.settings.items())
            assert words(f"{option.name} {option.meaning} {f'({settings})' if settings else ''}") in words(block), option
        assert {option.name for option in options_of(group, [CONF])} == set(options(group))


def test_an_option_of_ones_own_is_there_though_its_class_is_not_imported(said):
    assert "  mine              Nobody 2026: costs $5 (steepness=1e-3)\n" in said
    assert said.endswith("\nFalse\n"), "torch was imported"


def test_a_primary_configuration_of_ones_own_is_explained_where_it_has_comments_and_where_it_has_none(tmp_path):
    (tmp_path / "mine.yaml").write_text(
        "defaults:\n  - train\n  - override loss: hinge\n  - mood: calm  # how it feels\n  - _self_\n"
        "seed: 7\nevaluation:\n  samples: 500  # few\nsteps_of:  # each of mine\n  - 1\n  - 2\nlast: '#'\n"
    )
    said = described(["--config-dir", str(tmp_path), "--config-name", "mine"])
    assert re.search(r"^  seed=7 +of all random numbers$", said, re.MULTILINE)
    assert re.search(r"^  evaluation\.samples=500 +few$", said, re.MULTILINE)
    assert re.search(r"^  steps_of=\[1,2\] +each of mine$", said, re.MULTILINE)
    assert "\n  last=#\n" in said
    assert "\nmood=calm  how it feels\n" in said
    assert "\ndataset=digits  what is real\n" in said


def test_settings_that_lie_below_a_name_are_told_with_it(tmp_path):
    (tmp_path / "mood").mkdir()
    (tmp_path / "mood" / "calm.yaml").write_text("# Slowly.\ncalm:\n  _target_: nowhere.Calm\n  every: 5\n  of: [d, g]\n")
    (calm,) = options_of("mood", [tmp_path])
    assert (calm.name, calm.meaning, calm.settings) == ("calm", "Slowly", {"calm.every": "5", "calm.of": "[d,g]"})


@pytest.mark.parametrize("text", [None, "seed: [0"])
def test_a_configuration_that_cannot_be_read_is_a_sentence(tmp_path, text):
    if text:
        (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(UserError, match=r"mine"):
        described(["--config-dir", str(tmp_path), "--config-name", "mine"])


def test_settings_that_others_stand_for_and_values_that_must_be_given():
    (adam,) = [option for option in options_of("optimizer", [CONF]) if option.name == "adam"]
    assert adam.settings["lr"] == "5e-4"
    assert {"g.eps", "d.fused"} <= set(adam.settings)
    assert "g.lr" not in adam.settings
    (folder,) = [option for option in options_of("dataset", [CONF]) if option.name == "image_folder"]
    assert folder.settings["path"] == "…"


@pytest.mark.parametrize("columns", [80, 300])
def test_lines_fit_a_terminal_of_a_hundred_columns_and_use_no_more_than_130(columns, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    longest = max(len(line) for line in described([]).splitlines())
    assert longest <= max(120, min(130, columns))


def test_one_group_is_shown_with_the_keys_below_it_and_one_key():
    whole = described([])
    loss = described(["loss"])
    assert loss in whole
    assert loss.startswith("loss=")
    assert "\ndataset=" not in loss
    assert "KEYS" not in loss
    assert re.findall(r"^  (\S+?)=", described(["evaluation", "seed"]), re.MULTILINE) == [
        key for key in OURS.keys if key == "seed" or key.startswith("evaluation.")
    ]


def test_a_word_that_is_no_group_and_no_key_is_a_sentence():
    with pytest.raises(UserError, match=r"lss.*Did you mean loss"):
        described(["lss"])


def test_a_reader_that_has_seen_enough_is_no_error():
    code = "from ganexp.cli.help import print_help; print(print_help([]), file=__import__('sys').stderr)"
    done = subprocess.run(
        ["bash", "-c", f'{sys.executable} -c "{code}" | head -n 1'], capture_output=True, text=True, check=True
    )
    assert done.stderr == "None\n"
