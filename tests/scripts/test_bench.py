"""The bench: frozen workloads, one space for all rules, results that survive a kill, a rule of one's own, and the page."""

import csv
import itertools
import math
import multiprocessing
import re
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest
import torch
from scipy import stats
from scipy.stats import trim_mean

import bench
from benching import (
    again,
    checks,
    contenders,
    importance,
    ordering,
    page,
    power,
    running,
    schedule,
    statistics,
    timing,
    verdicts,
)
from benching import results as results_module
from benching.results import Line, Results
from benching.rules import ADDED, KNOWN, RULES, own
from benching.running import JUDGEMENTS, Outcome, Task
from benching.schedule import SEEDS, Plan
from benching.space import DIVISIONS, FURTHER, POINTS, places, point
from benching.workloads import WORKLOADS
from ganexp.compare.ranking import ALPHA
from ganexp.facts import UserError
from tests.full import on_a_full_disk

RING = WORKLOADS["ring_nonsaturating"]
TINY = ("dataset.n=2000", "generator.width=4", "discriminator.width=4", "batch_size=8")
SMALL = replace(RING, overrides=(*RING.overrides, *TINY))

DIGESTS = {
    "ring_nonsaturating.1": "a8f9430a2b78",
    "ring_hinge.1": "196ae79c7cb5",
    "ring_wgan_gp.2": "bef0640a0775",
    "ring_wgan_gp_rescue.1": "a1c0c2eae01f",
    "grid_nonsaturating.1": "0186b99170d3",
    "grid_rpgan.1": "9cc6c0afbfec",
    "grid_wgan_gp.2": "5e80d7757287",
    "digits_nonsaturating.2": "aebb13e2005d",
    "digits_wgan_gp.2": "ac46c6c2b030",
    "digits_hinge.2": "d1900a6f17cd",
    "mnist_nonsaturating.2": "7663bc6206e1",
    "mnist_wgan_gp.2": "1287db8a00f5",
    "mnist_hinge.2": "dc070ff56451",
    "stacked_mnist_nonsaturating.2": "57827e7458f6",
    "stacked_mnist_wgan_gp.2": "2c27526fe8c7",
    "stacked_mnist_rpgan.2": "5c2bd8fb361f",
    "edges_l1_1.1": "f224774441df",
    "edges_l1_10.1": "678e3c441576",
    "edges_l1_100.1": "c37be3c6a5f6",
    "superres_l1_1.1": "9c0b6e70e10d",
    "superres_l1_10.1": "77befaa1dadb",
    "superres_l1_100.1": "507795a37cb1",
    "cifar10_sngan.1": "f0e3bba4783f",
    "stacked_mnist_dcgan.1": "adcfe0a540b5",
}
"""Of workloads whose definition is frozen: one that has to change gets a higher version."""


@pytest.fixture(autouse=True)
def _few_resamples(monkeypatch):
    """Intervals are rough then, and nothing that is asserted here is an interval."""
    monkeypatch.setattr(statistics, "RESAMPLES", 50)


@pytest.fixture
def few_samples(monkeypatch):
    """Lets the ring be judged by few samples, which takes less time."""
    monkeypatch.setitem(WORKLOADS, RING.name, replace(RING, samples=200))


def test_workloads_are_frozen():
    assert {workload.key: workload.digest for workload in WORKLOADS.values()} == DIGESTS


def test_points_are_the_same_for_all_rules_and_spread_over_the_whole_range():
    assert places().shape == (POINTS + FURTHER, 6)
    for division in DIVISIONS.values():
        of_rules = [[point(n, division, rule.coefficients).settings[:3] for n in range(POINTS)] for rule in RULES.values()]
        assert all(points == of_rules[0] for points in of_rules)
        rates = np.log10([float(settings[0].partition("=")[2]) for settings in of_rules[0]])
        low, high = np.log10([division.low, division.high])
        assert (np.histogram(rates, bins=5, range=(low, high))[0] >= 3).all()
        assert len({settings[2] for settings in of_rules[0]}) == len(division.momentum)
        further = [point(n, division, ()).settings[:2] for n in range(POINTS, POINTS + FURTHER)]
        d, g = (np.log10([float(settings[i].partition("=")[2]) for settings in further]) for i in range(2))
        ratios, end = g - d, np.log10(5)
        assert all(low - 1.01 < rate < low or high < rate < high + 1.01 for rate in d[:5])
        assert all(-2.01 * end < ratio < -0.99 * end or 0.99 * end < ratio < 2.01 * end for ratio in ratios[5:])
        assert all(low <= rate <= high for rate in d[5:])
        assert all(abs(ratio) < 1.01 * end for ratio in ratios[:5])
        assert d.min() < low < high < d.max()
        assert ratios.min() < -end < end < ratios.max()


def test_points_do_not_change():
    assert point(0, DIVISIONS["adam"], RULES["lookahead"].coefficients).settings == (
        "optimizer.d.lr=0.03021",
        "optimizer.g.lr=0.03377",
        "optimizer.betas=[0.0,0.999]",
        "wrapper.lookahead.every=20",
        "wrapper.lookahead.alpha=0.3139",
    )


def test_crossed_points_have_the_rates_of_one_point_and_the_coefficients_of_another():
    lookahead = RULES["lookahead"]
    crossed = lookahead.crossed(3, "adam")
    assert crossed == [103, 203, 303, 503]  # with the coefficients of points 0, 1, 2 and 4
    for number, other in zip(crossed, (0, 1, 2, 4), strict=True):
        settings = lookahead.at(number, "adam").settings
        assert settings == (*lookahead.at(3, "adam").settings[:3], *lookahead.at(other, "adam").settings[3:])
    assert RULES["detach"].crossed(3, "adam") == RULES["drift"].crossed(3, "sgd") == []


def test_detach_is_tuned_twice_at_other_points_in_the_same_ranges():
    first, second = ([KNOWN[name].at(n, "adam").settings for n in range(POINTS)] for name in ("detach", "detach_again"))
    assert not {*first} & {*second}
    assert (places(2) >= 0).all() and (places(2) <= 1).all() and not np.isclose(places(1), places(2)).any()  # noqa: PT018
    assert (KNOWN["detach"].tuning_seed, KNOWN["detach_again"].tuning_seed) == (1000, 2000)


def test_an_optimum_at_an_edge_is_named():
    numbers = {
        end: [n for n in range(POINTS) if f"D's rate ({end})" in point(n, DIVISIONS["adam"], ()).edges]
        for end in ("low", "high")
    }
    rates = places()[:POINTS, 0]
    assert numbers == {"low": [*np.flatnonzero(rates < 0.1)], "high": [*np.flatnonzero(rates > 0.9)]}
    gamma = point(3, DIVISIONS["adam"], RULES["jare"].coefficients)
    assert ("strategy.gamma (low)" in gamma.edges) == (places()[3, 3] < 0.1)


def test_the_extension_moves_the_edges_outwards():
    """D's rate then spans five decades, from 1e-5 to 1, and the ratio 1/25 to 25."""
    for number in range(POINTS + FURTHER):
        found = point(number, DIVISIONS["adam"], (), extended=True)
        d_rate, g_rate = (np.log10(float(setting.partition("=")[2])) for setting in found.settings[:2])
        ratio, end = g_rate - d_rate, np.log10(25)
        assert found.edges == tuple(
            name
            for name, at_edge in {
                "D's rate (low)": d_rate < -4.5,
                "D's rate (high)": d_rate > -0.5,
                "the ratio of rates (low)": ratio < -0.8 * end,
                "the ratio of rates (high)": ratio > 0.8 * end,
            }.items()
            if at_edge
        )


