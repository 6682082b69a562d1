"""What the benchmark says of several processes: counted reductions are those of the networks, and tables follow a formula."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks import processes, reach
from benchmarks.reach import Exchanged, Link, Recipe
from tests.distributed.forks import several

TINY = ("dataset=fake", "dataset.image_size=16", "dataset.n=30", "generator.width=2", "discriminator.width=2", "batch_size=8")
TINY += ("logger=[]", "loss=nonsaturating", "strategy=detach")


def measured(group):
    torch.set_num_threads(1)
    return processes.race(group, TINY, 2, 0.0)


@pytest.mark.slow
def test_several_race_one_and_what_they_exchange_is_counted(tmp_path):
    (times, counts), _ = several(2, measured, tmp_path)
    assert {name: len(one.times_ms) for name, one in times.items()} == dict.fromkeys(
        ("together", "alone", "a share alone", "two threads"), 2
    )
    trainer = processes.build(processes.compose(*TINY, "device=cpu"))
    gan = trainer.gan
    parameters = [sum(one.numel() for one in network.parameters()) for network in (gan.generator, gan.discriminator)]
    norms = [m for network in (gan.generator, gan.discriminator) for m in network.modules() if hasattr(m, "running_mean")]
    assert norms
    passes = {gan.generator: 1, gan.discriminator: 3}  # of detach: fake; real and fake for D, fake for G
    vectors = [
        (passes[network], module.num_features)
        for network in passes
        for module in network.modules()
        if hasattr(module, "running_mean")
    ]
    assert counts["gradients"][:2] == (2, 4 * sum(parameters))
    assert counts["scores"][:2] == (3, 3 * 4 * 4)
    assert counts["whether to stop"][:2] == (1, 8)
    assert counts["statistics of batch norm"][:2] == (
        sum(4 * times for times, _ in vectors),  # mean and variance, there and in the backward pass
        sum(4 * times * 4 * size for times, size in vectors),
    )


@pytest.mark.slow
def test_recipes_are_counted_as_they_are_measured(tmp_path, monkeypatch):
    composed = reach.compose
    monkeypatch.setattr(reach, "compose", lambda *_: composed(*TINY, "device=cpu"))
    found = reach.recipe_of("tiny").exchanged
    (_, counts), _ = several(2, measured, tmp_path)
    names = {"gradients": "gradients", "scores": "scores", "statistics": "statistics of batch norm"}
    assert {kind: (one.calls, one.size) for kind, one in found.items()} == {
        kind: counts[name][:2] for kind, name in names.items()
    }


@pytest.mark.slow
def test_the_committed_table_of_presets_is_what_they_exchange():
    page = (Path(__file__).parent.parent.parent / "docs" / "benchmarks.md").read_text()
    for name in reach.RECIPES:
        recipe = reach.recipe_of(name)
        said = re.search(rf"^\| `{name}` \| {recipe.batch_size} \| (.*) \|$", page, re.M)[1].split(" | ")
        assert said[0] == " and ".join(f"{count / 1e6:.2f} M" for count in recipe.parameters)
        assert float(said[1]) == pytest.approx(recipe.flop / 1e9, rel=5e-3)
        for cell, kind, unit in ((said[2], "gradients", 1e6), (said[3], "statistics", 1e3)):
            size, _, calls = cell.removesuffix(" reductions").replace("–", "0 in 0").partition(" in ")
            assert float(size) == pytest.approx(recipe.exchanged[kind].size / unit, rel=5e-3)
            assert int(calls) == recipe.exchanged[kind].calls
        assert int(said[4]) == reach.most_gpus(recipe, reach.ASSUMED * 1e12)


def test_a_row_is_ring_and_tree():
    recipe = Recipe("x", 64, 2e9, (1, 1), {"gradients": Exchanged(2, 8_000_000), "scores": Exchanged(3, 0)})
    row = reach.row_of(recipe, 1e12, 32, 4, Link("", 1e9, 1e-5))
    assert row["computing, ms"] == pytest.approx(64)  # 32 × 2e9 / 1e12 s
    assert row["bytes, ms"] == pytest.approx(12)  # 2 · 3/4 · 8 MB at 1 GB/s
    assert row["number, ms"] == pytest.approx(0.2)  # 5 reductions, 2 · log2(4) hops of 10 µs
    assert row["efficiency"] == pytest.approx(64 / 76.2)
    assert row["takes longest"] == "computing"
