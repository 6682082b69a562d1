"""The page about a run's game."""

import json
import re
import shutil

import pytest
import torch

from ganexp.cli.commands.dynamics import run as dynamics
from ganexp.config.build import build
from tests.calling import call
from tests.composing import composed

RUN = ["experiment=ring", "batch_size=8", "iterations=2", "sample_every=0", "logger=[]"]
RUN += [f"{network}.{size}" for network in ("generator", "discriminator") for size in ("width=6", "depth=1")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    build(composed(*RUN, "checkpoint_every=1", "keep_checkpoints=2", "evaluate_every=0"), folder).fit()
    return folder


def charts(page):
    (text,) = re.findall(r"const charts = (.*);\n", page)
    return json.loads(text)


def test_a_finished_run_is_looked_at_where_it_has_checkpoints(folder, capsys):
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    call("dynamics", folder, "--rules", "joint", "--rate", "0.1")
    page = (folder / "dynamics.html").read_text()
    assert str(folder / "dynamics.html") in capsys.readouterr().out
    shown = charts(page)
    assert [frame["name"] for frame in shown["plane"]["frames"]] == ["1", "2"]
    assert len(shown["path"]["data"][0]["y"]) == 36
    real, imag = (shown["plane"]["data"][0][axis] for axis in "xy")
    upper = [complex(a, b) for a, b in zip(real, imag, strict=True) if b >= 0]
    (cells,) = re.findall(r"<tr><td>joint</td>(.*?)</tr>", page)
    assert [float(one) for one in re.findall(r"<td>(.*?)</td>", cells)] == pytest.approx(
        [abs(1 - 0.1 * one) for one in upper], abs=6e-4
    )
    assert {path: path.read_bytes() for path in before} == before


def rows(*iterations):
    row = {"dynamics/real_1": 1.0, "dynamics/imag_1": 0.5, "dynamics/smallest_real": 1.0}
    return "".join(json.dumps({"progress/iteration": i} | row) + "\n" for i in iterations)


def test_the_path_is_that_of_the_checkpoints_where_rows_go_further(folder, tmp_path):
    copied = shutil.copytree(folder, tmp_path / "run")
    (copied / "metrics.jsonl").write_text(rows(1, 5, 9))
    shown = charts(call("dynamics", copied, "--rules", "joint", "--path").read_text())
    assert [frame["name"] for frame in shown["plane"]["frames"]] == ["1", "5", "9"]
    assert shown["path"]["layout"]["xaxis"]["title"]["text"] == "from iteration 1 (0) to 2 (1)"


def test_rows_in_which_no_eigenvalue_was_found_are_no_moments(tmp_path):
    """A search with few products may find the ends of a player's block alone, or no smallest real part."""
    found = {"dynamics/real_1": 1.0, "dynamics/imag_1": 0.5}
    written = [{"dynamics/d_largest": 2.0}, found, found | {"dynamics/d_largest": 2.0}, {"dynamics/g_smallest": -1.0}]
    lines = [json.dumps({"progress/iteration": i} | row) + "\n" for i, row in enumerate(written)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    shown = charts(call("dynamics", tmp_path, "--rules", "joint").read_text())
    assert [frame["name"] for frame in shown["plane"]["frames"]] == ["1", "2"]
    assert "dynamics.products" in json.dumps(shown["ends"]["layout"])


@pytest.mark.parametrize("iterations", [(1, 2), (1,)])
def test_a_page_may_lie_in_a_new_folder(iterations, tmp_path):
    (tmp_path / "metrics.jsonl").write_text(rows(*iterations))
    page = call("dynamics", tmp_path, "--rules", "joint", "--output", tmp_path / "new" / "page.html")
    assert len(charts(page.read_text())["plane"]["frames"]) == len(iterations)


def test_an_unknown_rule_is_refused_before_the_work(folder, monkeypatch):
    monkeypatch.setattr(dynamics, "_of_checkpoints", None)
    with pytest.raises(SystemExit, match="--rules nothing is unknown"):
        call("dynamics", folder, "--rules", "nothing")


def test_a_run_that_was_built_without_a_configuration_is_refused(folder, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    state = torch.load(folder / "checkpoints" / "last.pt", weights_only=True)
    torch.save(state | {"config": {}}, tmp_path / "checkpoints" / "iteration_000000002.pt")
    with pytest.raises(SystemExit, match="is of a run without a configuration, from which its networks could be made"):
        call("dynamics", tmp_path)


def test_a_folder_without_checkpoints_is_refused(tmp_path):
    (tmp_path / "metrics.jsonl").write_text("")
    with pytest.raises(SystemExit, match="has no checkpoint"):
        call("dynamics", tmp_path)