@pytest.mark.slow
@pytest.mark.parametrize("workload", [one for one in WORKLOADS.values() if one.machine == "gpu"], ids=lambda one: one.name)
def test_workloads_for_a_gpu_train_three_iterations_at_reduced_width(workload):
    few = ("generator.width=4", "discriminator.width=4", "batch_size=4")
    overrides = (*DIVISIONS["adam"].overrides, *RULES["resample"].overrides)
    trainer = running.on_noise(replace(workload, overrides=(*workload.overrides, *few)), overrides, ())
    for _ in range(3):
        trainer.step(trainer.reals)
    assert trainer.gan.meter.updates["g"] == 3


@pytest.mark.slow
def test_every_rule_fits_where_it_is_not_refused():
    refused = set()
    for rule in RULES.values():
        differing = any(len(one.divisions) == 1 for one in rule.coefficients)
        for division in DIVISIONS.values() if differing else [DIVISIONS["adam"]]:
            settings = point(0, division, rule.coefficients).settings
            try:
                running.on_noise(SMALL, (*division.overrides, *rule.overrides), settings)
            except UserError:
                refused.add(rule.name)
    assert refused == {"competitive"}


@pytest.mark.parametrize(("name", "batches"), [("detach", 1), ("extragradient", 2)])
def test_a_trial_counts_the_real_images_of_an_iteration(name, batches):
    _, images = running.trial(SMALL, (*DIVISIONS["adam"].overrides, *RULES[name].overrides), ())
    assert images == 8 * batches


def task(**changed):
    settings = ("optimizer.d.lr=1e-3", "optimizer.g.lr=1e-3", "optimizer.betas=[0.5,0.999]")
    workload = replace(SMALL, samples=WORKLOADS[RING.name].samples)
    return replace(Task(workload, ("optimizer=adam", "strategy=detach"), settings, 3, "test", 20), **changed)


def test_a_run_is_the_same_whatever_ran_before_and_splits_differ(few_samples):
    first = running.run(task())
    other = running.run(task(seed=4, settings=("optimizer.d.lr=1e-2",)))
    assert running.run(task()).figures == first.figures
    assert len(first.figures) == len(other.figures) == JUDGEMENTS
    assert other.figures != first.figures
    assert running.run(task(part="tuning")).figures != first.figures
    assert (first.state, first.cpu_s > 0) == ("finished", True)


def test_runs_are_judged_without_averaged_weights_as_well(few_samples):
    plain = ("optimizer=adam", "strategy=detach", "average=none")
    without, averaged = running.run(task(overrides=plain)), running.run(task())
    assert without.plain == without.figures[-results_module.PLATEAU :] == averaged.plain
    assert averaged.figures[-results_module.PLATEAU :] != averaged.plain


@pytest.mark.slow
def test_what_g_makes_of_held_out_sources_is_judged():
    workload = WORKLOADS["edges_l1_10"]
    dataset, data = running._dataset(workload), running._data(workload)
    assert [len(part) for part in (data.training, data.validation, data.test)] == [1797 - 2 * 299, 299, 299]
    obtained = running._obtained(running._configured(workload, (), ()), dataset, data.training, data.test)
    preview = obtained.preview.read(range(7))
    x = data.test[:7].float() / 127.5 - 1
    assert preview.values.allclose(x, atol=1e-6)
    right, down = x.roll(-1, 3) - x, x.roll(-1, 2) - x
    changes = (right.square() + down.square()).sqrt()[..., :-1, :-1]  # the last row and column wrap around
    assert preview.source[..., :-1, :-1].equal(torch.where(changes > 0.6, -1.0, 1.0))
    batch = next(obtained.reals)
    assert batch.source.shape == (16, 1, 16, 16)
    there = {tuple(one.flatten().tolist()) for one in data.training}
    assert all(tuple(one.flatten().mul(127.5).add(127.5).round().int().tolist()) in there for one in batch.values)


def test_a_run_that_diverges_is_no_error_and_keeps_the_figures_that_it_had():
    lost = running.run(task(settings=("optimizer.d.lr=1e30", "optimizer.g.lr=1e30")))
    assert lost.state == "diverged"
    assert len(lost.figures) < JUDGEMENTS


@pytest.mark.slow
def test_real_data_without_half_of_the_classes_have_collapsed():
    validation, test = running.evaluators(SMALL)
    assert running.collapsed(SMALL) > 3 * validation.keys[RING.judge].real
    assert running.floor(SMALL) == pytest.approx(validation.keys[RING.judge].real, rel=0.3)
    assert test is not validation


def lines_of(division, rule, ends):
    """The runs of a rule whose tuned seeds end at these figures; its best point is the fifth."""
    for number in range(POINTS):
        better = 0 if number == 5 else 1
        yield Line(
            "tuning",
            RING.key,
            1,
            division,
            rule,
            number,
            1000,
            "finished",
            1.0,
            (3.0 + better,) * JUDGEMENTS,
            " ".join(KNOWN[rule].at(number, division).settings if rule in KNOWN else ()),
        )
    for seed, end in enumerate(ends):
        diverged = not math.isfinite(end)
        figures = (4.0,) if diverged else tuple(np.linspace(4, end, JUDGEMENTS))
        yield Line("test", RING.key, 1, division, rule, 5, seed, "diverged" if diverged else "finished", 2.0, figures)


def written(path, **ends):
    """A file of results on the ring with Adam: of each rule, what its seeds reached."""
    results = Results(path)
    results.append(Line("machine", said="2026-01-01, a machine"))
    results.append(Line("bound", RING.key, figures=(5.0,)))
    results.append(
        Line("tuning", RING.key, division="adam", rule="competitive", state="misfit", said="a=b do not fit: no, since")
    )
    for rule, figures in ends.items():
        results.append(*lines_of("adam", rule, figures))
    return results


SPREAD = np.linspace(1, 1.5, SEEDS)
FITTING = [name for name in RULES if name != "competitive"]


def test_verdicts_find_who_is_better_who_is_lost_and_who_is_missing(tmp_path):
    results = written(
        tmp_path / "study.csv",
        detach=SPREAD,
        joint=SPREAD * 2,
        lookahead=SPREAD * np.linspace(0.45, 0.55, SEEDS),
        resample=SPREAD[::-1],
        jare=[*SPREAD[:-4], *[math.inf] * 4],
    )
    (block,) = verdicts.blocks(Results(results.path))
    found = {one.rule: one for one in block.verdicts}
    assert {name: one.standing for name, one in found.items()} == {
        "detach": "unclear",
        "joint": "worse",
        "lookahead": "better",
        "resample": "unclear",
        "jare": "unclear",
    }
    assert found["lookahead"].ratio.middle == pytest.approx(0.5, rel=0.01)
    assert found["lookahead"].improvement == 1
    assert found["jare"].lost == 4
    assert found["lookahead"].chosen.point == 5
    assert not block.complete
    assert set(block.missing) == set(RULES) - set(found) - {"competitive"}
    assert block.comparisons == len(RULES) - 2
    smallest = 2 / 2**SEEDS * (len(RULES) - 2)
    assert found["lookahead"].p == pytest.approx(smallest)
    assert block.target == pytest.approx(trim_mean([np.linspace(4, end, 10)[7] for end in SPREAD], 0.25), rel=1e-3)


def found_with(results, rule, lines):
    """The verdict on a rule whose lines are appended to the results."""
    results.append(*lines)
    (block,) = verdicts.blocks(results)
    return next(one for one in block.verdicts if one.rule == rule)


