"""What spectra predict and what runs reach: the comparison on made-up runs, the file that keeps them, and one small run."""

import math
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats

import spectra
from spectral import page, runs, verdict
from spectral.plan import EVALUATIONS, REFERENCE, RULES, SETTINGS
from spectral.runs import Moment, Results

SEEDS = (1, 2, 3)


def made_up(turned=1.0, diverged=()):
    """Return runs of which the n-th rule reaches 1 + n/100, or so, and predictions that go with them, or the other way."""
    order = {rule: i for i, rule in enumerate(RULES)}
    found = {}
    for setting in SETTINGS:
        for rule, i in order.items():
            for seed in SEEDS:
                last = math.inf if rule in diverged else 1 + i + seed / 100
                moments = [Moment(k, 100.0 - k, (1 + 1j,)) for k in range(1, EVALUATIONS)]
                found[setting, rule, seed] = [*moments, Moment(EVALUATIONS, last, (1 + 1j,))]
    return found, lambda rule, eigenvalues, rate: math.exp(turned * order[rule] / 100)


def settings_of(*given, **further):
    made, predict = made_up(*given, **further)
    with patch.object(verdict, "factor", predict):
        return {name: verdict.found(name, made) for name in SETTINGS}


def test_predictions_that_come_true_are_a_yes_and_those_that_do_not_a_no():
    true, false = settings_of(1.0), settings_of(-1.0)
    for one in true.values():
        assert one.correlation(one.predicted, one.figures).middle == pytest.approx(1)
        assert one.foremost == next(iter(RULES))
    for one in false.values():
        assert one.correlation(one.predicted, one.figures).middle == pytest.approx(-1)
    assert verdict.answer(true).startswith("**Yes")
    assert verdict.answer(false).startswith("**No.")


def test_correlations_are_scipys_with_rules_as_the_sample():
    one = settings_of(1.0)["ring"]
    rules, noise = [*RULES], np.random.default_rng(0).normal(size=len(RULES))
    measured = {rule: [i + 9 * noise[i]] * len(SEEDS) for i, rule in enumerate(rules)}
    x, y = [one.predicted[rule][0] for rule in rules], [measured[rule][0] for rule in rules]
    found = one.correlation(one.predicted, measured)
    resampled = stats.bootstrap(
        (x, y),
        lambda a, b: stats.spearmanr(a, b).statistic,
        paired=True,
        vectorized=False,
        n_resamples=2000,
        method="percentile",
    )
    assert found.middle == pytest.approx(stats.spearmanr(x, y).statistic)
    assert (found.low, found.high) == pytest.approx(resampled.confidence_interval, abs=0.05)


def test_a_run_that_diverged_is_last_and_said_so():
    first = next(iter(RULES))
    settings = settings_of(diverged=(first,))
    one = settings["ring"]
    assert one.ranking[-1].combination == first == one.foremost
    text = page.section(settings, "a machine")
    assert f"| `{first}` | 1.000 | diverged |" in text
    assert "**No.**" in text


def test_the_time_to_a_target_is_on_the_line_between_moments():
    run = [Moment(10, 4.0), Moment(20, 2.0), Moment(30, 1.0)]
    assert [verdict.time_to(target, run) for target in (5, 3, 1, 0.5)] == [10, 15, 30, math.inf]
    assert verdict.time_to(3, [Moment(10, math.inf), Moment(20, 2.0)]) == 20


def test_the_section_is_put_in_its_place_and_only_there(tmp_path):
    place = tmp_path / "page.md"
    place.write_text("before\n<!-- measured: spectra -->\nold\n<!-- end of measured -->\nafter\n")
    settings = settings_of()
    page.write(page.section(settings, "a machine"), page.plot(settings), place)
    text = place.read_text()
    assert text.startswith("before\n<!-- measured: spectra -->\n**Yes")
    assert text.endswith("<!-- end of measured -->\nafter\n")
    assert "old" not in text
    assert (tmp_path / "spectra.png").exists()


