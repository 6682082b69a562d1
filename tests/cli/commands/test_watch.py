"""`ganexp watch` runs a script unchanged, with its arguments, and stops it; the report is text, JSON and a picture."""

import json
import re
import subprocess
import sys

import pytest
from PIL import Image

from tests.calling import call
from tests.composing import CONF, composed
from tests.processes import run

SCRIPT = """
import sys
import torch
from torch import nn
from torch.nn.functional import softplus

assert __name__ == "__main__" and sys.argv[1:] == {words}
G, D = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
og, od = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)
for turn in range(1000):
    print("turn", turn)
    fake = G(torch.randn(8, 4))
    od.zero_grad()
    (softplus(D(fake.detach())) + softplus(-D(torch.randn(8, 2)))).mean().backward()
    od.step()
    {rest}
assert False, "it was not stopped"
"""
MOVES = "og.zero_grad(); softplus(-D(fake)).mean().backward(); og.step()"


def script(tmp_path, rest=MOVES, words=()):
    path = tmp_path / "mine.py"
    path.write_text(SCRIPT.format(rest=rest, words=[*words]))
    return path


def test_a_script_is_run_stopped_and_named(tmp_path, capsys):
    before = sys.argv[:], sys.path[:]
    picture = tmp_path / "lives.png"
    words = ["--batch", "8"]
    call("watch", script(tmp_path, words=words), "--iterations", 2, "--json", "--picture", picture, "--", *words)
    said = capsys.readouterr()
    report = json.loads(said.out)
    assert (report["rule"], report["iterations"], report["faults"]) == ("detach", 2, [])
    assert report["difference"] < 1e-6
    assert said.err.splitlines()[1:3] == ["turn 0", "turn 1"]  # after a line of ganexp's own
    with Image.open(picture) as drawn:
        assert drawn.width > 200
    assert before == (sys.argv, sys.path)


def test_the_command_that_is_printed_trains_by_that_rule(tmp_path, capsys):
    call("watch", script(tmp_path))
    (words,) = re.findall(r"ganexp train (strategy=.*)", capsys.readouterr().out)
    assert composed(*words.split()).strategy.name == "detach"


def test_all_that_was_counted_is_printed_when_asked_for(tmp_path, capsys):
    call("watch", script(tmp_path), "--verbose")
    assert " ms (watched)" in capsys.readouterr().out


def test_a_script_in_which_one_player_moves_is_stopped_too(tmp_path):
    report = call("watch", script(tmp_path, rest="pass"), "--iterations", 1)
    assert (report.rule, "only D moves" in report.identified.why) == (None, True)


def test_the_report_of_a_script_that_fails_says_why(tmp_path, capsys):
    broken = "softplus(-D(fake)).mean().backward(); fake.sum().backward()"
    with pytest.raises(SystemExit, match="RuntimeError"):
        call("watch", script(tmp_path, rest=broken))
    assert "graph that an earlier one has freed" in capsys.readouterr().out


def test_a_script_that_trains_nothing_is_told(tmp_path):
    path = tmp_path / "nothing.py"
    path.write_text("print('hello')")
    with pytest.raises(SystemExit, match=r"^Error: .*nothing\.py: no iteration was complete"):
        call("watch", path)


PRETRAINS = """
import torch
G, D = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(G.parameters())
{further}
while True:
    optimizer.zero_grad()
    G(torch.ones(2, 1)).mean().backward()
    optimizer.step()
"""


def test_a_script_that_pretrains_for_long_is_stopped_with_a_remedy(tmp_path):
    path = tmp_path / "pretraining.py"
    path.write_text(PRETRAINS.format(further="further = torch.optim.SGD(D.parameters())"))
    with pytest.raises(SystemExit, match=r"^Error: .*pretraining\.py was stopped after 100 steps.*--iterations"):
        call("watch", path, "--iterations", 1)


def test_a_script_with_one_optimiser_is_stopped_at_once(tmp_path):
    """In a process of its own: others' optimisers may be left in this one."""
    path = tmp_path / "alone.py"
    path.write_text(PRETRAINS.format(further=""))
    said = subprocess.run([sys.executable, "-m", "ganexp", "watch", path], capture_output=True, text=True, timeout=120)
    assert "no game: G and D need an optimiser each" in said.stdout
    assert said.stderr.splitlines()[-1].startswith(f"Error: {path} was stopped after 10 steps of the only optimiser")
    assert "fault  " not in said.stdout


TURN = """
import asyncio, os, threading
import torch
from torch import nn
from torch.nn.functional import softplus

G, D = nn.Linear(4, 2), nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 1))
og, od = torch.optim.SGD(G.parameters(), 0.1), torch.optim.SGD(D.parameters(), 0.1)

def turn():
    fake = G(torch.randn(8, 4))
    od.zero_grad()
    (softplus(D(fake.detach())) + softplus(-D(torch.randn(8, 2)))).mean().backward()
    od.step()
    og.zero_grad()
    softplus(-D(fake)).mean().backward()
    og.step()

def turns(count=1000):
    for _ in range(count):
        turn()

"""


def with_turns(tmp_path, rest):
    path = tmp_path / "mine.py"
    path.write_text(TURN + rest)
    return path


def test_a_script_knows_its_place_and_the_picture_lies_where_the_command_began(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    with_turns(tmp_path, f"assert __file__ == {str(tmp_path / 'mine.py')!r}\nos.chdir('elsewhere')\nturns()")
    monkeypatch.chdir(tmp_path)
    call("watch", "mine.py", "--picture", "lives.png")
    assert (tmp_path / "lives.png").exists()


ENDS = ["KeyboardInterrupt", "asyncio.CancelledError", "GeneratorExit", "type('Own', (BaseException,), {})"]


@pytest.mark.parametrize("end", ENDS)
def test_whatever_ends_a_script_what_was_seen_is_printed(end, tmp_path, capsys):
    with pytest.raises(SystemExit, match=r"mine\.py ended with"):
        call("watch", with_turns(tmp_path, f"turns(2)\nraise {end}"), "--iterations", 5)
    assert "  rule    detach" in capsys.readouterr().out


def test_a_script_that_catches_everything_for_ever_ends_with_its_report(tmp_path):
    path = with_turns(tmp_path, "while True:\n    try:\n        turn()\n    except:\n        pass\n")
    done = run(sys.executable, "-m", "ganexp", "watch", path, cwd=tmp_path, PYTHONPATH=str(CONF.parent))
    assert (done.returncode, "  rule    detach" in done.stdout) == (0, True), done.stderr


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # pytest's own takes SystemExit for one
def test_a_script_that_trains_in_a_thread_is_told_and_given_no_fault(tmp_path, capsys):
    path = with_turns(tmp_path, "thread = threading.Thread(target=turns)\nthread.start()\nthread.join()")
    with pytest.raises(SystemExit, match=r"mine\.py:11 trains in another thread"):
        call("watch", path)
    assert "fault   " not in capsys.readouterr().out


def test_what_is_refused_at_once(tmp_path):
    for words in (["nowhere.py"], [script(tmp_path), "--picture", tmp_path / "lives.jpg"]):
        with pytest.raises(SystemExit, match="Error: "):
            call("watch", *words)