def test_runs_are_paired_by_seed_in_whatever_order_they_end(tmp_path):
    lines = [*lines_of("adam", "jare", SPREAD * np.linspace(0.98, 0.99, SEEDS))]
    found = found_with(written(tmp_path / "study.csv", detach=SPREAD), "jare", lines[::-1])
    assert found.uncorrected == pytest.approx(2 / 2**SEEDS)  # each seed is a little better, and few are better than another


def test_a_run_that_diverges_after_its_last_judgement_is_lost(tmp_path):
    *others, last = lines_of("adam", "jare", SPREAD)
    lines = [*others, replace(last, state="diverged")]
    found = found_with(written(tmp_path / "study.csv", detach=SPREAD), "jare", lines)
    assert found.lost == 1
    assert found.ends[-1] == math.inf


def test_the_next_best_points_of_detach_are_run_on_the_test_seeds(tmp_path, few_samples):
    results = written(tmp_path / "study.csv", detach=SPREAD)
    words = ["--runners-up", "--jobs", "1", "--workloads", RING.name, "--seeds", "2", "--images", "160", "--further", *TINY]
    places = ["--results", str(results.path), "--page", str(tmp_path / "study.md")]
    bench.main([*words, *places])
    bench.main([*words, *places])
    runs = Results(results.path).of_part("runner-up")
    assert [(line.point, line.seed, line.state) for line in runs] == [
        (number, seed, "finished") for number in (0, 1) for seed in (0, 1)
    ]
    settings = point(1, DIVISIONS["adam"], ()).settings
    assert runs[3].figures == pytest.approx(running.run(task(settings=settings, seed=1)).figures, rel=1e-3)


def choices_of(rule, **ends):
    """The runs by which the second version chooses: of each point, what the four further seeds reach."""
    for point_, of_seeds in ends.items():
        number = int(point_.removeprefix("point"))
        for seed, end in enumerate(of_seeds, 1001):
            state = "finished" if math.isfinite(end) else "diverged"
            figures = (end,) * JUDGEMENTS if math.isfinite(end) else ()
            made = Line("choice", RING.key, 1, "adam", rule, number, seed, state, 1.0, figures)
            yield from (made, replace(made, part="plain", figures=(2 * end,) * 3 if figures else ()))


def test_among_three_points_the_one_with_the_best_mean_over_further_seeds_is_chosen(tmp_path):
    results = written(tmp_path / "study.csv", detach=SPREAD)
    arm = results.arms[RING.key, "adam", "detach"]
    assert [line.point for line in arm.finalists(range(POINTS))] == [5, 0, 1]
    results.append(*choices_of("detach", point5=(3, 1, 1, math.inf), point0=(2, 2, 2, 2), point1=(1, 1, 1)))
    assert arm.chosen_again(range(POINTS)) is None  # a run of point 1 is missing
    results.append([*choices_of("detach", point1=(1, 1, 1, 4))][-2])
    assert arm.chosen_again(range(POINTS)).point == 1  # means are infinite, 2 and 7 / 4
    assert arm.chosen(range(POINTS)).point == 5


def test_the_second_choice_tries_coefficients_then_seeds_then_tests_what_moved(tmp_path):
    results = written(tmp_path / "study.csv", detach=SPREAD, jare=SPREAD)
    plan = Plan(results, [RING], [RULES["detach"], RULES["jare"]], ["adam"])

    def wanted(rule):
        return [(line.part, line.point, line.seed) for line in checks.chosen_again(plan) if line.rule == rule]

    seeds = range(1001, 1005)
    assert wanted("detach") == [("choice", number, seed) for number in (5, 0, 1) for seed in seeds]
    assert wanted("jare") == [("tuning", number, 1000) for number in (105, 205, 305, 405, 505)]
    for line in [*checks.chosen_again(plan)]:
        if line.rule == "jare":
            results.append(replace(line, state="finished", figures=((1.0 if line.point == 305 else 9.0),) * JUDGEMENTS))
    assert {number for _, number, _ in wanted("jare")} == {305, 5, 0}
    results.append(*choices_of("detach", point5=(1,) * 4, point0=(2,) * 4, point1=(3,) * 4))
    results.append(*choices_of("jare", point5=(2,) * 4, point0=(3,) * 4, point305=(1,) * 4))
    assert wanted("detach") == []  # its point stays, and was tested
    assert wanted("jare") == [("test", 305, seed) for seed in range(SEEDS)]
    results.append(*(replace(line, state="finished", figures=(0.1,) * JUDGEMENTS) for line in [*checks.chosen_again(plan)]))
    assert wanted("jare") == []
    before, after = verdicts.blocks(results), verdicts.blocks(results, again=True)
    assert [one.chosen.point for block in (*before, *after) for one in block.verdicts if one.rule == "jare"] == [5, 305]
    found = again.compared(results, before, after)
    assert (found["done"], found["moved"], found["swept"], found["found"], found["crossed"]) == (2, 1, 1, 1, 1)
    assert (found["span"], found["bases"]) == (9, [])  # that of `detach` stayed
    assert (found["moved_with_own"], found["without_figure"], found["partly"]) == (1, 0, {})
    assert (found["compared"], found["changed"], found["moves"]) == (1, 1, {("equal", "better"): 1})
    assert (found["plain"]["ratio"], found["plain"]["others"]) == ("2.00", 0)


def test_rules_that_were_added_change_no_verdict_on_others(tmp_path):
    given = dict.fromkeys(FITTING, SPREAD) | {"joint": SPREAD * 2}
    (before,) = verdicts.blocks(written(tmp_path / "study.csv", **given))
    (after,) = verdicts.blocks(written(tmp_path / "other.csv", **given, detach_again=SPREAD * 0.5))
    assert before.complete and after.complete  # noqa: PT018
    assert [(one.rule, one.p, one.outcome) for one in before.fixed] == [(one.rule, one.p, one.outcome) for one in after.fixed]
    assert before.pairs.keys() == after.pairs.keys()
    assert [(one.rule, one.outcome) for one in after.added] == [("detach_again", "better")]
    assert not {*ADDED} & {*RULES}


def test_beside_an_l1_term_rules_are_compared_by_the_points_and_seeds_that_both_have(tmp_path):
    workload = WORKLOADS["edges_l1_10"]
    results = Results(tmp_path / "study.csv")
    results.append(Line("bound", workload.key, figures=(70.0,)))
    for rule, points, ends in (("detach", 3, (2, 2, 2)), ("joint", 2, (4, 90)), ("resample", 4, (1, 1, 1))):
        for number in range(points):
            end = 80.0 if number == 2 or (rule, number) == ("joint", 1) else 10.0 - number
            made = Line("tuning", workload.key, 1, "adam", rule, number, 1000, "finished", 1.0, (end,) * JUDGEMENTS)
            results.append(made)
        chosen = 0 if rule == "joint" else 1
        for seed, end in enumerate(ends):
            figures = (float(end),) * JUDGEMENTS
            results.append(Line("test", workload.key, 1, "adam", rule, chosen, seed, "finished", 1.0, figures))
    found = {one.rule: one for one in ordering.standings(results)}
    compared = {rule: (one.points, len(one.ends)) for rule, one in found.items()}
    assert compared == {"detach": (3, 3), "joint": (2, 2), "resample": (3, 3)}
    assert (found["joint"].failed, found["joint"].lost, found["detach"].failed) == (1, 1, 1)
    assert found["resample"].p == 0.25  # the least of three signs
    assert found["resample"].ratio.middle == pytest.approx(0.5)
    assert found["joint"].ratio.middle == pytest.approx(47 / 2)
    assert (found["detach"].ratio, found["detach"].time) == (None, 1)
    assert not ordering.summary(results)["by_second"]
    for rule in ("detach", "joint", "resample"):  # by four more seeds, point 0 is the best of each
        tuned = results.arms[workload.key, "adam", rule].ranked(range(2 if rule == "joint" else 3))
        for number, seed in itertools.product([one.point for one in tuned], range(1001, 1005)):
            end = 1.0 if number == 0 else 50.0
            made = Line("choice", workload.key, 1, "adam", rule, number, seed, "finished", 1.0, (end,) * JUDGEMENTS)
            results.append(made)
        for seed in range(2):
            figures = (8.0 if rule == "joint" else 3.0,) * JUDGEMENTS
            results.append(Line("test", workload.key, 1, "adam", rule, 0, seed, "finished", 1.0, figures))
    summary = ordering.summary(results)
    assert summary["by_second"]
    by_second = summary["workloads"][workload]
    assert by_second["resample"].ratio.middle == 1  # by point 0, and not 1
    assert by_second["joint"].ratio.middle == pytest.approx(47 / 3)  # its test runs stay, as its point does
    plan = Plan(results, [workload], [*KNOWN.values()])
    assert {(division, rule.name) for _, division, rule in plan.arms()} == {
        ("adam", rule) for rule in ("detach", "joint", "extragradient", "resample")
    }


