"""The report's ranking: of a sweep with a metric, and by any key of any runs."""

import re
from html import unescape

import numpy as np
import pytest

from tests.browser import drawn, needs_a_browser, title
from tests.calling import call
from tests.cli.commands.run_folders import config, plain_run
from tests.cli.handmade_sweeps import make_sweep

REACHED = {"loss=hinge": [2.0, 2.2, 2.1], "loss=wgan": [2.1, "failed", 2.15], "loss=lsgan": [8.0, 8.3, "missing"]}


def ranking(page):
    """Return the heading, the cells of each line, and the notes."""
    html = page.read_text()
    if "<h2>Ranked" not in html:
        return "", [], []
    part = html[html.index("<h2>Ranked") :].partition('<div class="scroll"><table><tr><th>run')[0]
    lines = re.findall(r'<tr class=".*?</tr>', part)
    cells = [[unescape(re.sub("<.*?>", "", cell)) for cell in re.findall("<td.*?</td>", line)] for line in lines]
    return re.search("<h2>(.*?)</h2>", part)[1], cells, [unescape(one) for one in re.findall('<p class="note">(.*?)</p>', part)]


def test_a_sweep_is_ranked_by_its_metric_with_its_missing_jobs_named(tmp_path):
    heading, lines, notes = ranking(call("report", str(make_sweep(tmp_path, REACHED))))
    assert heading == "Ranked by eval/fid, lowest first"
    assert [line[:4] for line in lines] == [
        ["*", "hinge", "3", "2.10 [2.00, 2.20]"],
        ["=", "wgan", "2 of 3", "2.125 [2.100, 2.150]"],
        ["", "lsgan", "2 of 3", "8.15 [8.00, 8.30]"],
    ]
    assert lines[0][4] == "best"
    assert float(lines[2][4]) < 0.05 < float(lines[1][4])
    assert {"No figure: job 4 failed.", "No figure: job 8 missing."} <= set(notes)


def test_without_a_metric_there_is_no_ranking(tmp_path):
    assert ranking(call("report", str(plain_run(tmp_path / "a", config())))) == ("", [], [])


def test_any_runs_are_ranked_by_any_key(tmp_path):
    for i, (loss, values) in enumerate({"hinge": (1.0, 1.2), "wgan": (3.0, 3.1)}.items()):
        for seed, value in enumerate(values):
            plain_run(tmp_path / f"{i}{seed}_{loss}", config(seed, loss=loss), values=(9.0, value))
    heading, lines, _ = ranking(call("report", tmp_path, "--metric", "loss/d", "--direction", "maximize"))
    assert heading == "Ranked by loss/d, highest first"
    assert [line[:3] for line in lines] == [["*", "loss=wgan", "2"], ["", "loss=hinge", "2"]]


def test_runs_on_other_data_are_ranked_apart(tmp_path):
    for i, dataset in enumerate(["ring", "ring", "grid"]):
        plain_run(tmp_path / f"{i}_a", config(i % 2, dataset=dataset))
    page = call("report", tmp_path, "--metric", "loss/d")
    assert "<p>dataset=ring</p>" in page.read_text()
    assert "<p>dataset=grid</p>" in page.read_text()
    _, lines, notes = ranking(page)
    assert [line[4] for line in lines] == ["only one", "only one"]
    assert "Figures on other data, or by other features, do not compare: each kind is ranked by itself." in notes


def test_an_unknown_metric_is_one_sentence_and_no_page(tmp_path):
    plain_run(tmp_path / "0_a", config())
    with pytest.raises(SystemExit, match=r"--metric=eval/fod is in no row of these runs; choose one of loss/d, progress/iter"):
        call("report", tmp_path, "--metric", "eval/fod")
    assert not (tmp_path / "report.html").exists()


def test_a_broken_record_of_a_sweep_breaks_no_page(tmp_path):
    folder = make_sweep(tmp_path, REACHED)
    (folder / "sweep.json").write_text('{"metric": 5}')
    assert ranking(call("report", folder)) == ("", [], [])
    assert ranking(call("report", folder, "--metric", "eval/fid"))[1][0][:2] == ["*", "loss=hinge"]


def test_what_a_sweep_says_is_escaped(tmp_path):
    each = {"loss=<b>x": [1.0], "loss=y": [2.0]}
    measures = {key: {"meaning": "m", "basis": "features: <!--<script>"} for key in each}
    page = call("report", str(make_sweep(tmp_path, each, measures=measures))).read_text()
    assert "<b>x" not in page.partition("<script>")[0]
    assert "<p>features: &lt;!--&lt;script&gt;</p>" in page


def test_a_figure_that_a_measure_describes_has_one_column(tmp_path):
    measures = {key: {"meaning": "Fréchet distance"} for key in REACHED}
    page = call("report", str(make_sweep(tmp_path, REACHED, measures=measures))).read_text()
    assert page.count("<th>eval/fid</th>") == 1


@pytest.mark.slow
@needs_a_browser
@pytest.mark.parametrize("width", [1280, 400])
def test_a_browser_draws_intervals_and_no_page_wider_than_the_window(width, tmp_path):
    page = call("report", str(make_sweep(tmp_path / "sweep", REACHED)))
    if width > 1000:  # on a phone the drawings lie to the right, in the table's own scrolling box
        pixels = drawn(page, f"--window-size={width},1400")
        for color in ((0x2A, 0x7D, 0x3F), (0x4C, 0x7A, 0xA8), (0x99, 0x99, 0x99)):  # the means of best, like and worse
            assert (np.abs(pixels - color).sum(1) < 10).sum() > 20
    measured = "onload = () => { document.title = document.documentElement.scrollWidth - innerWidth; }"
    assert int(title(page, measured, f"--window-size={width},1400")) <= 0
