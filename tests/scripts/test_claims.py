"""The claims: that experiments measure what they say, that verdicts follow from measurements, and what is written."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from scipy import stats

import claims
from experiments import batch_size, cost, dirac, evaluators, finding, order, racing, softmaxgan, training, width_ratio
from experiments.finding import Finding, Verdict
from experiments.report import SOURCES
from ganexp import GAN, Prior
from ganexp.compare.cost import Measured
from ganexp.compare.intervals import Interval
from ganexp.evaluation.classifier import train
from ganexp.losses import SoftmaxGAN

PAGE = (Path(__file__).parent.parent.parent / "docs" / "claims.md").read_text()
C, R, U = Verdict.CONFIRMED, Verdict.REFUTED, Verdict.UNDECIDED
TINY = ("dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3")


def test_claims_1_to_4_show_what_pytorch_says(tmp_path):
    folder = claims.main(["--claims", "4", "2", "1", "3", "--output", str(tmp_path)])
    text = (folder / "claims.md").read_text()
    assert re.findall(r"^\| (\d) \| .* \| \*\*(\w+)\*\* \|", text, re.M) == [
        ("1", "confirmed"),
        ("2", "refuted"),
        ("3", "refuted"),
        ("4", "confirmed"),
    ]
    assert "`python scripts/claims.py --claims 1 2 3 4` on " in text
    for said in ("backward through the graph a second time", "modified by an inplace operation", "[None, None,"):
        assert said in text
    assert re.findall(r"^Source: .*\[(.*?)\]\(https://", text, re.M)[:1] == ["pytorch/examples, issue 116"]
    off = re.search(r"lies ([\d.]+)% off the one at D's old weights .* ([\d.]+)% off", text)
    assert min(float(off[1]), float(off[2])) > 1


def test_the_html_page_is_whole_by_itself(tmp_path):
    figure = Figure(figsize=(1, 1))
    figure.subplots().plot([1, 2])
    rows = "| a | b |\n| --- | --- |\n| 1 | 2 |"
    made = Finding("A < B & `c`.", Verdict.CONFIRMED_IN_PART, "On <this>.", rows, {"Drawn": figure})
    claims.report.write({7: made}, tmp_path, how="a command", minutes=3.2)
    page = (tmp_path / "claims.html").read_text()
    assert '<img src="data:image/png;base64,' in page
    assert not re.search(r'(src|href)="(?!data:)', page)
    assert '<span class="verdict confirmed">confirmed in part</span>' in page
    assert "A &lt; B &amp; <code>c</code>" in page
    assert "<td>2</td>" in page
    assert (tmp_path / re.search(r"\((claims/.*png)\)", (tmp_path / "claims.md").read_text())[1]).exists()


def test_every_claim_says_where_it_is_made_and_the_committed_page_says_so_too():
    assert list(SOURCES) == list(claims.EXPERIMENTS)
    for number, source in SOURCES.items():
        assert re.search(rf"^## {number}\. .*\n\nSource: {re.escape(source)}\.\n", PAGE, re.M), number


def test_the_committed_page_says_what_the_bench_has_found():
    said = order.of_the_bench()
    assert "1.11 on ring (p = 0.001) and 1.04 on digits (p = 1)" in said
    assert said in PAGE


@pytest.mark.slow
def test_retain_is_one_thing_in_claims_6_and_7():
    said = cost.retain_in_words()
    assert re.findall(r"\d+d \+ \dg", said) == ["9d + 5g", "8d + 3g", "8d + 5g", "7d + 3g", "9d + 3g", "8d + 3g"]
    parts = dict(re.findall(r"^## (\d+)\.(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
    assert [number for number, part in parts.items() if said in part] == ["6", "7"]


def test_a_verdict_says_where_it_holds_and_what_it_was_computed_from(tmp_path):
    rows = [{"settings": "a=1 b=2", "ms": 1.5}, {"settings": "a=1 b=3", "ms": 2.5, "turn": 1}]
    made = Finding("It is so.", Verdict.REFUTED, "Measured.", "", where="on a CPU", data=rows)
    claims.report.write({8: made}, tmp_path, how="a command", minutes=1.0)
    text = (tmp_path / "claims.md").read_text()
    assert text.count("**refuted** on a CPU") == 2
    with (tmp_path / re.search(r"\((claims/.*csv)\)", text)[1]).open(newline="") as file:
        assert [*csv.DictReader(file)] == [
            {"settings": "a=1 b=2", "ms": "1.5", "turn": ""},
            {"settings": "a=1 b=3", "ms": "2.5", "turn": "1"},
        ]


def raw(claim):
    with (Path(__file__).parent.parent.parent / "docs" / "claims" / f"claim_{claim:02d}.csv").open(newline="") as file:
        return [*csv.DictReader(file)]


def table(claim):
    part = re.search(rf"^## {claim}\..*?(?=^## |\Z)", PAGE, re.M | re.S)[0]
    return [[cell.strip(" `") for cell in line.strip("|").split("|")] for line in part.splitlines() if line[:1] == "|"]


def agrees(said, value):
    assert float(said.split()[0]) == pytest.approx(value, rel=5e-3)


def test_the_committed_tables_of_races_follow_from_the_raw_times_and_counts():
    def races(claim):
        """Return times by turn, operations and activations, by the last word of the settings and the strategy."""
        found = {}
        for row in (row for row in raw(claim) if not row.get("started")):
            key = (re.search(r"\w+$", row["settings"])[0], row["strategy"])
            found.setdefault(key, ([], float(row["gflop"]), float(row["peak_mib"])))[0].append(float(row["ms"]))
        return found

    def ratios(one, other):
        return [np.median(np.divide(one[0], other[0])), one[1] / other[1], one[2] / other[2]]

    seen = 0
    for claim, base in ((5, "detach"), (6, "detach"), (12, "one_stage")):
        found = {strategy: of for (_, strategy), of in races(claim).items()}
        for row in (row for row in table(claim) if row[0] in found):
            time, gflop, peak = ratios(found[row[0]], found[base + ", redundant" * (claim != 12 and "redundant" in row[0])])
            agrees(row[1], time)
            agrees(row[2], gflop)
            if claim != 12:
                agrees(row[3], peak if claim == 5 else found[row[0]][2])
            seen += 1
    found = races(7)
    for row in (row for row in table(7) if row[0].isdecimal()):
        for suffix, column in ((", redundant", 2), ("", 4)):
            time, gflop, _ = ratios(found[row[0], f"joint{suffix}"], found[row[0], f"g_first{suffix}"])
            agrees(row[column], gflop)
            agrees(row[column + 1], time)
        seen += 1
    for claim in (8, 9):
        found = races(claim)
        for row in (row for row in table(claim) if (row[0], row[1]) in found):
            time, gflop, _ = ratios(found[row[0], row[1]], found[row[0], "g_first" + ", redundant" * ("redundant" in row[1])])
            agrees(row[2], time)
            agrees(row[3], gflop)
            agrees(row[4], found[row[0], "g_first"][2] / found[row[0], row[1]][2])
            seen += 1
    rows = [row for row in table(8) if row[0] in ("1", "10")]
    for count, said in rows:
        first, second = (
            [float(row["ms"]) for row in raw(8) if (row["iterations"], row["started"]) == (count, at)]
            for at in ("first", "second")
        )
        assert len(first) == 10
        agrees(said, np.median(np.divide(first, second)))
    assert len(rows) == 2
    assert seen == 4 + 6 + 6 + 7 + 12 + 16


def test_the_committed_tables_of_training_follow_from_the_raw_curves():
    def ends(claim, key):
        """Return the last figures of the runs, in the order of their seeds, by the data and the arm."""
        last = {(row["settings"], row["arm"]): row for row in raw(claim) if row.get("arm") and row[key]}
        found = {}
        for (settings, arm), row in last.items():
            data = re.findall(r"dataset=(\w+)", settings) or ["digits"]
            found.setdefault((data[0].upper() if data == ["mnist"] else data[0], arm), []).append(float(row[key]))
        return {of: np.array(values) for of, values in found.items()}

    fids, masses, brightness = (ends(10, key) for key in ("eval/fid", "mass", "brightness"))
    rows = [row for row in table(10) if ("digits", row[0]) in fids]
    assert len(rows) == 4
    for row in rows:
        agrees(row[1], fids["digits", row[0]].mean())
        agrees(row[2], brightness["digits", row[0]].mean())
        agrees(row[3], masses["digits", row[0]].mean())
    assert [len(of) for of in fids.values()] == [3] * 4
    found = ends(11, "eval/fid") | ends(11, "eval/sliced_wasserstein")
    assert sorted(map(len, found.values())) == [5] * 3 + [10] * 6
    data, seen = None, 0
    for row in table(11):
        data = row[0] if row[0] in ("ring", "digits", "MNIST") else data
        strategy = row[1].partition("`")[0]
        if (row[0], strategy) in found:
            agrees(row[3], found[data, strategy].mean())
            seen += 1
        elif row[0] == "at equal updates":
            agrees(row[1], (found[data, "g_first"] - found[data, "detach"]).mean())
            seen += 1
    assert seen == 9 + 3
    spiral = [row for row in raw(11) if (row["loss"], row["strategy"]) == ("WGAN", "g_first")]
    assert [float(row["distance"]) for row in spiral] == pytest.approx([1.01 ** (n / 2) for n in range(100, 700, 100)])


def test_legends_hide_no_data():
    entry = Measured([1.0, 2.0, 3.0], gflop=1.0, peak_mib=1.0)
    bars = cost.race_figure(dict.fromkeys(cost.RACE, entry))
    course = training.Course([1, 2], [{"d": 1.0, "mass": 0.5}, {"d": 2.0, "mass": 0.6}])
    arms = softmaxgan.curves({arm: [course, course] for arm in softmaxgan.ARMS}, "d", 9.0)
    by_strategy = {strategy: [course, course] for strategy in order.CLASSES}
    study = order.curves(order.Outcome(by_strategy, dict.fromkeys(order.TIMED, 1.0), "d"))
    for figure in (bars, arms, study):
        FigureCanvasAgg(figure).draw()
        (legend,) = [*figure.legends, *(axes.legend_ for axes in figure.axes if axes.legend_)]
        assert len(legend.get_texts()) >= 3
        assert not any(legend.get_window_extent().overlaps(axes.get_window_extent()) for axes in figure.axes)


@pytest.mark.slow
def test_costs_come_from_one_race_and_from_counted_operations():
    race = {"overrides": TINY, "turns": 2, "iterations": 1}
    five, six, twelve = cost.two_generator_passes(**race), cost.order_of_speed(**race), cost.one_backward_pass(**race)
    assert len(five.figures) == 1
    assert five.data == six.data == twelve.data
    assert [row["strategy"] for row in five.data] == [name for name in cost.RACE for _ in range(2)]
    assert "g_first, redundant" in six.evidence
    assert "those under `retain_graph` lie 0 from them" in six.evidence
    entries = cost.raced(cost.RACE, TINY, 2, 1)
    assert entries["resample"].gflop > entries["detach"].gflop == entries["g_first"].gflop > entries["one_stage"].gflop
    by_operations = entries["detach, redundant"].gflop / entries["one_stage"].gflop
    assert f"{by_operations:.3g}" in twelve.evidence
    assert entries["joint"].over(entries["joint"]) == Interval(1, 1, 1)


def test_the_crossing_is_interpolated_on_a_logarithmic_axis():
    assert width_ratio.crossings([1.0, 2.0, 4.0], [1.2, 1.1, 0.9]) == pytest.approx(
        math.exp(np.interp(0, [math.log(0.9), math.log(1.1)], [math.log(4), math.log(2)]))
    )
    assert width_ratio.crossings([1.0, 2.0], [1.2, 1.1]) is None


@pytest.mark.slow
def test_a_heavy_discriminator_makes_retaining_cheaper_by_operations():
    made = width_ratio.retain_for_a_heavy_discriminator(widths=(4, 64), image_size=16, turns=1, iterations=1)
    crossing = float(re.search(r"by operations: ([\d.]+)", made.reason)[1])
    assert 1.5 < crossing < 4  # 2, and more for the first layer, whose input gradient nobody needs
    own = [float(row.split("|")[5]) for row in made.evidence.splitlines() if re.match(r"\| \d", row)]
    assert max(own) < 1


@pytest.mark.slow
def test_batch_sizes_and_cold_starts():
    tiny = ("experiment=began", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4")
    made = batch_size.began_eight_times_faster(overrides=tiny, batches=(2, 3), turns=2, cold_starts=1)
    assert len(re.findall(r"^\| [23] \|", made.evidence, re.M)) == 8
    assert "| 10 |" in made.evidence
    cold = [row for row in made.data if "started" in row]
    assert [row["strategy"] for row in cold if row["started"] == "first"] == ["detach", "detach", "g_first", "g_first"]
    for count in (1, 10):
        of = {(row["turn"], row["started"]): row["ms"] for row in cold if row["iterations"] == count}
        assert f"| {count} | {np.median([of[turn, 'first'] / of[turn, 'second'] for turn in (0, 1)]):.3g} [" in made.evidence


@pytest.mark.parametrize(("others_ms", "verdict"), [(1.0, R), (2.0, R), (9.0, C)])
def test_a_claimed_speed_up_is_judged_by_the_times(others_ms, verdict, monkeypatch):
    times = {name: 1.0 if name.startswith("g_first") else others_ms for name in batch_size.RACE}
    race = {name: Measured([one] * 6, gflop=1.0, peak_mib=1.0) for name, one in times.items()}
    cold = [{"iterations": n, "started": place, "ms": 1.0} for n in (1, 10) for place in ("first", "second")]
    for module in (batch_size, racing):
        monkeypatch.setattr(module, "raced", lambda *_: race)
    monkeypatch.setattr(batch_size, "_started_cold", lambda *_: cold)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    made = batch_size.began_eight_times_faster(batches=(2, 3))
    assert made.verdict is verdict
    assert f"Speed-ups from {others_ms:.2f} to {others_ms:.2f}" in made.reason
    tenth = batch_size.dcgan_ten_percent_faster(overrides=TINY, batches=(2,), turns=2)
    assert "claimed to be 1.1" in next(iter(tenth.figures))


def test_accumulated_gradients_are_those_of_the_sum_and_vanish_for_g_where_the_claim_says():
    torch.manual_seed(0)
    real, scores = torch.randn(4, dtype=torch.float64), torch.randn(4, dtype=torch.float64)
    loss = SoftmaxGAN()

    def by_scores(r, f):
        r, f = r.clone().requires_grad_(), f.clone().requires_grad_()
        return torch.autograd.grad(loss.d_loss(r, f) + loss.g_loss(r, f), (r, f))

    p = (-torch.cat([real, scores])).softmax(0)
    by_real, by_fake = by_scores(real, scores)
    torch.testing.assert_close(by_real, 3 / 8 - 2 * p[:4])
    torch.testing.assert_close(by_fake, 1 / 8 - 2 * p[4:])
    at_rest = by_scores(torch.zeros(4, dtype=torch.float64), torch.full((4,), math.log(3), dtype=torch.float64))
    torch.testing.assert_close(torch.cat(at_rest), torch.zeros(8, dtype=torch.float64))


def test_the_accumulated_loop_is_the_one_that_a_person_writes():
    """Both losses back-propagated into both networks, then both step; a further round of G has L_G alone."""

    def networks():
        torch.manual_seed(0)
        made = torch.nn.Linear(2, 2).double(), torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Flatten(0)).double()
        return *made, *(torch.optim.SGD(network.parameters(), lr=0.1) for network in made)

    loss, x = SoftmaxGAN(), torch.randn(4, 2, dtype=torch.float64)
    generator, discriminator, step_g, step_d = networks()
    gan = GAN(generator, discriminator, loss, step_g, step_d, Prior(2, seed=3, dtype=torch.float64), batch_size=4)
    softmaxgan.accumulated(gan, iter([x, x]), d_steps=1, g_steps=2)

    plain_g, plain_d, step_g, step_d = networks()
    prior = Prior(2, seed=3, dtype=torch.float64)
    real, scores = plain_d(x), plain_d(plain_g(prior.sample(4).values))
    loss.d_loss(real, scores).backward(retain_graph=True)
    loss.g_loss(real, scores).backward()
    step_d.step()
    step_g.step()
    step_g.zero_grad()
    loss.g_loss(plain_d(x), plain_d(plain_g(prior.sample(4).values))).backward()
    step_g.step()
    for ours, theirs in ((generator, plain_g), (discriminator, plain_d)):
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("works", "verdict"),
    [((0, 1, 0, 1), C), ((0, 1, 1, 1), Verdict.DEPENDS), ((1, 1, 1, 1), R), ((0, 0, 0, 0), R), ((1, 1, 0, 1), Verdict.DEPENDS)],
)
def test_the_verdict_on_softmaxgan(works, verdict):
    assert softmaxgan.verdict_of(dict(zip(softmaxgan.ARMS, map(bool, works), strict=True)))[0] is verdict


def test_nan_does_not_work():
    assert softmaxgan.runs_all_work([1.0, 2.0], 10.0)
    assert not softmaxgan.runs_all_work([1.0, float("nan")], 10.0)


def test_the_dirac_gan_follows_its_closed_form():
    torch.testing.assert_close(dirac.distances("g_first", dirac.WGAN, 50), dirac.in_closed_form(50))
    assert max(dirac.distances("detach", dirac.WGAN, 500)) < 1.06


@pytest.mark.slow
def test_runs_side_by_side_are_the_runs_one_by_one():
    jobs = [
        training.Job((*order.RING, f"seed={seed}", "batch_size=8"), 6, 3, evaluators.of_ring(), probe=_norm) for seed in (0, 1)
    ]
    together, alone = training.train_all({"ring": jobs})["ring"], [training.train(job) for job in jobs]
    for one, other in zip(together, alone, strict=True):
        assert one.iterations == [2, 4, 6]
        assert one.curve("norm") == pytest.approx(other.curve("norm"), rel=1e-5)
        torch.testing.assert_close(one.samples, other.samples, rtol=1e-4, atol=1e-5)
    assert together[0].curve("norm") != together[1].curve("norm")


def _norm(gan):
    return {"norm": sum(float(p.detach().norm()) for p in gan.generator.parameters())}


def test_being_behind_is_measured_at_equal_updates_and_at_equal_time():
    def course(values):
        return training.Course([10, 20], [{"distance": value} for value in values])

    outcome = order.Outcome(
        {"g_first": [course([8, 4]), course([8, 5])], "detach": [course([6, 2]), course([6, 2])], "resample": []},
        {"g_first": 1.0, "detach": 2.0, "resample": 2.0, "one_stage": 0.5},
        "distance",
    )
    behind, strict = order.behind(outcome), order.behind(outcome, 0.99)
    half = stats.t.ppf(0.995, 1) * stats.sem([2, 3])
    assert strict["at equal updates"].high == pytest.approx(2.5 + half)
    assert behind["at equal updates"].middle == 2.5
    # G first ends after 20 ms, when `detach` has made 10 iterations and stands at 6; as one_stage after 10 ms, at 5: still 6.
    assert behind["at equal time"].middle == -1.5
    assert behind["at equal time, run as `one_stage`"].middle == -1.5


@pytest.mark.slow
def test_claims_10_and_11_from_end_to_end(tmp_path, monkeypatch):
    small = {"image_size": 16, "width": 2, "iterations": 4, "seeds": (0,), "times": 2}
    few = {"ring": (4, 2), "digits": (4, 2), "mnist": (4, 2), "width": 2, "times": 2, "turns": 2}
    monkeypatch.setitem(claims.EXPERIMENTS, 10, (softmaxgan.black_at_one_to_one, small))
    monkeypatch.setitem(claims.EXPERIMENTS, 11, (order.g_first_is_a_step_behind, few))
    monkeypatch.setenv("GANEXP_DATA", str(tmp_path / "none"))
    monkeypatch.setattr("torchvision.datasets.mnist.MNIST.mirrors", [])
    monkeypatch.setattr("os.cpu_count", lambda: 1)  # so that no processes are started
    monkeypatch.setattr(evaluators, "train", lambda *data, epochs: train(*data, epochs=1))
    folder = claims.main(["--quick", "--claims", "10", "11", "--output", str(tmp_path)])
    text = (folder / "claims.md").read_text()
    assert "MNIST was not run" in text
    assert len(list((folder / "claims").glob("*.png"))) == 2 + 1 + 4
    for arm in softmaxgan.ARMS:
        assert f"| {arm} |" in text


@pytest.mark.parametrize(
    ("interval", "verdict"), [(Interval(1.1, 2, 3), C), (Interval(0.5, 0.7, 0.9), R), (Interval(0.9, 1.1, 1.2), U)]
)
def test_at_least(interval, verdict):
    assert finding.at_least(1.0, interval) is verdict


def test_a_claimed_factor_is_met_nearer_to_it_than_to_none():
    assert finding.about(8, Interval(3, 4, 5)) is C
    assert finding.about(8, Interval(1, 1.1, 2.7)) is R
    assert finding.about(8, Interval(2.5, 3, 3.5)) is U


def test_verdicts_are_joined():
    assert finding.together({("a", "x"): C, ("b", "y"): C}) == (C, "Confirmed in every case")
    mixed = finding.together({("a", "x"): C, ("a", "y"): C, ("b", "x"): C, ("b", "y"): R})
    assert mixed == (Verdict.DEPENDS, "Confirmed: a; b (x). Refuted: b (y)")
    assert finding.together({("a", "x"): C, ("b", "x"): R, ("b", "y"): U})[0] is Verdict.DEPENDS


@pytest.mark.parametrize(("kind", "joined"), [(C, Verdict.CONFIRMED_IN_PART), (R, Verdict.REFUTED_IN_PART)])
def test_undecided_cases_do_not_make_a_claim_depend_on_them(kind, joined):
    assert finding.together({("a", "x"): kind, ("b", "y"): U})[0] is joined