def runners_up(**ends):
    """The runs of `detach` at next-best points, by number."""
    for number, of_seeds in ends.items():
        for line in lines_of("adam", "detach", of_seeds):
            if line.part == "test":
                yield replace(line, part="runner-up", point=int(number.removeprefix("point")))


def test_the_page_says_which_rules_are_better_than_detach_at_each_of_its_points(tmp_path):
    results = written(tmp_path / "study.csv", detach=SPREAD, lookahead=SPREAD * 0.25, joint=SPREAD * 0.8)
    uncertain = SPREAD * np.where(np.arange(SEEDS) < 10, 0.3, 2.0)  # worse by its mean, and may well be better
    results.append(*runners_up(point0=SPREAD * 0.9, point1=uncertain, point2=SPREAD * 0.1))  # there are two next-best ones
    page.write(results, tmp_path / "study.md")
    said = (tmp_path / "study.md").read_text()
    figures = [trim_mean(ends, 0.25) for ends in (SPREAD, SPREAD * 0.9, uncertain)]
    of_joint = 0.8 * figures[0] / figures[2]
    assert f"| {figures[0]:.3g} (point 5) | {figures[1]:.3g} (0), {figures[2]:.3g} (1) | `lookahead`" in said
    assert f"`joint` {of_joint:.3g} [" in said
    assert "The advantage of 1 of 2 stands there, all but that of `joint` (ring_nonsaturating, adam)." in " ".join(said.split())
    assert "In 1 of 1 blocks one of these was better, by 10 to 10 %." in said
    assert f"Begun: `{RING.name}` with Adam (2 of {len(RULES) - 2} rules)." in said


def test_what_is_better_at_equal_time_counts_once_detach_was_run_at_its_next_best_points(tmp_path):
    results = written(tmp_path / "study.csv", **dict.fromkeys(FITTING, SPREAD) | {"jare": SPREAD * 0.5, "lead": SPREAD * 0.5})
    for rule, of_detach in {"jare": 1.0, "lead": 5.0}.items():
        results.append(Line("time", RING.key, division="adam", rule=rule, figures=(of_detach,)))
    found = verdicts.blocks(results)
    assert {one.rule: one.at_equal_time for one in found[0].verdicts if one.at_time} == {"jare": "better", "lead": "worse"}
    assert verdicts.ahead_at_equal_time(found, "adam") == {}
    results.append(*runners_up(point0=SPREAD))
    found = verdicts.blocks(results)
    assert verdicts.ahead_at_equal_time(found, "adam") == {"jare": [RING.name]}
    page.write(results, tmp_path / "study.md")
    said = (tmp_path / "study.md").read_text()
    assert said.count("Better at equal time as well: ") == 1
    assert f"`jare` with Adam on `{RING.name}` (× 0.50 after" in said
    assert f"Complete so far: `{RING.name}` with Adam." in said
    assert "better at equal time as well, by the interval over seeds | 1 |" in said
    results.append(*runners_up(point1=SPREAD * 0.4))
    assert verdicts.ahead_at_equal_time(verdicts.blocks(results), "adam") == {}


def test_detach_at_its_next_best_points_is_judged_as_another_rule_is(tmp_path):
    results = written(tmp_path / "study.csv", **dict.fromkeys(FITTING, SPREAD))
    results.append(*runners_up(point0=SPREAD * 2, point1=SPREAD * 1.05))
    assert verdicts.control(verdicts.blocks(results)[0]) == ["worse", "worse"]  # paired by seed, 5 % are beyond doubt
    results.append(*runners_up(point0=SPREAD * 2))
    near = np.where(np.arange(SEEDS) % 2, 1.01, 0.99)
    assert verdicts.outcome("unclear", statistics.interval(statistics.ratio, [(SPREAD * near, SPREAD)])) == "equal"
    assert verdicts.outcome("unclear", statistics.interval(statistics.ratio, [(SPREAD * near**30, SPREAD)])) == "open"
    assert verdicts.outcome("better", None) == "better"


def test_the_committed_verdicts_are_those_of_the_committed_runs():
    """The ratios, from the file of runs alone: the chosen point, and SciPy's means over its seeds."""
    docs = Path(bench.DOCS)
    tuned, ends = defaultdict(dict), defaultdict(list)
    for row in csv.DictReader((docs / "study.csv").read_text().splitlines()):
        arm, figures = (row["workload"], row["division"], row["rule"]), [float(one) for one in row["figures"].split()]
        finished = row["state"] == "finished"
        if row["part"] == "tuning" and row["state"] != "misfit":
            tuned[arm][int(row["point"])] = sum(figures[-3:]) / 3 if finished else math.inf
        elif row["part"] == "test":
            ends[*arm, int(row["point"])].append(figures[-1] if finished else math.inf)
    rows = [*csv.DictReader((docs / "study_verdicts.csv").read_text().splitlines())]
    assert len(rows) > 250

    def end(arm, of_detach):  # the points of the extension count where all rules have them
        numbers = range(POINTS + FURTHER) if len(of_detach) > POINTS else range(POINTS)
        chosen = min((number for number in numbers if number in tuned[arm]), key=tuned[arm].get)
        return trim_mean(ends[*arm, chosen], 0.25)

    chosen_again = docs / "study_verdicts_again.csv"
    again_rows = [*csv.DictReader(chosen_again.read_text().splitlines())] if chosen_again.exists() else []
    points = {(row["workload"], row["optimizer"], row["rule"]): int(row["point"]) for row in again_rows}
    for row in again_rows:
        arm, base = ((row["workload"], row["optimizer"], rule) for rule in (row["rule"], "detach"))
        if row["ratio"] not in ("", "inf"):
            mine, its = (trim_mean(ends[*of, points[of]], 0.25) for of in (arm, base))
            assert float(row["ratio"]) == pytest.approx(mine / its, rel=1e-3)
    first = {(row["workload"], row["optimizer"]): int(row["point"]) for row in rows if row["rule"] == "detach"}
    page = (docs / "study.md").read_text()
    for (workload, optimizer, rule), number in points.items():
        arm = (workload, optimizer, rule)
        if rule == "detach" and number != first[workload, optimizer] and "rescue" not in workload:
            before, after = (trim_mean(ends[*arm, one], 0.25) for one in (first[workload, optimizer], number))
            assert f"`{workload.partition('.')[0]}, {optimizer}` ({before:.3g} → {after:.3g} on the test seeds)" in page

    for row in rows:
        arm, base = ((row["workload"], row["optimizer"], rule) for rule in (row["rule"], "detach"))
        if row["ratio"] not in ("", "inf"):
            assert float(row["ratio"]) == pytest.approx(end(arm, tuned[base]) / end(base, tuned[base]), rel=1e-3)