@pytest.mark.parametrize("left", [1, 2, 4])
def test_a_file_goes_on_where_a_killed_process_has_left_it(tmp_path, left):
    """What is left of the last line's `1+1j` may look like a number; without its end of line, it is none."""
    made, _ = made_up()
    results = Results(tmp_path / "s.csv")
    for key in list(made)[:3]:
        results.add(key, made[key])
    text = results.path.read_text()
    results.path.write_text(text[: text.rindex("1+1j") + left])  # in the middle of the last run's last line
    again = Results(results.path)
    assert again.runs == {key: made[key] for key in list(made)[:2]}
    again.add(list(made)[2], made[list(made)[2]])
    assert again.path.read_text() == text


def test_a_file_that_a_merge_has_left_halfway_is_refused_and_kept(tmp_path):
    made, _ = made_up()
    results = Results(tmp_path / "s.csv")
    results.add(key := next(iter(made)), made[key])
    *before, last = results.path.read_text().splitlines(keepends=True)
    merged = "".join([*before, "<<<<<<< HEAD\n", last, "=======\n", last, ">>>>>>> theirs\n"])
    results.path.write_text(merged)
    with pytest.raises(ValueError, match=r"<<<<<<< HEAD.*--results"):
        Results(results.path)
    assert results.path.read_text() == merged


def test_a_run_that_two_processes_have_made_counts_once(tmp_path):
    made, _ = made_up()
    results = [Results(tmp_path / "s.csv") for _ in range(2)]
    for one in results:
        one.add(key := next(iter(made)), made[key])
    assert Results(tmp_path / "s.csv").runs == {key: made[key]}


def test_folders_that_are_not_there_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr(spectra, "found", lambda name, runs: settings_of()[name])
    page_there, file_there = tmp_path / "a" / "p.md", tmp_path / "b" / "s.csv"
    spectra.main(["--seeds=0", "--results", str(file_there), "--page", str(page_there)])
    assert "**Yes" in page_there.read_text()
    assert file_there.exists()


def test_a_page_without_a_place_for_the_section_is_refused_before_the_work(tmp_path, monkeypatch):
    monkeypatch.setattr(spectra, "workers", None)
    (tmp_path / "p.md").write_text("Mine.\n")
    with pytest.raises(SystemExit, match=r"p\.md has no place .*--page"):
        spectra.main(["--seeds=2", "--results", str(tmp_path / "s.csv"), "--page", str(tmp_path / "p.md")])
    assert (tmp_path / "p.md").read_text() == "Mine.\n"


def test_a_file_of_other_settings_is_refused(tmp_path):
    Results(tmp_path / "s.csv")
    with pytest.raises(ValueError, match="other settings"):
        Results(tmp_path / "s.csv", shorter=2)
    with pytest.raises(SystemExit, match="other settings"):
        spectra.main(["--results", str(tmp_path / "s.csv"), "--shorter", "2"])


@pytest.mark.parametrize(
    ("words", "said"),
    [("--jobs=0", "--jobs"), ("--shorter=0", "--shorter"), ("--shorter=38", "--shorter"), ("--seeds=0", "--seeds")],
)
def test_numbers_that_make_no_section_are_refused(tmp_path, capsys, words, said):
    with pytest.raises(SystemExit) as end:
        spectra.main(["--results", str(tmp_path / "s.csv"), "--page", str(tmp_path / "p.md"), "--seeds=0", words])
    assert said in f"{end.value.code}{capsys.readouterr().err}"


@pytest.mark.slow
def test_a_run_is_judged_and_looked_at_and_ends_where_it_diverges(monkeypatch):
    found = runs.train(("ring", REFERENCE, 1), shorter=100)
    assert [moment.iteration for moment in found] == [1, 2, 3, 5]
    assert all(moment.eigenvalues and math.isfinite(moment.figure) for moment in found)
    monkeypatch.setitem(RULES, "joint", ("strategy=joint", "optimizer.g.lr=1e30"))
    lost = runs.train(("ring", "joint", 1), shorter=100)
    assert [moment.figure for moment in lost][-2:] == [math.inf] * 2
