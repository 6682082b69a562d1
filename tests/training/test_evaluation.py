"""Evaluation watches: it moves nothing, comes when it is due, and a best checkpoint is by its figures."""

import json
import math
import sys
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.cli.ending import epilogue
from ganexp.config.check import check
from ganexp.config.metrics import high_is_best
from ganexp.evaluation import Measure, high
from ganexp.evaluation.statistics import FirstFeatures
from ganexp.facts import Misfit, UserError
from ganexp.logging import reading
from ganexp.prior import Prior
from ganexp.training.callbacks import Evaluation
from ganexp.training.callbacks.evaluation import standing
from tests.composing import composed, measures
from tests.small_runs import Rows, assert_same

SMALL = ("device=cpu", "iterations=6", "log_every=4", "sample_every=0", "logger=[]", "batch_size=8")
RING = ("experiment=ring", *SMALL, "dataset.n=500", "generator.width=8", "discriminator.width=8", "evaluation.samples=300")
EVERY = ("evaluate_every=4", "measure=[sliced_wasserstein,modes,density_coverage]")


def state_after(*overrides):
    trainer = build(composed(*overrides))
    trainer.fit()
    return trainer.gan.state_dict(), trainer


def test_standing_statistics_are_means_over_batches_and_the_generator_stays_as_it_was():
    norm = torch.nn.BatchNorm1d(2).double()
    generator = torch.nn.Sequential(torch.nn.Linear(3, 2), norm).double().eval()
    prior, before = Prior(3, dtype=torch.float64), {k: v.clone() for k, v in generator.state_dict().items()}
    with torch.no_grad():
        copied = standing(generator, prior, 3)
        batches = [generator[0](z.values).numpy() for z in prior.standing(750).split(250)]
    assert_same(before, dict(generator.state_dict()))
    np.testing.assert_allclose(copied[1].running_mean, np.mean([batch.mean(0) for batch in batches], 0), rtol=1e-12)
    np.testing.assert_allclose(copied[1].running_var, np.mean([batch.var(0, ddof=1) for batch in batches], 0), rtol=1e-12)
    assert not copied.training
    assert standing(generator, prior, 0) is generator
    assert standing(generator[0], prior, 3) is generator[0]


@pytest.mark.filterwarnings("ignore:.*weight_norm. is deprecated:FutureWarning")
def test_standing_statistics_are_those_of_a_network_whose_weights_a_hook_computes_too():
    generator = torch.nn.Sequential(torch.nn.utils.weight_norm(torch.nn.Linear(3, 2)), torch.nn.BatchNorm1d(2))
    generator(torch.randn(4, 3))  # as in training, with a graph of the weights
    prior = Prior(3)
    with torch.no_grad():
        copied = standing(generator.eval(), prior, 1)
        torch.testing.assert_close(copied[1].running_mean, generator[0](prior.standing(250).values).mean(0))


def test_a_run_can_be_evaluated_with_them():
    settings = ("generator=dcgan", "generator.width=2", "discriminator.width=2", "dataset.image_size=16", *SMALL)
    asked = ("evaluate_every=6", "evaluation.samples=50", "measure=[kid]", "evaluation.features=raw")
    plain, first = state_after(*settings, *asked)
    watched, second = state_after(*settings, *asked, "evaluation.standing=2")
    assert_same(plain, watched)
    assert first.last_row["eval/kid"] != second.last_row["eval/kid"]


def test_a_run_that_is_evaluated_is_the_same_to_the_last_bit():
    unwatched, _ = state_after(*RING, "conditional=true")
    watched, trainer = state_after(*RING, *EVERY, "conditional=true", "evaluation.of=generator")
    assert_same(unwatched, watched)
    assert trainer.last_row["eval/modes"] >= 0


def test_samples_are_of_the_same_latents_under_labels_as_frequent_as_in_the_data():
    prior = Prior(3, seed=1, frequencies=[1, 3])
    first, z, again = prior.measured(4000), prior.sample(4000), prior.measured(4000)
    assert torch.equal(first.values, again.values)
    assert torch.equal(first.conditions[0], again.conditions[0])
    assert first.conditions[0].double().mean() == pytest.approx(0.75, abs=0.03)
    assert not torch.equal(first.values, z.values)
    assert not torch.equal(first.values, prior.fixed(4000).values)


def test_rows_have_figures_when_due_and_at_the_end_and_say_by_what(tmp_path):
    trainer = build(composed(*RING, *EVERY, "keep_best=eval/coverage", "checkpoint_every=0"), tmp_path)
    trainer.fit()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    figures = [(row["progress/iteration"], row["eval/coverage"]) for row in rows if "eval/coverage" in row]
    assert [iteration for iteration, _ in figures] == [4, 6]
    best = torch.load(tmp_path / "checkpoints" / "best.pt", weights_only=True)
    iteration, highest = max(figures, key=lambda figure: (figure[1], -figure[0]))
    assert best["run"]["iteration"] == iteration
    assert best["run"]["checkpoints"]["lowest"] == -highest
    measure = reading.read(tmp_path).measures["eval/coverage"]
    assert (measure.summary, measure.best) == ("last,max", "highest")
    assert measure.basis == "features: raw, neighbours 5, max_samples 10000, 300 samples"
    assert "features: raw" in measure.meaning