def test_other_pages_say_of_the_bench_what_its_results_say():
    docs = Path(bench.DOCS)
    rows = [*csv.DictReader((docs / "study_verdicts.csv").read_text().splitlines())]
    found = Counter(row["verdict"] for row in rows if row["rule"] == "detach_r1")
    assert (found["better"], found.total(), found["worse"]) == (5, 8, 0)
    assert "without in five of eight cases and worse in none" in (docs / "strategies.md").read_text()
    summary = ordering.summary(Results(docs / "study.csv"))
    assert Counter(one.rule for one in summary["beyond"]) == {"resample": 4}
    assert [one.ratio.low > 1 for one in summary["beyond"]] == [True] * 4
    said = (docs / "translation.md").read_text()
    assert "`joint` and `extragradient` [could not be told from `detach`]" in said
    assert "`resample` was worse on four" in said
    assert [one.lost for one in summary["workloads"][WORKLOADS["superres_l1_1"]].values()] == [0, 3, 10, 0]
    assert "lost half of its seeds on one task" in said
    found = [block for block in verdicts.blocks(Results(docs / "study.csv")) if not block.workload.rescue]
    assert contenders.standing_beside_all(found, "detach_r1") == 4
    strategies = (docs / "strategies.md").read_text()
    assert "in four, it was better than `detach` at each of three points" in strategies
    again = [*csv.DictReader((docs / "study_verdicts_again.csv").read_text().splitlines())]
    for of, worse in ((rows, 3), (again, 1)):
        found = Counter(
            row["verdict"]
            for row in of
            if (row["rule"], row["optimizer"]) == ("lookahead", "adam") and "rescue" not in row["workload"]
        )
        assert (found.total(), found["better"], found["worse"]) == (6, 1, worse)
    assert "better on one and worse on three, or on one where four more seeds\n  chose its point" in strategies
    (tuned,) = (row for row in rows if (row["rule"], row["workload"]) == ("joint", "digits_nonsaturating.2"))
    assert tuned["verdict"] == "equal"


def test_rules_of_the_second_choice_are_compared_with_detach_at_its_first_point_too(tmp_path):
    (first,) = verdicts.blocks(written(tmp_path / "first.csv", detach=SPREAD, joint=SPREAD, jare=SPREAD / 3))
    (second,) = verdicts.blocks(written(tmp_path / "second.csv", detach=SPREAD * 2, joint=SPREAD, jare=SPREAD / 3))
    assert [one.outcome for one in second.fixed] == ["better", "better"]
    assert verdicts.outcomes_of(second, [(one.ends, first.base.ends) for one in second.fixed]) == ["better", "equal"]


def test_ranks_are_compared_within_a_workload():
    ring, grid = (verdicts.Block(WORKLOADS[name], "adam") for name in ("ring_hinge", "grid_rpgan"))
    blocks = [ring, grid] * 3
    one, other = np.array([1, 101, 2, 102, 3, 103]), np.array([3, 103, 2, 102, 1, 101])
    assert stats.spearmanr(one, other).statistic > 0.5
    assert again._correlations(blocks, one, other) == {"adam": pytest.approx((-1, -1, -1))}


def test_verdicts_that_the_last_evaluation_alone_decides_are_counted(tmp_path):
    results = written(tmp_path / "study.csv", detach=SPREAD, joint=SPREAD * 2)
    lines = [*lines_of("adam", "jare", SPREAD)]
    lower = [replace(line, figures=(*line.figures[:-2], 0.5, line.end)) if line.part == "test" else line for line in lines]
    results.append(*lower)
    found = verdicts.blocks(results)
    assert found[0].outcome("jare") in ("equal", "open")
    assert power.moved_by_plateaus(found) == 1


def test_at_equal_time_the_slower_of_two_is_read_earlier(tmp_path):
    results = written(tmp_path / "study.csv", detach=SPREAD, joint=SPREAD, jare=SPREAD, lead=SPREAD, drift=SPREAD)
    for rule, of_detach in {"detach": 1.0, "joint": 2.0, "jare": 0.5, "lead": 12.0}.items():
        results.append(Line("time", RING.key, division="adam", rule=rule, figures=(of_detach,)))
    (block,) = verdicts.blocks(results)
    found = {one.rule: one for one in block.verdicts}
    halfway = np.array([np.interp(5, range(1, 11), np.linspace(4, end, 10)) for end in SPREAD])
    expected = trim_mean(halfway, 0.25) / trim_mean(SPREAD, 0.25)
    assert found["joint"].ratio.middle == pytest.approx(1)
    assert found["joint"].at_time.middle == pytest.approx(expected, rel=1e-3)
    assert found["jare"].at_time.middle == pytest.approx(1 / expected, rel=1e-3)
    assert found["lead"].at_time is None  # it has not been judged by then
    assert found["drift"].at_time is None  # its time is not known


def test_over_workloads_ratios_are_geometric_means_and_what_never_held_is_worse(tmp_path):
    results = written(tmp_path / "study.csv", **dict.fromkeys(FITTING, SPREAD) | {"joint": SPREAD * 2})
    hinge = WORKLOADS["ring_hinge"].key
    for rule in RULES:
        found = list(lines_of("adam", rule, SPREAD * {"joint": 4.5, "lookahead": 0.5, "competitive": 0.4}.get(rule, 1)))
        if rule == "jare":
            found = [replace(line, state="diverged", figures=()) for line in found if line.part == "tuning"]
        results.append(*(replace(line, workload=hinge) for line in found))
    entries = {one.rule: one for one in verdicts.overall(verdicts.blocks(results), "adam")}
    assert entries["joint"].ratio == pytest.approx(3)
    assert entries["lookahead"].ratio == pytest.approx(math.sqrt(0.5))
    half = stats.t.ppf(0.975, 1) * abs(math.log(2 / 4.5)) / 2  # the standard error of two numbers is half of their distance
    assert entries["joint"].over_workloads.high == pytest.approx(3 * math.exp(half))
    assert {name: entries[name].outcomes for name in ("joint", "lookahead", "jare", "drift", "competitive")} == {
        "joint": ("worse", "worse"),
        "lookahead": ("equal", "better"),
        "jare": ("equal", "worse"),
        "drift": ("equal", "equal"),
        "competitive": ("better",),
    }
    assert list(entries)[-1] == "competitive"  # which is first by its ratio, and fits one workload only
    assert (entries["jare"].ratio, entries["jare"].share) == (1, " (1 of 2)")
    assert (entries["drift"].ratio, entries["drift"].share) == (1, "")
    assert entries["jare"].lost == SEEDS


