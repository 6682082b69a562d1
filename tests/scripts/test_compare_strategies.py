"""The comparison: what it measures, how it takes turns, and what it writes."""

import csv

import pytest
import torch
from PIL import Image

import compare_strategies
from measuring import Contender, race, spread

TINY = ["dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4", "latent_dim=3"]


def test_contenders_take_turns_and_each_begins_in_turn():
    order = []
    contenders = [Contender(name, lambda name=name: order.append(name)) for name in "abc"]
    race(contenders, repeats=3, iterations=1, device=torch.device("cpu"))
    assert "".join(order) == "aabbcc" + "abc" + "bca" + "cab"
    assert all(len(contender.times_ms) == 3 for contender in contenders)


def test_spread_is_quartiles():
    assert spread([4.0, 1.0, 3.0, 2.0, 5.0]) == (2.0, 3.0, 4.0)
    assert spread([7.0]) == (7.0, 7.0, 7.0)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    settings = ["--repeats", "2", "--iterations", "1", "--strategies", "joint", "one_stage", "--overrides", *TINY]
    compare_strategies.main([*settings, "--losses", "nonsaturating", "hinge", "--output", str(folder)])
    with (folder / "table.csv").open() as file:
        return folder, list(csv.DictReader(file))


def test_every_row_is_there_for_every_loss(results):
    _, rows = results
    ours = ["detach, redundant", "detach", "joint, redundant", "joint", "one_stage"]
    assert [row["strategy"] for row in rows if row["loss"] == "nonsaturating"] == [*ours, "plain loop, redundant", "plain loop"]
    assert [row["strategy"] for row in rows if row["loss"] == "hinge"] == ours


def test_the_plain_loops_do_the_very_same_work(results):
    rows = {row["strategy"]: row for row in results[1] if row["loss"] == "nonsaturating"}
    assert rows["plain loop"]["gflop"] == rows["detach"]["gflop"]
    assert rows["plain loop, redundant"]["gflop"] == rows["detach, redundant"]["gflop"]
    work = [float(rows[name]["gflop"]) for name in ("one_stage", "joint", "detach", "detach, redundant")]
    assert work == sorted(work)


def test_ratios_are_relative_to_redundant_detach(results):
    _, rows = results
    for row in rows:
        low, middle, high = (float(row[key]) for key in ("ratio_low", "ratio", "ratio_high"))
        assert 0 < low <= middle <= high
        if row["strategy"] == "detach, redundant":
            assert (low, middle, high) == (1, 1, 1)


def test_table_and_plot_are_written(results):
    folder, rows = results
    text = (folder / "table.md").read_text()
    assert "2 interleaved repeats of 1 iterations" in text
    assert text.count("\n| nonsaturating |") + text.count("\n| hinge |") == len(rows)
    with Image.open(folder / "time.png") as plot:
        assert min(plot.size) > 200


def test_plain_loops_train_as_the_strategy_does():
    """The same algorithm, so the same weights, when both are given the same latents."""
    import plain_loops

    ends = []
    for loop in (None, plain_loops.textbook, plain_loops.lean):
        trainer = compare_strategies.compose(*TINY, "precision=fp64", "ema=off", "wandb.mode=disabled", "iterations=3")
        trainer.gan.prior.generator = torch.default_generator
        torch.manual_seed(7)
        step = loop(trainer.gan, trainer.reals) if loop else trainer.iterate
        for _ in range(3):
            step()
        ends.append([p.detach() for p in trainer.gan.generator.parameters()])
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ends[0], ends[2], rtol=1e-9, atol=1e-10)
