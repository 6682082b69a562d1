"""Numbers on the command line that no command could use."""

import importlib.metadata
import platform
import re
import subprocess
import sys

import pytest

from ganexp.cli import commands, process
from ganexp.cli.main import command, main, parsed, parser_of
from ganexp.facts import UserError
from tests.composing import CONF

PARSERS = {name: parser_of(name) for name in commands.places()}


@pytest.mark.parametrize(
    "line",
    [
        "sample RUN --n 99999999999999999999",
        "sample RUN --seed 1e9",
        "sample RUN --indices 1 99999999999999999999",
        "dynamics RUN --rate 0",
        "dynamics RUN --rate nan",
        "dynamics RUN --rate -1",
        "average RUN --width 0.1 --iteration 0",
        "sample RUN --truncation nan",
        "sample RUN --percentile high",
        "sample RUN --step-size 0",
        *(
            f"sample RUN --{one} 0"
            for one in ("n", "steps", "shard-size", "frames", "tiles", "enlarge", "nearest", "batch-size")
        ),
    ],
)
def test_they_are_refused_with_the_option_and_what_it_should_be(line, capsys):
    with pytest.raises(SystemExit):
        parsed(line.split())
    *_, option, _ = line.split()
    named = "--indices" if "indices" in line else option
    assert re.fullmatch(rf"Error: {named} should be [^\n]*\n", capsys.readouterr().err)


def test_a_word_that_no_option_takes_is_named_with_its_command():
    with pytest.raises(UserError, match=r"^ganexp sample does not take --size 3: "):
        command(["sample", "RUN", "--size", "3"])


def test_others_are_read():
    options = parsed(["sample", "RUN", "--n", "12", "--seed", "-3", "--first", "0", "--indices", "5", "999999999999999999"])
    assert (options.n, options.seed, options.first, options.indices) == (12, -3, 0, [5, 10**18 - 1])
    assert parsed(["dynamics", "RUN", "--rate", "1e-3"]).rate == 1e-3


def of_several_values():
    """Yield each option of each command that takes several values, with the words that the command needs beside it."""
    for name, own in PARSERS.items():
        needed = [[*one.option_strings[:1], "0"] for one in own._actions if one.required]
        for one in own._actions:
            if one.option_strings and one.nargs in ("+", "*"):
                others = [words for words in needed if words[0] not in one.option_strings]
                yield pytest.param([name, *(word for words in others for word in words)], one, id=f"{name} {one.dest}")


@pytest.mark.parametrize(("before", "option"), [*of_several_values()])
def test_an_option_of_several_values_that_is_typed_twice_has_all_of_them(before, option):
    typed = [*option.choices][:3] if option.choices else ["1", "2", "3"]
    (name,) = option.option_strings
    options = parsed([*before, name, *typed[:2], name, typed[2]])
    assert getattr(options, option.dest) == [(option.type or str)(one) for one in typed]


def options_of(group):
    return ", ".join(sorted(path.stem for path in (CONF / group[1]).glob("*.yaml")))


def test_every_option_says_what_it_is_and_what_it_is_by_default():
    for name, own in PARSERS.items():
        shown = " ".join(own.format_help().split())
        for one in own._actions:
            assert one.help, f"{name} {one.dest}"
            if one.option_strings and one.nargs != 0 and not one.required:
                told = one.help if one.default in (None, []) else f"; {one.default} by default"
                assert re.search("by default|otherwise|needs|without it", told), f"{name} {one.dest}"
                assert re.sub(r"\[options of (\S+)\]", options_of, " ".join(told.split())) in shown, f"{name} {one.dest}"


def test_the_versions_are_told_without_torch(capsys):
    code = "import sys; sys.modules['torch'] = None; sys.argv = ['ganexp', '--version']; import ganexp.cli.main as m; m.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"torch {importlib.metadata.version('torch')}, Python {platform.python_version()}" in done.stdout


def test_without_a_command_the_commands_are_shown(capsys):
    command([])()
    said = capsys.readouterr().out
    assert [name for name in ("train", *PARSERS) if f"    {name}" not in said] == []


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("film", "Did you mean sample RUN --film?"),
        ("tain", "Did you mean train?"),
        ("evaluat", "Did you mean evaluate?"),
        ("xyz", "Its commands are train, "),
    ],
)
def test_an_unknown_command_is_one_sentence(typed, said):
    with pytest.raises(UserError, match=rf"^ganexp has no command {typed}\. {re.escape(said)}"):
        command([typed, "outputs/latest"])


@pytest.mark.parametrize("words", [["--version"], ["train", "--version"]])
def test_the_version_is_told_of_every_entrance(words, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["ganexp", *words])
    monkeypatch.setattr(process, "begin", lambda: None)
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().out[:7]) == (None, "ganexp ")
