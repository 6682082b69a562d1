"""A result that could not be written is refused before the work that it comes from."""

import errno
import importlib
from functools import partial

import pytest

from ganexp.cli import process
from tests.calling import call


@pytest.mark.parametrize(
    ("script", "work", "arguments"),
    [
        ("benchmark", "parts", ["--output", "{}"]),
        ("claims", "_timed_first", ["--output", "{}"]),
        ("draw", "FIGURES", ["rounding", "--output", "{}/rounding.png"]),
        ("playground", "page", ["--output", "{}/page.html"]),
        ("bench", "_run", ["--results", "{}/study.csv"]),
        ("bench", "_run", ["--results", "{run}/study.csv", "--page", "{}/study.md"]),
        ("spectra", "train", ["--results", "{}/spectra.csv"]),
        ("spectra", "train", ["--results", "{run}/spectra.csv", "--page", "{}/strategies.md"]),
    ],
)
def test_a_place_below_a_file_is_refused_at_once(script, work, arguments, tmp_path, monkeypatch):
    module = importlib.import_module(script)
    refused(module, work, lambda words: process.run(partial(module.main, words)), arguments, tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("name", "work", "arguments"),
    [("compare", "compare", ["--output", "{}"]), ("report", "page", ["{run}", "--output", "{}/page.html"])],
)
def test_so_it_is_by_a_command(name, work, arguments, tmp_path, monkeypatch):
    module = importlib.import_module(f"ganexp.cli.commands.{name}.run")
    refused(module, work, lambda words: call(name, *words), arguments, tmp_path, monkeypatch)


def test_a_folder_is_no_file_of_results(tmp_path):
    with pytest.raises(SystemExit, match=r" cannot be written: Is a directory; name another place"):
        process.run(partial(importlib.import_module("bench").main, ["--results", str(tmp_path)]))


def test_what_cannot_be_read_is_not_said_to_be_unwritable(tmp_path):
    with pytest.raises(FileNotFoundError):
        process.run((tmp_path / "x").read_text)


def test_a_full_disk_ends_a_script_with_a_sentence():
    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(SystemExit, match=r"\AError: The disk is full \(.*No space left on device\): .* make room"):
        process.run(full)


def refused(module, work, main, arguments, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    monkeypatch.setattr(module, work, None)
    with pytest.raises(SystemExit, match=r"^Error: .*file.* cannot be written: Not a directory; name .*\.$"):
        main([one.format(tmp_path / "file", run=tmp_path / "run") for one in arguments])
    assert (tmp_path / "file").read_bytes() == b""
