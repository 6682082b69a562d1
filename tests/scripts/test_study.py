"""The study: one budget for all, the lowest mean wins, budgets compare what they say, and the page says what was found."""

import json
import math

import numpy as np
import pytest

import study
from studying import ranks, sweeps
from studying.courses import Course
from studying.page import Study, text
from studying.plan import SETTINGS, STRATEGIES, TUNING_RUNS, TUNING_SEEDS, Arm, comparison, search
from studying.tuning import tuned
from studying.verdicts import budgets, conclusions, places
from tests.composing import composed


def product_of(overrides):
    """How many runs a sweep has."""
    return math.prod(one.count(",") + 1 for one in overrides if "[" not in one)


def test_every_strategy_has_the_same_budget_and_searches_on_other_seeds():
    for setting in SETTINGS.values():
        for choice in STRATEGIES.values():
            assert product_of(search(setting, choice, setting.losses, 80)) == TUNING_RUNS * len(setting.losses)
    assert not set(TUNING_SEEDS) & set(range(50))
    compared = comparison(
        Arm("ring", "hinge", "lookahead"), ["optimizer.lr=1", "wrapper=[lookahead]", "wrapper.lookahead.alpha=0.8"], 5, 80
    )
    assert product_of(compared) == 5
    assert {"loss=hinge", "wrapper=[lookahead]", "wrapper.lookahead.alpha=0.8", "evaluate_every=10", "iterations=80"} <= set(
        compared
    )


@pytest.mark.slow
def test_every_loss_has_the_penalty_that_it_is_known_with():
    for setting in SETTINGS.values():
        for loss in setting.losses:
            trained = composed(*setting.overrides, f"loss={loss}")
            assert trained.penalty == composed(f"loss={loss}").penalty


def written(folder, jobs):
    """Write a sweep as train.py leaves it, from settings, states and figures."""
    folder.mkdir(parents=True)
    record = {"overrides": [], "differing": ["loss", "optimizer.lr", "seed"], "jobs": [job for job, _, _ in jobs]}
    (folder / "sweep.json").write_text(json.dumps(record))
    for number, (overrides, state, figure) in enumerate(jobs):
        run = folder / f"{number}_run"
        run.mkdir()
        (run / "summary.json").write_text(json.dumps({"state": state, "error": "no pair", "overrides": overrides}))
        (run / "metrics.jsonl").write_text(json.dumps({"progress/iteration": 1, "eval/fid": figure}) + "\n")


def test_the_candidate_with_the_lowest_mean_is_taken_and_one_that_diverged_is_not(tmp_path):
    def job(loss, lr, seed):
        return [f"loss={loss}", f"optimizer.lr={lr}", f"seed={seed}"]

    jobs = [
        (job("hinge", 1, 100), "finished", 3.0),
        (job("hinge", 1, 101), "finished", 5.0),
        (job("hinge", 2, 100), "finished", 1.0),
        (job("hinge", 2, 101), "finished", 8.0),
        (job("hinge", 3, 100), "finished", 0.1),
        (job("hinge", 3, 101), "failed", 0.1),
        (job("hinge", 4, 100), "finished", math.nan),
        (job("wgan", 1, 100), "skipped", 0.0),
    ]
    written(tmp_path / "sweep", jobs)
    assert tuned(tmp_path / "sweep", "hinge", "eval/fid") == ("optimizer.lr=1",)
    with pytest.raises(ValueError, match="no pair"):
        tuned(tmp_path / "sweep", "wgan", "eval/fid")


def course(seed, end, images_each=1, diverged=False):
    """A run whose figure falls on a straight line from 10 at iteration 10 to `end` at 20."""
    return Course(str(seed), (10, 20), (10 * images_each, 20 * images_each), (10.0, end), diverged)


def test_budgets_are_equal_in_what_they_say():
    one, two = course(0, 2.0), course(0, 4.0, images_each=2)
    updates, images, time = budgets({"detach": [one], "extragradient": [two]}, {"detach": 1.0, "extragradient": 1.25})
    assert (updates.read("detach", one), updates.read("extragradient", two)) == (2.0, 4.0)
    assert (images.read("detach", one), images.read("extragradient", two)) == (2.0, 10.0)
    assert time.read("detach", one) == 2.0
    assert time.read("extragradient", two) == pytest.approx(np.interp(16, [10, 20], [10, 4]))
    assert updates.read("detach", course(0, 1.0, diverged=True)) == math.inf


