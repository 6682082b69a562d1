"""Run folders that were tampered with: they are read, shown as damaged, and never break the page or the run beside them.

Random mutations, the same ones at every run; `GANEXP_EXAMPLES=2000 pytest tests/cli/commands/test_report_broken.py` tries more.
"""

import base64
import gzip
import json
import os
import re
import shutil
import struct
import tempfile
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from PIL import Image

from ganexp.cli.commands.report import run as report
from ganexp.logging import reading as runs
from ganexp.logging.keys import STEPS
from tests.calling import call
from tests.cli.commands.run_folders import figures, rich_run

FILES = ("config.json", "summary.json", "measures.json", "metrics.jsonl", "provenance.json", "wandb_id", "samples/10.png")
HOSTILE = (
    "<!--<script>",
    "</script><script>alert(1)</script>",
    "\u2028",
    "]]>",
    "&lt;",
    "\ud800",
    "\0",
    "a" * 10_000,
    "../../x.png",
    "",
)

numbers = st.one_of(st.floats(), st.integers(), st.sampled_from([10**400, -(10**30), 2**64, True]))
leaves = st.one_of(st.none(), numbers, st.text(max_size=20), st.sampled_from(HOSTILE))
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8) | st.sampled_from(HOSTILE), inner, max_size=3)
    ),
    max_leaves=6,
)
known = st.sampled_from([*STEPS, "loss/d", "time/d_ms", "time/iteration_ms", "samples", "eval/fid", "mine/x"])


@st.composite
def mutations(draw):
    """Return what is done to a folder, and a word for it, so that a failing example can be read."""
    file = draw(st.sampled_from(FILES))
    kind = draw(st.sampled_from(["gone", "folder", "loop", "pipe", "outside", "bytes", "json", "rows", "keys", "deep", "long"]))
    if kind == "bytes":
        return kind, file, draw(st.binary(max_size=60))
    if kind == "json":
        return kind, file, json.dumps(draw(values)).encode()
    if kind == "rows":
        row = draw(st.dictionaries(known | st.text(max_size=8), values, max_size=5))
        return kind, "metrics.jsonl", json.dumps({"progress/iteration": draw(st.integers(0, 30)), **row}).encode() + b"\n"
    if kind == "keys":
        name = draw(st.sampled_from(["config.json", "summary.json"]))
        keys = st.sampled_from(["state", "error", "overrides", "job", "wall_s", "last", "seed", "strategy", "wandb", "name"])
        return kind, name, json.dumps(draw(st.dictionaries(keys | st.text(max_size=5), values, max_size=4))).encode()
    return kind, file, b""


def mutate(folder, kind, file, content):
    path = folder / file
    before = path.read_bytes() if path.is_file() else b""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(exist_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "loop":
        path.symlink_to(path)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "outside":
        path.symlink_to("/etc/hostname")
    elif kind == "deep":
        path.write_text('{"a":' * 5000 + "1" + "}" * 5000)
    elif kind == "long":
        path.write_text('{"progress/iteration": ' + "9" * 5000 + "}")
    elif kind == "rows":
        path.write_bytes(before + content)
    elif kind != "gone":
        path.write_bytes(content)


@pytest.fixture(autouse=True, scope="module")
def _without_its_megabytes_of_plotly():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "get_plotlyjs", lambda: "plotly")
        yield


class Scripts(HTMLParser):
    """Collects the elements of a page and the contents of its scripts."""

    def __init__(self):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def check(page):
    """Assert that a page's scripts are whole, whatever stands in them."""
    parser = Scripts()
    parser.feed(page)
    *frames, plotly, ours = parser.scripts
    assert gzip.decompress(base64.b64decode(plotly)) == b"plotly"
    assert all(json.loads(one) for one in frames)
    shown, end = json.JSONDecoder().raw_decode(ours.removeprefix("const figures = "))
    assert ours.removeprefix("const figures = ")[end:].startswith(";\nconst hidden")
    assert not re.search("[<>&\u2028\u2029]", ours.removeprefix("const figures = ")[:end] + "".join(frames))
    for figure in shown.values():
        for i, trace in enumerate(figure["data"]):
            assert {len(axis[i]) for axis in figure["axes"].values()} == {len(trace["y"])}
    return parser


