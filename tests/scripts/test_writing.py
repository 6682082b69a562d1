"""A result that could not be written is refused before the work that it comes from."""

import importlib

import pytest


@pytest.mark.parametrize(
    ("script", "work", "arguments"),
    [
        ("benchmark", "parts", ["--output", "{}"]),
        ("claims", "_timed_first", ["--output", "{}"]),
        ("compare_strategies", "compare", ["--output", "{}"]),
        ("draw_graphs", "draw", ["--output", "{}/graphs.png"]),
        ("draw_rounding", "draw", ["--output", "{}/rounding.png"]),
        ("playground", "page", ["--output", "{}/page.html"]),
        ("report", "page", ["{run}", "--output", "{}/page.html"]),
        ("study", "sweeps", ["--folder", "{}"]),
        ("study", "sweeps", ["--folder", "{run}", "--page", "{}/study.md"]),
    ],
)
def test_a_place_below_a_file_is_refused_at_once(script, work, arguments, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "metrics.jsonl").touch()
    module = importlib.import_module(script)
    monkeypatch.setattr(module, work, None)
    with pytest.raises(SystemExit, match=r"^Error: .*file.* cannot be written: Not a directory; name .*\.$"):
        module.main([one.format(tmp_path / "file", run=tmp_path / "run") for one in arguments])
    assert (tmp_path / "file").read_bytes() == b""