def test_a_workload_on_which_detach_is_mostly_lost_counts_in_no_table_over_workloads(tmp_path):
    given = dict.fromkeys(FITTING, SPREAD)
    for lost, tells in [(SEEDS // 2, True), (SEEDS // 2 + 1, False)]:
        ends = [*SPREAD[lost:], *[9.0] * lost]  # beyond the bound of what has collapsed
        (block,) = verdicts.blocks(written(tmp_path / f"{lost}.csv", **given | {"detach": ends}))
        assert (block.complete, block.tells) == (True, tells)
        assert bool(verdicts.overall([block], "adam")) == tells


def test_a_rule_of_ones_own_changes_nothing_for_the_others(tmp_path):
    given = dict.fromkeys(FITTING, SPREAD) | {"lookahead": SPREAD * np.linspace(0.45, 0.55, SEEDS)}
    results = written(tmp_path / "study.csv", **given)
    (before,) = verdicts.blocks(results)
    of_rules = {one.rule: one.p for one in before.verdicts}
    assert of_rules["lookahead"] == pytest.approx(2 / 2**SEEDS * (len(RULES) - 2))
    results.append(*lines_of("adam", "mine.Rule", SPREAD * np.linspace(0.45, 0.55, SEEDS)))
    results.append(next(lines_of("adam", "mine.Other", [])))
    (after,) = verdicts.blocks(results)
    found = {one.rule: one.p for one in after.verdicts}
    assert found.pop("mine.Rule") == pytest.approx(2 / 2**SEEDS * (len(RULES) - 1))
    assert found == of_rules
    assert after.complete
    assert after.missing == ["mine.Other"]


def test_points_of_the_extension_count_once_all_rules_have_them(tmp_path):
    results = written(tmp_path / "study.csv", **dict.fromkeys(FITTING, SPREAD))
    best = (0.5,) * JUDGEMENTS
    *others, last = FITTING
    numbers = range(POINTS, POINTS + FURTHER)

    def further(rule):
        return [Line("tuning", RING.key, 1, "adam", rule, number, 1000, "finished", 1.0, best) for number in numbers]

    plan = Plan(results, [RING], [RULES["joint"]], ["adam"])
    results.append(*(line for rule in others for line in further(rule)))
    assert verdicts.blocks(results)[0].base.chosen.point == 5
    assert len(plan.numbers(RING, "adam")) == POINTS
    results.append(*further(last))
    assert not verdicts.blocks(results)  # the seeds of the new optimum are still to be run
    assert len(plan.numbers(RING, "adam")) == POINTS + FURTHER


def test_no_test_run_begins_while_a_point_of_the_extension_is_being_tried(tmp_path):
    results = written(tmp_path / "study.csv", **dict.fromkeys(FITTING, ()))
    further = [
        Line("tuning", RING.key, 1, "adam", rule, number, 1000, "finished", 1.0, (0.5,) * JUDGEMENTS)
        for rule in FITTING
        for number in range(POINTS, POINTS + FURTHER)
    ]
    plan = Plan(results, [RING], [*RULES.values()], ["adam"], seeds=1, extended=True)
    results.append(*further[:-1])
    assert [(line.part, line.point) for line in plan.wanted()] == [("tuning", POINTS + FURTHER - 1)]
    results.append(further[-1])
    assert {(line.part, line.point) for line in plan.wanted()} == {("test", POINTS)}


@pytest.mark.slow
def test_the_page_is_computed(tmp_path):
    others = {name: SPREAD for name in RULES if name not in ("competitive", "lead")}
    results = written(tmp_path / "study.csv", **others | {"lookahead": SPREAD * 0.5, "joint": SPREAD * 2})
    results.append(*(replace(line, state="diverged", figures=()) for line in lines_of("adam", "lead", [])))
    place = tmp_path / "study.md"
    place.write_text("Stale.")
    page.write(results, place)
    said = place.read_text()
    assert f"| 1 | 2 | {len(FITTING) - 4} | 0 |" in said  # lookahead; joint and lead; all that end as detach does
    assert "Stale." not in said
    of = {row["rule"]: row for row in csv.DictReader(place.with_name("study_verdicts.csv").read_text().splitlines())}
    assert [of[rule]["verdict"] for rule in ("lookahead", "joint", "jare")] == ["better", "worse", "equal"]
    assert [of[rule]["ratio"] for rule in ("lookahead", "joint")] == ["0.5", "2"]
    assert all(place.with_name(name).stat().st_size > 10_000 for name in ("study.png", "study_curves.png"))
    page.write(results, place)
    assert place.read_text() == said


def test_the_page_begins_with_what_to_do_where_shares_of_the_choices_lie_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr(importance, "SAMPLES", 3)
    monkeypatch.setattr(importance, "SHUFFLES", 3)
    results = written(tmp_path / "study.csv")
    for rule in FITTING:
        for line in lines_of("adam", rule, SPREAD):
            by_point = (1.0 + (line.point - 5) % POINTS,) * JUDGEMENTS  # the fifth, which is run on the test seeds, is best
            results.append(replace(line, figures=by_point) if line.part == "tuning" else line)
    place = tmp_path / "mine.md"
    bench.main(["--choices", "--results", str(results.path), "--page", str(place)])
    shares = {(one.scope, one.choice): one.share for one in importance.read(tmp_path / "mine_choices.csv")}
    assert shares["all", "rule"].high < 0.01  # all rules have the same figures at a point
    assert shares["test", "rule"].middle == 0
    assert shares["test", "seed"].middle == 1
    first = " ".join(place.read_text().partition("## What the verdicts say")[0].split())
    assert f"**Keep `detach`**: none of {len(FITTING) - 1} update rules is shown to beat it in general." in first
    assert "](mine_choices.png)" in first
    assert "the seeds 100 %" in first
    assert (tmp_path / "mine_choices.png").stat().st_size > 5_000
    (tmp_path / "mine_choices.csv").unlink()
    page.write(results, place)
    assert "choice" not in place.read_text().partition("## How rules")[0]


@pytest.mark.slow
def test_the_page_has_what_twice_the_budget_brings_at_the_point_that_is_best_at_the_budget(tmp_path, few_samples):
    words = ["--longer", "--jobs", "1", "--workloads", RING.name, "--images", "320", "--further", *TINY]
    places = ["--results", str(tmp_path / "study.csv"), "--page", str(tmp_path / "study.md")]
    bench.main([*words, *places])
    runs = Results(tmp_path / "study.csv").of_part("longer")
    assert [(line.point, line.state, len(line.figures)) for line in runs] == [
        (number, "finished", JUDGEMENTS) for number in checks.TRIED
    ]
    once = running.run(task(settings=point(2, DIVISIONS["adam"], ()).settings, seed=1000, part="tuning", iterations=80))
    assert runs[0].figures == pytest.approx(once.figures, rel=1e-3)
    best = min(runs, key=lambda line: line.figures[4])
    lowest = min(best.figures[5:])
    change = f"{lowest:.3g} ({round(100 * (lowest / best.figures[4] - 1)):+d} %)"
    row = f"| `{RING.name}` | {best.point} | {best.figures[4]:.3g} | {change} | {best.figures[-1]:.3g} |"
    assert row in (tmp_path / "study.md").read_text()
    assert (tmp_path / "study_budgets.png").stat().st_size > 5_000
    bench.main([*words, *places])
    assert len(Results(tmp_path / "study.csv").of_part("longer")) == len(runs)


def test_what_diverges_over_twice_the_budget_is_shown_if_it_came_as_far_as_the_budget(tmp_path):
    results = Results(tmp_path / "study.csv")
    run = Line("longer", RING.key, division="adam", rule="detach", point=2, seed=1000, state="diverged", figures=(3.0,))
    results.append(run)
    page.write(results, tmp_path / "study.md")
    assert "two budgets" not in (tmp_path / "study.md").read_text()
    results.append(replace(run, point=5, figures=(3.0,) * 5), replace(run, point=17, figures=(4.0,) * 4 + (2.0, 1.5)))
    page.write(results, tmp_path / "study.md")
    assert f"| `{RING.name}` | 17 | 2 | 1.5 (-25 %) | diverged |" in (tmp_path / "study.md").read_text()


def test_verdicts_that_a_correction_over_all_blocks_would_overturn_are_named(tmp_path):
    """Within its block the smallest p of n is multiplied by n, and over two blocks by 2 n."""
    given = dict.fromkeys(FITTING, SPREAD)
    decided = SPREAD * np.where(np.arange(SEEDS) < 6, 1.001, 0.5)
    results = written(tmp_path / "study.csv", **given | {"jare": decided, "joint": SPREAD * 2})
    (block,) = verdicts.blocks(results)
    assert verdicts.overturned([block]) == []
    jare = next(one for one in block.fixed if one.rule == "jare")
    others = [block] * int(2 * ALPHA / jare.uncorrected / block.comparisons)
    assert [one.rule for _, one in verdicts.overturned([block, *others])] == ["jare"] * (len(others) + 1)


def test_a_page_of_a_few_rules_has_their_rows_and_links_that_lead_somewhere(tmp_path):
    results = written(tmp_path / "runs.csv", detach=SPREAD, joint=SPREAD * 2)
    results.append(*(one for one in lines_of("adam", "jare", SPREAD) if one.part == "tuning"))
    place = tmp_path / "pages" / "mine.md"
    page.write(results, place)
    text = place.read_text()
    assert re.search(r"\| `joint` \| ring_nonsaturating, adam \| .* \| 2 \[2, 2\] \| .* \| worse \| 0 \|", text)
    assert re.search(r"`jare` on `ring_nonsaturating` with Adam \(\d+ points, 0 seeds\)", text)
    links = {link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)} - {""}
    assert "../runs.csv" in links
    assert [link for link in links if not (place.parent / link).exists()] == []


def test_the_page_without_results_says_so(tmp_path):
    page.write(Results(tmp_path / "none.csv"), tmp_path / "study.md")
    assert "No workload is complete yet." in (tmp_path / "study.md").read_text()


def test_a_line_that_was_cut_off_by_a_kill_is_written_anew(tmp_path):
    path = tmp_path / "study.csv"
    results = written(path, detach=SPREAD[:2])
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    cut = Results(path)
    assert len(cut.lines) == len(results.lines) - 1
    cut.append(results.lines[-1])
    assert path.read_bytes() == whole
    assert [line.identity for line in Results(path).lines] == [line.identity for line in results.lines]


def test_points_are_chosen_by_the_figures_as_they_are_written(tmp_path):
    """Of two that differ by less than the file tells, the first is chosen, now and when the file is read again."""
    results = Results(tmp_path / "study.csv")
    run = Line("tuning", RING.key, division="adam", rule="detach", seed=1000, state="finished")
    for number, figure in enumerate((0.123449, 0.123441)):
        results.append(replace(run, point=number, figures=(figure,) * JUDGEMENTS))
    again = Results(results.path)
    assert again.lines == results.lines
    assert [one.arms[RING.key, "adam", "detach"].chosen([0, 1]).point for one in (results, again)] == [0, 0]


@pytest.mark.parametrize(
    "text", [b"a,b\n1,2\n", b"\xff\xfe\n", ",".join(results_module.COLUMNS).encode() + b"\n<<<<<<< HEAD\n"]
)
def test_a_file_that_is_something_else_or_half_merged_is_refused(tmp_path, text):
    (tmp_path / "other.csv").write_bytes(text)
    with pytest.raises(SystemExit) as end:
        bench.main(["--page-only", "--results", str(tmp_path / "other.csv"), "--page", str(tmp_path / "p.md")])
    assert "--results" in str(end.value)
    assert "other.csv" in str(end.value)
    assert (tmp_path / "other.csv").read_bytes() == text


def test_a_line_that_was_cut_off_within_a_character_does_not_count(tmp_path):
    results = written(tmp_path / "study.csv")
    with results.path.open("ab") as file:
        file.write("machine,é".encode()[:-1])
    assert Results(results.path).lines == results.lines


def test_runs_that_are_there_are_not_wanted_again_and_test_runs_wait_for_tuning(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(
        running, "run", lambda task: made.append(task) or Outcome("finished", [1.0 / len(made)] * JUDGEMENTS, 0.1)
    )
    monkeypatch.setattr(running, "trial", lambda workload, overrides, settings: (0.001, 128))
    monkeypatch.setattr(running, "collapsed", lambda workload: 9.0)
    monkeypatch.setattr(running, "floor", lambda workload: 0.5)
    monkeypatch.setattr(running, "judge_of", lambda workload: "")
    plan = Plan(Results(tmp_path / "study.csv"), [RING], [RULES["joint"], RULES["detach"]], ["adam"], points=4, seeds=3)
    assert plan.missing() == 2 * 7
    assert plan.seconds() == pytest.approx(14 * 0.001 * RING.images / 128)
    schedule.run(plan, jobs=1)
    assert [one.part for one in made] == ["tuning"] * 8 + ["test"] * 6
    assert [one.overrides[-1] for one in made[:4]] == ["strategy=detach"] * 4
    assert made[0].settings == made[4].settings
    assert made[8].settings == made[3].settings  # the best point
    again = replace(plan, results=Results(tmp_path / "study.csv"))
    schedule.run(again, jobs=1)
    assert len(made) == 14
    assert again.missing() == 0
    schedule.run(replace(again, seeds=5), jobs=1)
    assert [one.seed for one in made[14:]] == [3, 4, 3, 4]
    widened = replace(RULES["joint"], coefficients=RULES["jare"].coefficients)
    with pytest.raises(UserError, match="--results"):
        schedule.run(replace(again, rules=[widened], seeds=6), jobs=1)


def test_another_classifier_than_that_of_the_results_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "trial", lambda workload, overrides, settings: (0.001, 128))
    monkeypatch.setattr(running, "judge_of", lambda workload: "the classifier of digits 1234")
    results = Results(tmp_path / "study.csv")
    results.append(Line("bound", RING.key, figures=(9.0,), said="the classifier of digits 5678"))
    with pytest.raises(UserError, match="--results"):
        schedule.run(Plan(results, [RING], [RULES["detach"]], ["adam"]), jobs=1)
    assert not [line for line in results.lines if line.part == "tuning"]


def test_a_workload_that_is_defined_otherwise_than_in_the_results_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "trial", lambda workload, overrides, settings: (0.001, 128))
    results = Results(tmp_path / "study.csv")
    results.append(Line("workload", RING.key, said=RING.digest))
    with pytest.raises(UserError, match="version"):
        schedule.run(Plan(results, [replace(RING, images=1)], [RULES["detach"]], ["adam"]), jobs=1)