@given(st.lists(mutations(), min_size=1, max_size=3))
@settings(
    max_examples=int(os.environ.get("GANEXP_EXAMPLES", 40)),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@example([("rows", "metrics.jsonl", b'{"progress/iteration": 5, "samples": "/etc/hostname", "loss/d": [1]}\n')])
@example([("rows", "metrics.jsonl", b'{"progress/iteration": true, "loss/d": 1}\n')])
@example([("keys", "summary.json", b'{"state": ["finished"], "overrides": 5, "error": {"a": 1}}')])
@example([("keys", "config.json", b'{"seed": {"name": {"name": "\\ud800<!--<script>"}}}')])
@pytest.mark.slow
def test_a_page_is_made_of_whatever_is_left(done):
    with tempfile.TemporaryDirectory() as name:
        sweep = Path(name)
        whole = rich_run(sweep / "0_whole", rows=10)
        broken = rich_run(sweep / "1_broken", seed=1, rows=10)
        for kind, file, content in done:
            mutate(broken, kind, file, content)
        found = [runs.read(folder) for folder in runs.find(sweep)]
        assert found[0].folder == whole.resolve()
        assert not found[0].problems
        for run in found:
            assert isinstance(run.state, str)
            assert isinstance(run.overrides, dict)
            assert isinstance(run.wandb_id, str | None)
            there = [value for row in run.rows for value in row.values() if not isinstance(value, str)]
            assert {type(value) for value in there} <= {int, float}
            np.array(there, dtype=float)  # raises for an integer that is too large
        page = call("report", sweep).read_text(encoding="utf-8")
        parser = check(page)
        assert parser.tags.count("tr") >= 1 + len(found)
        assert page.count("<figure ") >= 1
        assert any(trace["meta"] == 0 for trace in figures(page)["loss/d"]["data"])


@pytest.mark.parametrize(
    ("mutation", "said"),
    [
        (("pipe", "config.json", b""), "config.json cannot be read: it is not a file"),
        (("json", "summary.json", b"[1]"), "summary.json cannot be read: it does not hold a dictionary"),
        (
            ("rows", "metrics.jsonl", b'{"progress/iteration": 7, "loss/d": "x", "loss/g": null}\n'),
            "line 11: loss/g is not a number",
        ),
        (("rows", "metrics.jsonl", b'{"progress/iteration": 7, "loss/d": 1' + b"0" * 400 + b"}\n"), "loss/d is not a number"),
        (("rows", "metrics.jsonl", b'{"progress/iteration": 7, "samples": "a\\u0000b"}\n'), "is not there"),
        (("bytes", "samples/10.png", b"no picture"), "samples/10.png is no picture that can be shown"),
    ],
)
def test_damage_is_named(tmp_path, mutation, said):
    folder = rich_run(tmp_path / "run", rows=10)
    mutate(folder, *mutation)
    page = call("report", folder).read_text()
    told = re.findall('<div class="problem">(.*?)</div>', page)
    assert any(said in one.replace("&#x27;", "'") for one in told), told
    assert "damaged." in page


def test_pictures_from_outside_the_run_are_refused(tmp_path):
    secret = Image.new("RGB", (3, 3), (1, 2, 3))
    secret.save(tmp_path / "x.png")
    folder = rich_run(tmp_path / "runs" / "run", rows=10)
    (folder / "link.png").symlink_to(tmp_path / "x.png")
    (folder / "linked").symlink_to(tmp_path)
    for name in ("../../x.png", str(tmp_path / "x.png"), "link.png", "linked/x.png", "samples/../../../x.png"):
        row = json.dumps({"progress/iteration": 11, "samples": name})
        (folder / "metrics.jsonl").write_text(row + "\n")
        page = call("report", folder).read_text()
        assert "lies outside the run folder" in page
        assert "data:image" not in page


def test_a_huge_picture_is_refused_before_it_is_decoded(tmp_path):
    """A few hundred bytes that say they are 60,000 pixels wide and high: eleven gigabytes once decoded."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 2, 0, 0, 0)
    content = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    folder = rich_run(tmp_path / "run", rows=10)
    (folder / "samples" / "10.png").write_bytes(content)
    assert "no picture that can be shown" in call("report", folder).read_text()
