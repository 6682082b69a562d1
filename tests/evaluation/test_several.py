"""Several features: the same figures as each by itself, under keys that tell them apart, from samples that are made once."""

import json

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.config.schema import FEATURE_NAMES, files_among
from ganexp.evaluation import Evaluator, Raw
from ganexp.evaluation.features import PUBLISHED
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.training.callbacks import Evaluation
from tests.composing import composed, measures
from tests.small_runs import assert_same


class Doubled(Raw):
    """Twice the samples, and as many classes."""

    name, classes = "doubled", 2

    def __call__(self, samples):
        return 2 * samples, samples


def points(seed, n=240):
    return torch.randn(n, 2, generator=torch.Generator().manual_seed(seed))


def both(chosen, features, samples=120):
    evaluator = Evaluator(chosen, features, samples=samples)
    evaluator.see_reals(lambda: points(0).split(50), 240)
    return evaluator


def test_figures_are_those_of_each_by_itself_and_the_first_have_the_usual_keys():
    chosen, features = measures("sliced_wasserstein", "fid", "kid", "inception_score"), {"raw": Raw((2,)), "two": Doubled((2,))}
    evaluator, drawn = both(chosen, features), []
    batches = (drawn.append(1) or part for part in points(1, 120).split(30))
    found = evaluator(batches)
    assert len(drawn) == 4
    expected = {}
    for suffix, seen, names in (("", Raw((2,)), ("sliced_wasserstein", "fid", "kid")), ("/two", Doubled((2,)), ("fid", "kid"))):
        alone = Evaluator(measures(*names), seen, samples=120)
        alone.see_reals(points(0).split(50), 240)
        expected |= {key + suffix: figure for key, figure in alone(points(1, 120).split(30)).items()}
    score = Evaluator(measures("inception_score"), Doubled((2,)), samples=120)
    assert found == {**expected, **score(points(1, 120).split(30))}
    assert {*found} == {*evaluator.keys}
    assert {key: said.basis.partition(",")[0] for key, said in evaluator.keys.items() if "fid" in key} == {
        "eval/fid": "features: raw",
        "eval/fid/two": "features: doubled",
    }
    assert evaluator.keys["eval/inception_score"].basis.startswith("features: doubled")
    assert {*both(measures("fid"), {"two": Doubled((2,))}).keys} == {"eval/fid"}


def test_a_figure_that_no_key_declares_is_named(monkeypatch):
    chosen = measures("sliced_wasserstein")
    (measure,) = chosen.values()
    monkeypatch.setattr(type(measure), "__call__", lambda *_: {"eval/other": 1.0})
    with pytest.raises(UserError, match=r"^SlicedWasserstein\w* returned eval/other, without"):
        both(chosen, {"raw": Raw((2,))})(points(1, 120).split(30))


def test_each_has_statistics_of_its_own_in_the_cache(tmp_path):
    def seen(features, *, fresh):
        evaluator = Evaluator(measures("kid"), features, samples=120)
        evaluator.see_reals(
            lambda: (part if fresh else pytest.fail("seen again") for part in points(0).split(50)),
            240,
            folder=tmp_path,
            identity="these",
        )
        return evaluator(points(1, 120).split(30))

    found = seen({"raw": Raw((2,)), "two": Doubled((2,))}, fresh=True)
    assert len([*tmp_path.iterdir()]) == 2
    assert seen({"two": Doubled((2,)), "raw": Raw((2,))}, fresh=False) == {
        "eval/kid": found["eval/kid/two"],
        "eval/kid/raw": found["eval/kid"],
    }


def test_features_and_measures_that_do_not_go_together_are_refused():
    features = {"raw": Raw((2,)), "two": Doubled((2,))}
    with pytest.raises(UserError, match=r"^cmmd: it is of CLIP"):
        Evaluator(measures("fid", "cmmd"), features, samples=120)
    with pytest.raises(UserError, match=r"^none of the measures has a meaning in the features raw$"):
        Evaluator(measures("inception_score"), features, samples=120)