MINE = """
from ganexp.strategies import Strategy
from ganexp.wrappers import Wrapper

class Rule(Strategy):
    def __init__(self, gamma=1.0, every: int = 1, often=0):
        self.gamma = gamma

    def __call__(self, gan, reals, *, d_steps, g_steps):
        x, fake = next(reals), gan.generate(gan.sample())
        gan.update_d(gan.d_loss(x, fake.detach()))
        gan.update_g(gan.g_loss(x, fake))

class Around(Wrapper):
    pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch, few_samples):
    """A folder with a rule of one's own, which is the current one."""
    (tmp_path / "mine.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield tmp_path
    sys.modules.pop("mine", None)


ARGUMENTS = ["--workloads", "ring_nonsaturating", "--divisions", "adam", "--points", "2", "--seeds", "2"]
ARGUMENTS += ["--results", "mine.csv", "--page", "mine.md"]
SHORT = ["--images", "160", "--further", *TINY]


@pytest.mark.slow
def test_a_rule_of_ones_own_is_tuned_run_and_placed_in_the_table(mine, capsys, monkeypatch):
    monkeypatch.setattr(schedule, "POINTS", 2)
    monkeypatch.setattr(results_module, "POINTS", 2)
    for module in (verdicts, page):
        monkeypatch.setattr(module, "SEEDS", 2)
        monkeypatch.setattr(module, "POINTS", 2)
    bench.main([*ARGUMENTS, *SHORT, "--jobs", "1", "--rule", "mine.Rule", "--tune", "gamma=0.5..2"])
    assert "8 runs are missing: about" in capsys.readouterr().out
    lines = Results(Path("mine.csv")).lines
    assert Counter((line.part, line.rule) for line in lines if line.rule and line.part != "plain") == {
        (part, rule): 2 for part in ("tuning", "test") for rule in ("detach", "mine.Rule")
    }
    tuned = [line for line in lines if line.rule == "mine.Rule" and line.part == "tuning"]
    gammas = [float(line.said.rpartition("=")[2]) for line in tuned]
    np.testing.assert_allclose(gammas, 0.5 * 4 ** places()[:2, 3], rtol=1e-3)
    figures = {
        rule: [line.figures for line in lines if line.rule == rule and line.part == "tuning"]
        for rule in ("detach", "mine.Rule")
    }
    assert figures["mine.Rule"] == figures["detach"]  # it is detach, whatever its gamma
    assert "| `mine.Rule` |" in Path("mine.md").read_text()


def test_wrappers_of_ones_own_go_around_detach_and_mistakes_are_told(mine):
    around = own("mine.Around", [])
    assert running.run(task(overrides=("optimizer=adam", *around.overrides))).figures == running.run(task()).figures
    with pytest.raises(ValueError, match="--rule"):
        own("mine.Nothing", [])
    with pytest.raises(ValueError, match="--rule"):
        own("./mine.Rule", [])
    for given in ("gamma=3..1", "gamma=1..inf"):
        with pytest.raises(ValueError, match="--tune"):
            own("mine.Rule", [given])
    with pytest.raises(ValueError, match=r"--tune every=1.5..4: every is an integer"):
        own("mine.Rule", ["every=1.5..4"])


@pytest.mark.parametrize(("typed", "drawn"), [("every=2..4", {"2", "3", "4"}), ("often=-1..1", {"-1", "0", "1"})])
def test_an_integer_is_drawn_among_the_integers_of_its_range_each_in_its_share(mine, typed, drawn):
    (coefficient,) = own("mine.Rule", [typed]).coefficients
    draws = [coefficient.at(u) for u in np.linspace(0, 1, 3001)]
    assert {*draws} == drawn
    if typed.startswith("every"):  # by equal ratios: n has the share of [n, n + 1) of the logarithm of 5 / 2
        shares = [draws.count(n) / 3001 for n in ("2", "3", "4")]
        assert shares == pytest.approx([math.log((n + 1) / n) / math.log(5 / 2) for n in (2, 3, 4)], abs=1e-3)
    else:
        assert [draws.count(n) / 3001 for n in ("-1", "0", "1")] == pytest.approx([1 / 3] * 3, abs=1e-3)
    gamma = own("mine.Rule", ["gamma=1..3"]).coefficients[0]
    assert not gamma.whole


def test_what_would_be_ignored_is_refused(tmp_path, capsys):
    places = ["--results", str(tmp_path / "typo.csv"), "--page", str(tmp_path / "study.md")]
    (tmp_path / "study.md").write_text("Kept.")
    with pytest.raises(SystemExit):
        bench.main(["--tune", "gamma=0.5..2", *places])
    assert "--rule" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["--rule", "mine.Rule", "--rules", "joint", *places])
    assert "leave out --rules" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="--results"):
        bench.main(["--page-only", *places])
    assert (tmp_path / "study.md").read_text() == "Kept."