def test_a_run_says_its_figures_and_which_iteration_was_best(tmp_path, caplog):
    caplog.set_level("INFO", "ganexp.logging.progress")
    settings = (*RING, *EVERY, "keep_best=eval/coverage", "checkpoint_every=0")
    summary = build(composed(*settings), tmp_path).fit()
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    evaluated = {row["progress/iteration"]: row for row in rows if "eval/coverage" in row}
    for iteration, row in evaluated.items():
        (line,) = (record.getMessage() for record in caplog.records if record.getMessage().startswith(f"{iteration}/6  sliced"))
        assert f"modes {row['eval/modes']:.4g} (real 8)" in line
        assert f"coverage {row['eval/coverage']:.4g} (real 0." in line
    best, *figures = summary["notes"]
    highest = max(row["eval/coverage"] for row in evaluated.values())
    first = next(iteration for iteration, row in evaluated.items() if row["eval/coverage"] == highest)
    assert best == f"Best eval/coverage: {highest:.4g}, at iteration {first}, in {tmp_path / 'checkpoints' / 'best.pt'}."
    assert [note.partition(":")[0] for note in figures] == ["Evaluated at iteration 6, 300 samples"]  # what all share
    assert epilogue(summary).splitlines()[1:3] == summary["notes"]
    assert json.loads((tmp_path / "summary.json").read_text())["notes"] == summary["notes"]


@pytest.mark.parametrize("experiment", ["ring", "grid"])
def test_presets_of_points_count_their_modes_at_the_end(experiment):
    cfg = composed(f"experiment={experiment}", *SMALL, "generator.width=8", "discriminator.width=8", "dataset.n=20000")
    trainer = build(cfg)
    (note,) = trainer.fit()["notes"]
    modes = 25 if experiment == "grid" else 8
    assert note.startswith("Evaluated at iteration 6, a radius of 3 standard deviations per mode, 2,500 samples: modes ")
    assert f"modes {trainer.last_row['eval/modes']:.4g} (real {modes})" in note


def test_samples_that_are_not_finite_get_a_sentence_and_no_number(caplog):
    trainer = build(composed(*RING, *EVERY))
    logger = Rows()
    trainer.log_to([logger])
    with torch.no_grad():
        next(trainer.step.average.generator.parameters()).fill_(math.nan)
    (callback,) = (callback for callback in trainer.callbacks if isinstance(callback, Evaluation))
    assert callback(trainer) == {}
    assert "No evaluation at iteration 0: the generated samples are not finite." in caplog.text


def test_features_that_were_missing_are_found_once_they_are_there(tmp_path):
    """In one process, as in a notebook: the same configuration was checked before."""
    file = tmp_path / "net.pt2"
    cfg = composed(*SMALL, "dataset=digits", "evaluate_every=4", "measure=[density_coverage]", f"evaluation.features={file}")
    assert len(check(cfg).missing) == 1
    file.touch()
    assert not check(cfg).missing


def test_features_that_are_not_there_are_named_together_with_a_package_that_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    sentence = r"^evaluation\.features=none\.pt2 needs the file none\.pt2, which does not exist: choose .*torch-fidelity\.$"
    with pytest.raises(UserError, match=sentence):
        build(composed(*SMALL, "dataset=digits", "evaluate_every=4", "evaluation.features=none.pt2"))
    with pytest.raises(
        UserError,
        match=r"fake\.pt, which does not exist: a classifier needs images of two classes or more, so choose inception, raw",
    ):
        build(composed(*SMALL, "dataset=fake", "evaluate_every=9", "evaluation.features=classifier"))


@pytest.mark.parametrize(("n", "left_out"), [(5, {"fid", "density_coverage"}), (16, {"fid"}), (17, {})])
def test_what_auto_chose_is_left_out_where_there_are_too_few_images(n, left_out, caplog):
    few = (*SMALL, "dataset=fake", "dataset.image_size=4", "dataset.channels=1", "generator=mlp", "discriminator=mlp")
    few += ("evaluate_every=4", "evaluation.samples=100", "evaluation.features=raw")
    trainer = build(composed(*few, f"dataset.n={n}"))
    trainer.fit()
    sentences = [record.getMessage() for record in caplog.records if "not measured" in record.getMessage()]
    assert len(sentences) == len(left_out)
    assert all(any(f" {name}: " in sentence for sentence in sentences) for name in left_out)
    keys = {
        key
        for name, measure in measures("fid", "kid", "precision_recall", "density_coverage").items()
        for key in measure.keys
        if name not in left_out
    }
    assert {key for key in trainer.last_row if key.startswith("eval/")} == keys
    for needed in ("measure=[fid]", "keep_best=eval/fid", "sweep.metric=eval/fid"):
        with pytest.raises(UserError, match=r"^evaluation: fid: it needs at least 17 real samples"):
            build(composed(*few, "dataset.n=5", needed))


