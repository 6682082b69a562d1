"""The report: what it reads, what it averages, and that the page stands by itself, whatever state the runs are in."""

import json
import re

import numpy as np
import pytest
from PIL import Image

from ganexp.cli.commands.report import charts
from ganexp.cli.commands.report import run as report
from ganexp.instruments.scalar import Scalar
from ganexp.logging.keys import DIAGNOSTICS
from ganexp.logging.meanings import sentences
from tests.browser import drawn, needs_a_browser, title
from tests.calling import call
from tests.cli.commands.run_folders import config, figures, rich_run


@pytest.fixture
def sweep(tmp_path):
    for number, (strategy, seed) in enumerate([("joint", 0), ("joint", 1), ("detach", 0), ("detach", 1)]):
        rich_run(
            tmp_path / "sweep" / f"{number}_run", seed=seed, strategy=strategy, level=1.0 + seed + 3 * (strategy == "detach")
        )
    return tmp_path / "sweep"


def test_seeds_are_averaged_in_a_band_and_settings_told_apart(sweep):
    page = call("report", sweep).read_text()
    band_joint, joint, _, detach = figures(page)["loss/d"]["data"]
    assert (joint["name"], detach["name"]) == ("strategy=joint", "strategy=detach")
    assert [re.sub("<.*?>", "", key) for key in re.findall("<button.*?</button>", page)] == [
        "strategy=joint (2 seeds)",
        "strategy=detach (2 seeds)",
    ]
    assert joint["y"] == pytest.approx([1.5 / i for i in range(1, 21)], rel=5e-6)  # six digits
    assert band_joint["y"][:2] == pytest.approx([2.0, 1.0])
    assert band_joint["y"][-1] == pytest.approx(1.0)
    axes = figures(page)["loss/d"]["axes"]
    assert axes["real images"][1][:3] == [4, 8, 12]
    assert axes["seconds"][1][-1] == 10
    header = re.findall(r"<th>(.*?)</th>", page)
    assert header[:4] == ["run", "state", "strategy", "seed"]
    assert "wandb" not in "".join(header)


def test_what_a_loss_measures_is_explained_and_stands_in_the_table(sweep):
    page = call("report", sweep).read_text()
    assert "a &lt;control&gt; variable" in page
    assert "began/k_t" in re.findall(r"<th>(.*?)</th>", page)
    assert list(figures(page)).index("began/k_t") < list(figures(page)).index("time/iteration_ms")


def test_the_page_needs_nothing_but_itself(sweep):
    page = call("report", sweep).read_text()
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r'(src|href)="(?!data:)', outside)
    assert outside.count("<figure ") == 4
    frames = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert [at for at, _ in frames] == [10, 20]


def test_long_runs_are_thinned_and_many_pictures_are_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(report, "PICTURES", 3)
    folder = rich_run(tmp_path / "run", rows=5000)
    page = call("report", folder, "--output", str(tmp_path / "page.html")).read_text()
    (line,) = figures(page)["loss/d"]["data"]
    assert len(line["y"]) == charts.POINTS
    assert line["x"][0] == 1
    assert line["x"][-1] == 5000
    frames = json.loads(re.search(r'<script type="application/json">(.*?)</script>', page)[1])
    assert len(frames) == 3
    assert frames[-1][0] == 5000


def test_a_folder_without_runs_is_one_sentence(tmp_path):
    with pytest.raises(SystemExit, match="holds no run; name a run's folder"):
        call("report", tmp_path)
    with pytest.raises(SystemExit, match="holds no run; name a run's folder"):
        call("report", str(tmp_path / "nowhere"))


@pytest.mark.slow
@needs_a_browser
def test_a_browser_draws_it(tmp_path):
    """One group has a name that would turn the rest of the page into a comment, were it not escaped."""
    for number, strategy in enumerate(["joint", "<!--<script>"]):
        rich_run(tmp_path / "sweep" / f"{number}_run", strategy=strategy, level=1.0 + 3 * number)
    page = call("report", str(tmp_path / "sweep"))
    pixels = drawn(page, "--window-size=1300,2200")
    for color in ((0x1F, 0x77, 0xB4), (0xFF, 0x7F, 0x0E)):  # the curves of the two groups
        assert (np.abs(pixels - color).sum(1) < 60).sum() > 200

    clicks = (
        "document.querySelectorAll('.legend button')[1].click(); const axis = document.querySelector('#axis');"
        "axis.value = 'seconds'; axis.dispatchEvent(new Event('change'));"
        "const seen = figures['loss/d'].data.map((trace) => [trace.meta, trace.visible, trace.x[0]]);"
        "document.title = JSON.stringify([seen, document.querySelectorAll('[data-of][hidden]').length]);"
    )
    clicked = title(page, f"onload = () => setTimeout(() => {{{clicks}}}, 2000)", "--window-size=1300,2200")
    shown, hidden = json.loads(clicked)
    assert shown == [[0, True, 0.5], [1, False, 0.5]]
    assert hidden == 3  # the second group's name and bar among the timings, and its samples

    # Asked at every moment until the end: without work to do, virtual time is over before the browser has drawn another frame.
    narrower = (
        "document.body.style.width = '400px'; setInterval(() => {"
        "document.title = JSON.stringify([...document.querySelectorAll('.chart.drawn .main-svg')].map("
        "(drawn) => [Math.round(drawn.getAttribute('width')), drawn.closest('.chart').clientWidth])); }, 1);"
    )
    widths = json.loads(title(page, f"onload = () => setTimeout(() => {{{narrower}}}, 2000)", "--window-size=1300,900"))
    assert widths
    for width, place in widths:
        assert width == place <= 400  # charts follow their places