RUN = (
    *("device=cpu", "iterations=4", "log_every=2", "sample_every=0", "logger=[]", "batch_size=4", "evaluate_every=2"),
    *("generator=mlp", "discriminator=mlp", "generator.width=4", "discriminator.width=4", "evaluation.samples=12"),
    *("dataset=fake", "dataset.image_size=8", "dataset.channels=1", "dataset.n=24"),
)
SEVERAL = ("measure=[kid,cmmd]", "evaluation.features=[raw,dinov2_vits14,clip_vitb32]")


def test_a_run_is_measured_in_several_features_and_is_the_same_to_the_last_bit(stored, tmp_path, monkeypatch):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    plain = build(composed(*RUN, "evaluate_every=0"))
    plain.fit()
    words = (*RUN, *SEVERAL, f"evaluation.feature_weights={stored}", "evaluate_every=4", "keep_best=eval/kid/clip_vitb32")
    trainer = build(composed(*words), tmp_path / "run")
    trainer.fit()
    assert_same(plain.gan.state_dict(), trainer.gan.state_dict())
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    keys = {"eval/kid", "eval/kid/dinov2_vits14", "eval/kid/clip_vitb32", "eval/cmmd"}
    assert {key for key in rows[-1] if key.startswith("eval/")} == keys
    assert (tmp_path / "run" / "checkpoints" / "best.pt").exists()
    said = reading.read(tmp_path / "run").measures
    assert "dinov2_vits14 (class token after the last norm) " in said["eval/kid/dinov2_vits14"].basis
    assert said["eval/cmmd"].basis.startswith("features: clip_vitb32 (projected image embedding) ")
    assert said["eval/cmmd"].basis.endswith(", sigma 10.0, max_samples 10000, 12 samples")


def test_the_names_of_features_are_those_of_the_networks():
    assert ("auto", "classifier", "inception", "raw", *PUBLISHED) == FEATURE_NAMES


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["evaluation.features=[raw,dinov2]"], r"^evaluation\.features=dinov2 is unknown: choose from .*clip_vitb32"),
        (["measure=[kid,cmmd]", "evaluation.features=classifier"], r"^measure\.cmmd has no meaning .*: .*clip_vitb32"),
        (
            ["evaluation.features=[./a/net.pt2,./b/net.pt2]"],
            r"^evaluation\.features=\./a/net\.pt2,\./b/net\.pt2 would both be logged as net",
        ),
        (["evaluation.features=[]"], r"^evaluation\.features must be a name, a file, or a list of them"),
        (["evaluation.features=clip_vitb32", "measure=[kid]"], r"clip_vitb32 needs the file ViT-B-32\.pt, which is not in "),
        (
            ["keep_best=eval/fid/raw", "measure=[kid]", "evaluation.features=raw"],
            r"measure=\[fid\] evaluation\.features=\[…,raw\]",
        ),
    ],
    ids=["unknown", "others", "one name", "none", "missing", "not measured"],
)
def test_features_that_cannot_be_had_are_refused_before_anything_is_written(words, said, tmp_path):
    with pytest.raises(UserError, match=said):
        build(
            composed(*RUN, "measure=[kid]", f"evaluation.feature_weights={tmp_path}", *words), tmp_path / "run", trust="tests"
        )
    assert not (tmp_path / "run").exists()


def test_what_goes_wrong_in_a_network_is_a_sentence_and_the_training_goes_on(stored, monkeypatch, caplog):
    trainer = build(composed(*RUN, *SEVERAL, f"evaluation.feature_weights={stored}"))
    (callback,) = (one for one in trainer.callbacks if isinstance(one, Evaluation))
    network = callback.evaluator.each["clip_vitb32"].features

    def full(samples):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB\nand more")

    monkeypatch.setattr(network, "forward", full)
    trainer.fit()
    assert trainer.last_row["progress/iteration"] == 4
    assert caplog.text.count("No evaluation at iteration 2: CUDA out of memory. Tried to allocate 2 GiB.\n") == 1


def test_a_file_is_code_and_a_name_is_not():
    config = check(
        composed(*RUN, "measure=[sliced_wasserstein]", "evaluation.features=[raw,./some/net.pt2,dinov2_vitl14]"), trust="tests"
    ).config
    assert files_among(config.evaluation.features) == ["./some/net.pt2"]