def test_too_few_samples_are_refused_before_anything_is_read():
    few = (*SMALL, "dataset=digits", "dataset.image_size=8", "generator=mlp", "discriminator=mlp", "evaluate_every=4")
    for features, size in {"classifier": 64, "raw": 64, "inception": 2048, "dinov2_vits14": 384, "clip_vitl14": 768}.items():
        asked = composed(*few, f"evaluation.features={features}", "measure=[fid]", f"evaluation.samples={size}")
        with pytest.raises(UserError, match=rf"^evaluation: fid: it needs at least {size + 1:,} generated samples"):
            check(asked)
        check(composed(*few, f"evaluation.features={features}", "measure=[fid]", f"evaluation.samples={size + 1}"))


def test_too_few_images_are_refused_before_training():
    settings = ("evaluate_every=4", "measure=[precision_recall]", "evaluation.samples=3")
    with pytest.raises(
        UserError, match=r"^evaluation: precision_recall: it needs at least 4 generated samples, and there are 3\.$"
    ):
        build(composed(*RING, *settings))
    with pytest.raises(UserError, match=r"needs at least 4 real samples, and there are 3\.$"):
        build(composed(*RING, "dataset.n=3", *settings[:2]))


def test_the_best_so_far_is_forgotten_where_it_was_measured_otherwise(tmp_path):
    settings = (*RING, *EVERY, "keep_best=eval/sliced_wasserstein")
    build(composed(*settings), tmp_path).fit()
    last = tmp_path / "checkpoints" / "last.pt"
    same_way = build(composed(*settings, "iterations=8"), checkpoint=last)
    otherwise = build(composed(*settings, "iterations=8", "evaluation.samples=200"), checkpoint=last)
    assert math.isfinite(same_way.checkpoints.lowest)
    assert otherwise.checkpoints.lowest == math.inf
    by_others = build(composed(*settings, "iterations=8", "measure.density_coverage.neighbours=4"), checkpoint=last)
    assert by_others.checkpoints.lowest == math.inf


def test_figures_say_which_of_their_values_is_best():
    keys = ("eval/fid", "eval/recall", "loss/d", "speed/images_per_s")
    cfg = composed("loss=hinge", "measure=[]")
    assert [high_is_best("keep_best", key, cfg) for key in keys] == [False, True, False, True]


@pytest.mark.parametrize("key", ["keep_best", "sweep.metric"])
def test_a_key_that_is_best_at_neither_end_is_refused(key):
    with pytest.raises(UserError, match=f"^{key}=diversity/relative does not say whether its lowest or its highest value is"):
        high_is_best(key, "diversity/relative", composed("loss=hinge", "measure=[]"))


class Farthest(Measure[FirstFeatures]):
    """A measure from outside, of which the highest figure is best."""

    keys: ClassVar = {"eval/farthest": high("largest norm of a sample")}
    keeps = FirstFeatures

    def check(self, run):
        if len(run.shape) == 3:
            raise Misfit("is for points", dataset="grid")

    def __call__(self, real, fake):
        return {"eval/farthest": float(fake.rows.norm(dim=1).max())}


FARTHEST = f"+measure.farthest._target_={__name__}.Farthest"
OWN = (*RING, "evaluate_every=6", "measure=[modes]", FARTHEST, "keep_best=eval/farthest")


def test_a_measure_from_elsewhere_is_measured_and_its_best_is_kept():
    trainer = build(composed(*OWN), trust="tests")
    trainer.fit()
    assert trainer.last_row["eval/farthest"] > 0
    assert trainer.checkpoints.lowest == -trainer.last_row["eval/farthest"]


@pytest.mark.parametrize(
    ("overrides", "trust", "sentence"),
    [
        (OWN, (), r"^measure\.farthest\._target_=.*trust=tests"),
        (
            (*SMALL, "evaluate_every=6", "measure=[]", FARTHEST),
            "tests",
            r"^measure\.farthest is for points: choose dataset=grid",
        ),
        ((*SMALL, "+measure.a._target_=ganexp.losses.Hinge"), (), r"^measure\.a\._target_="),
    ],
    ids=["not trusted", "misfit", "no measure"],
)
def test_a_measure_from_elsewhere_that_cannot_be_had_is_refused(overrides, trust, sentence):
    with pytest.raises(UserError, match=sentence):
        check(composed(*overrides), trust=trust)


def test_the_share_of_evaluations_is_foreseen_with_the_interval_that_makes_it_a_tenth(caplog):
    caplog.set_level("INFO")
    callback = Evaluation(500, None, samples=10_000)
    callback._report_share(SimpleNamespace(trained_s=20.0), 10.0)  # ten seconds of training, and ten of evaluation
    assert "10,000 samples takes 10 s, every 500 iterations: 50 % of the time: evaluate_every=4500" in caplog.text
    caplog.clear()
    callback._report_share(SimpleNamespace(trained_s=100.0), 10.0)
    assert "10 % of the time." in caplog.text