def test_ranks_are_those_by_hand_and_a_divergence_is_last():
    blocks = [{"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 1.0, "c": math.inf}, {"a": 5.0, "b": 4.0, "c": 9.0}]
    assert ranks.mean_ranks(blocks) == pytest.approx({"a": 4.5 / 3, "b": 4.5 / 3, "c": 3.0})
    many = [{"a": 1.0 + i, "b": 2.1 + 2 * i, "c": 2.2 + 2 * i} for i in range(12)]
    assert ranks.friedman(many) < 1e-4
    p = ranks.differing(many)
    assert p["a", "b"] < 0.01
    assert p["a", "b"] >= 2 / 2**12  # exact, two-sided, not yet corrected
    assert ranks.differing([dict.fromkeys("ab", 1.0)] * 6)["a", "b"] == 1


def found(**ends):
    """Five seeds of each strategy, around a figure; None diverges once."""
    return {
        name: [course(seed, (end or 1) + 0.01 * seed, diverged=end is None and seed == 0) for seed in range(5)]
        for name, end in ends.items()
    }


def test_the_page_says_which_strategies_are_best_where_it_does_not_matter_and_what_diverged():
    hinge, lsgan = found(detach=1.0, joint=3.0, resample=2.0), found(detach=2.0, joint=2.0, resample=None)
    runs = {
        Arm("ring", loss, name): own for loss, block in {"hinge": hinge, "lsgan": lsgan}.items() for name, own in block.items()
    }
    ratios = {"detach": 1.0, "joint": 0.9, "resample": 1.1}
    times = {("ring", "hinge"): ratios, ("ring", "lsgan"): ratios}
    made = Study(runs, dict.fromkeys(runs, "optimizer.lr=1"), {}, times, ["python scripts/study.py"], 1.0)
    standing = made.places()
    said = conclusions(standing["updates"])
    assert said[0].startswith(
        "- `hinge`: best means: `detach` (ring). Never significantly worse than the best in 1 settings: `det"
    )
    assert "`joint` on ring" in said[0]
    assert said[-1] == "- No strategy could be told from the best in 0 of 2 blocks."
    page = text(made, standing, "study.png")
    assert (
        "First by mean rank: `detach` at equal updates and real images; `detach` and `joint` at equal time. Last: `res" in page
    )
    assert "Last: `resample` at equal updates, real images and time." in page
    assert "The higher of the two rates won in 0 of 6 searches" in page
    assert "Of 30 compared runs 1 diverged: 1 of `resample` with `lsgan` on ring." in page
    assert "| `hinge` | 1.020 [1.008, 1.032] * | 3.020 [3.008, 3.032] | 2.020 [2.008, 2.032] |" in page
    equal = places(found(detach=1.0, joint=1.0), budgets(found(detach=1.0, joint=1.0), ratios)[0])
    assert conclusions({Arm("ring", "hinge", name): place for name, place in equal.items()})[-1].endswith(
        "1 of 1 blocks: `hinge` on ring."
    )


def test_a_strategy_that_diverged_with_a_seed_is_not_the_best_whatever_its_other_seeds_reached():
    block = found(detach=2.0, joint=2.0)
    block["resample"] = [course(seed, 0.1 + 0.01 * seed, diverged=seed == 0) for seed in range(5)]
    standing = {
        Arm("ring", "hinge", name): place for name, place in places(block, budgets(block, dict.fromkeys(block, 1.0))[0]).items()
    }
    assert [place.best for place in standing.values()] == [True, False, False]
    assert conclusions(standing)[0].endswith(
        "Never significantly worse than the best in 1 settings: `detach`, `joint`. Worse: `resample` on ring."
    )


def test_only_blocks_with_every_strategy_are_ranked_and_what_was_not_run_is_said():
    hinge, lsgan, minimax = found(detach=1.0, joint=3.0), found(detach=1.0, topk=3.0), found(detach=1.0, joint=2.0, topk=2.0)
    blocks = {"hinge": hinge, "lsgan": lsgan, "minimax": minimax}

    def page_of(*losses):
        runs = {Arm("ring", loss, name): own for loss in losses for name, own in blocks[loss].items()}
        times = {("ring", loss): dict.fromkeys(blocks[loss], 1.0) for loss in losses}
        made = Study(runs, dict.fromkeys(runs, ""), {}, times, [], 1.0)
        return text(made, made.places(), "study.png")

    assert "Mean ranks over 1 blocks" in page_of("hinge", "lsgan", "minimax")
    assert "There is no block in which every strategy was run" in page_of("hinge", "lsgan")
    runs = {Arm(place, "hinge", name): own for place, name in [("ring", "joint"), ("grid", "detach")] for own in [hinge[name]]}
    standing = {
        arm: places({arm.strategy: own}, budgets({arm.strategy: own}, {arm.strategy: 1.0})[0]) for arm, own in runs.items()
    }
    said = conclusions({arm: found_[arm.strategy] for arm, found_ in standing.items()})[0]
    assert "in 2 settings: `joint` (run in 1), `detach` (run in 1)." in said


def test_a_folder_with_other_runs_is_refused(tmp_path):
    written(tmp_path / "ring-detach", [(["loss=hinge"], "finished", 1.0)])
    with pytest.raises(RuntimeError, match="ring-detach has a sweep of other runs: choose another --folder"):
        sweeps.run_all({tmp_path / "ring-detach": ("loss=lsgan",)}, 1, "searches")


@pytest.mark.slow
def test_a_shorter_study_runs_goes_on_where_it_stopped_and_writes_its_page(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    few = ["--settings", "ring", "--losses", "hinge", "--strategies", "detach", "joint"]
    options = [*few, "--seeds", "2", "--shorter", "100", "--folder", str(tmp_path / "study")]
    page = study.main(options)
    assert page.read_text().startswith("# Which strategy for which loss?")
    assert page.with_suffix(".png").stat().st_size > 5000
    rows = [*(tmp_path / "study").rglob("metrics.jsonl")]
    assert len(rows) == 2 * (TUNING_RUNS + 2)
    before = {path: path.stat().st_mtime_ns for path in rows}
    assert study.main(options) == page
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "study").rglob("metrics.jsonl")} == before


@pytest.mark.parametrize("option", ["--shorter=0", "--jobs=-1"])
def test_numbers_that_make_no_study_are_refused(option, capsys):
    with pytest.raises(SystemExit):
        study.main([option])
    assert "should be a number of at least 1, not " in capsys.readouterr().err