def test_early_signs_have_charts_with_their_meanings(tmp_path):
    folder = rich_run(tmp_path / "run")
    row = {"progress/iteration": 21, **dict.fromkeys(DIAGNOSTICS, 0.5)}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    page = call("report", folder).read_text()
    assert DIAGNOSTICS.keys() <= figures(page).keys()
    assert all(measure.meaning in page for measure in DIAGNOSTICS.values())


def test_single_eigenvalues_have_no_charts(tmp_path):
    folder = rich_run(tmp_path / "run")
    row = {"progress/iteration": 21, "dynamics/real_1": 1.0, "dynamics/imag_1": 0.5, "dynamics/smallest_real": 1.0}
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    charted = figures(call("report", folder).read_text()).keys()
    assert {key for key in charted if key.startswith("dynamics/")} == {"dynamics/smallest_real"}


def test_what_figures_share_of_how_they_were_measured_is_said_once():
    def measured(meaning, basis, further="", **others):
        return Scalar(f"{meaning}, {basis}{further}", basis=basis, **{"best": "lowest"} | others)

    fid = measured("distance", "features: a, 50 samples", "; not ours; real data: 3", note="not ours")
    kid = measured("discrepancy, cubic", "features: a, subsets 2, 50 samples", "; not ours", note="not ours", best="highest")
    assert sentences([("fid", fid)]) == [
        "Measured with features: a, 50 samples; not ours.",
        "fid is the distance (lowest is best; real data: 3).",
    ]
    assert sentences([("fid", fid), ("kid", kid)]) == [
        "Measured with features: a, 50 samples; not ours.",
        "fid is the distance (lowest is best; real data: 3).",
        "kid is the discrepancy, cubic (highest is best): subsets 2.",
    ]
    assert sentences([("x", Scalar("x, in words"))]) == ["x is the x, in words."]


@pytest.mark.slow
def test_a_page_of_twenty_runs_has_every_newest_picture_and_less_than_three_megabytes(tmp_path):
    keys = [f"eval/measure_{number}" for number in range(20)]
    rng = np.random.default_rng(0)
    small = [Image.fromarray(rng.integers(0, 256, (34, 34, 3), dtype=np.uint8)) for _ in range(2)]
    noise = [image.resize((274, 274), Image.Resampling.BICUBIC) for image in small]  # about as rough as photographs
    for number in range(20):
        folder = tmp_path / f"{number}_run"
        (folder / "samples").mkdir(parents=True)
        rows = [{"progress/iteration": at, **{key: rng.normal() for key in keys}} for at in range(1, 301)]
        for at in (100, 200, 300):
            noise[0].save(folder / "samples" / f"samples_{at}.png")
            rows[at - 1]["samples"] = f"samples/samples_{at}.png"
        noise[number % 2].save(folder / "samples" / "real.png")
        rows[0]["real"] = "samples/real.png"
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        (folder / "summary.json").write_text('{"state": "finished"}')
        (folder / "config.json").write_text(json.dumps(config(number % 2, d_steps=1 + number // 2)))
    page = call("report", tmp_path, "--pictures", tmp_path / "curves")
    text = page.read_text()
    assert len(text) < 3_000_000
    assert len(re.findall(r"<figure data-of", text)) == 20
    assert re.findall(r"<figcaption>(10 runs, seed .) ", text) == ["10 runs, seed 0", "10 runs, seed 1"]
    (curve,) = {len(trace["y"]) for trace in figures(text)[keys[0]]["data"] if trace["mode"] == "lines" and "fill" not in trace}
    assert curve >= 30
    written = {path.name for path in (tmp_path / "curves").iterdir()}
    assert written == {f"eval_measure_{number}.{suffix}" for number in range(20) for suffix in ("png", "svg")}
    with Image.open(tmp_path / "curves" / "eval_measure_0.png") as image:
        assert image.getextrema()[0][0] < 100  # something is drawn
    assert "<svg" in (tmp_path / "curves" / "eval_measure_0.svg").read_text()