def test_a_dry_run_counts_the_runs_of_the_rules_that_fit_and_writes_nothing(tmp_path, monkeypatch, capsys):
    def trial(workload, overrides, settings):
        if "strategy=competitive" in overrides:
            raise UserError("competitive does not fit.")
        return 0.001, 128

    monkeypatch.setattr(running, "trial", trial)
    monkeypatch.setattr(schedule, "run", lambda plan, jobs: None)
    places = ["--results", str(tmp_path / "study.csv"), "--page", str(tmp_path / "study.md")]
    words = ["--workloads", RING.name, "--rules", "detach", "competitive", *places]
    bench.main(["--dry-run", *words])
    assert "80 runs are missing" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} <= {"study.lock"}
    bench.main(words)
    assert {*Results(tmp_path / "study.csv").misfits(RING.key)} == {("adam", "competitive"), ("sgd", "competitive")}


def test_a_full_disk_leaves_the_page_as_it_was(tmp_path):
    place = tmp_path / "study.md"
    place.write_text("Kept.")
    assert "OSError" in on_a_full_disk(page.write, Results(tmp_path / "none.csv"), place, room=100)
    assert place.read_text() == "Kept."


def bench_of_few_samples(words):
    WORKLOADS[RING.name] = replace(RING, samples=200)
    bench.main(words)


@pytest.mark.slow
def test_a_bench_that_is_killed_goes_on_without_repeating_or_losing_runs(tmp_path, monkeypatch, few_samples):
    monkeypatch.chdir(tmp_path)
    words = [*ARGUMENTS, "--rules", "detach", "joint", "--jobs", "1", *SHORT]

    def runs():
        return [line for line in Results(Path("mine.csv")).lines if line.rule and line.part != "plain"]

    child = multiprocessing.get_context("spawn").Process(target=bench_of_few_samples, args=(words,))
    child.start()
    try:
        until = time.monotonic() + 120
        while len(runs()) < 3 and time.monotonic() < until:
            time.sleep(0.01)
    finally:
        child.kill()
        child.join()
    before = runs()
    assert 3 <= len(before) < 8
    bench.main(words)
    after = runs()
    assert after[: len(before)] == before
    assert Counter((line.part, line.rule) for line in after) == {
        (part, rule): 2 for part in ("tuning", "test") for rule in ("detach", "joint")
    }
    assert len({line.identity for line in after}) == len(after) == 8


@pytest.mark.slow
def test_runs_are_the_same_in_processes_of_their_own_which_end_with_their_input(tmp_path):
    found = []
    for jobs in (1, 2):
        results = Results(tmp_path / f"{jobs}.csv")
        plan = Plan(results, [replace(SMALL, images=160)], [RULES["detach"]], ["adam"], points=2, seeds=1)
        schedule.run(plan, jobs)
        found.append({line.identity: line.figures for line in results.lines if line.rule})
    assert found[0] == found[1]
    assert len(found[0]) == 2 * 3  # with averaged and with plain weights
    assert not [child for child in psutil.Process().children() if "spawn_main" in " ".join(child.cmdline())]


def test_a_race_waits_for_the_device_that_its_trainers_are_on(tmp_path, monkeypatch):
    """Otherwise, launches would be timed on a GPU, and not what they launch."""
    on = SimpleNamespace(gan=SimpleNamespace(prior=SimpleNamespace(device=torch.device("cuda"))), step=print, reals=None)
    devices = []
    monkeypatch.setattr(timing, "on_noise", lambda *_: on)
    monkeypatch.setattr(timing, "race_for", lambda contenders, device, **_: devices.append(device) or {})
    monkeypatch.setattr(running, "trial", lambda workload, overrides, settings: (0.001, 128))
    timing.measure(Plan(Results(tmp_path / "study.csv"), [WORKLOADS["cifar10_sngan"]], [RULES["joint"]]))
    assert devices == [torch.device("cuda")]


def test_two_benches_do_not_write_one_file(tmp_path, monkeypatch):
    from filelock import FileLock

    monkeypatch.chdir(tmp_path)
    with FileLock("mine.lock"), pytest.raises(SystemExit) as end:
        bench.main([*ARGUMENTS, "--rules", "detach"])
    assert "--results" in str(end.value)


@pytest.mark.parametrize("option", ["--seeds=0", "--jobs=-1", "--points=21"])
def test_numbers_that_make_no_bench_are_refused(option):
    with pytest.raises(SystemExit):
        bench.main([option])
