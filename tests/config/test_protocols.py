"""Protocols of publications: what they set, and that what is typed wins."""

import re

import pytest

import tables
from ganexp.config.choices import chosen_of
from ganexp.config.evaluation import comparison_of
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.data import Digits
from ganexp.facts import Facts
from tests.composing import composed, options

NAMES = options("evaluation.protocol")
DIGITS = Facts(dataset=Digits(), shape=(1, 32, 32), conditional=True, classes=10)


def chosen(*overrides):
    """Return a configuration, and the settings of its measures by name."""
    config = parse(plain(composed("evaluate_every=1", *overrides)))
    measures = comparison_of(chosen_of(config, "measure"), config, DIGITS).measures
    return config.evaluation, {name: measure.settings for name, measure in measures.items()}


def test_a_run_follows_no_protocol_unless_one_is_named():
    evaluation, _ = chosen()
    assert (evaluation.protocol, evaluation.samples, evaluation.features) == (None, 10_000, "auto")


@pytest.mark.parametrize("name", NAMES)
def test_a_protocol_takes_50000_samples_against_the_training_data(name):
    evaluation, measures = chosen(f"evaluation.protocol={name}")
    assert (evaluation.protocol, evaluation.samples, evaluation.against) == (name, 50_000, "train")
    assert all("max_samples 50000" in settings for settings in measures.values() if "max_samples" in settings)


def test_mimicry_and_studiogan_differ_in_splits_and_neighbours():
    """Ten splits, and ten subsets of a tenth of the samples; one split, and the fifth neighbour."""
    assert chosen("evaluation.protocol=mimicry")[1] == {
        "inception_score": "splits 10, max_samples 50000",
        "fid": "",
        "kid": "subsets 10, subset_size 5000, max_samples 50000",
    }
    assert chosen("evaluation.protocol=studiogan")[1] == {
        "inception_score": "splits 1, max_samples 50000",
        "fid": "",
        "precision_recall": "neighbours 5, max_samples 50000",
        "density_coverage": "neighbours 5, max_samples 50000",
    }


@pytest.mark.parametrize("first", [True, False])
def test_what_is_typed_wins_wherever_it_stands(first):
    typed = ("evaluation.samples=30000", "evaluation.features=raw", "measure.kid.subsets=7")
    protocol = ("evaluation.protocol=mimicry",)
    evaluation, measures = chosen(*(protocol + typed if first else typed + protocol))
    assert (evaluation.samples, evaluation.features, evaluation.against) == (30000, "raw", "train")
    assert measures["kid"] == "subsets 7, subset_size 5000, max_samples 50000"


@pytest.mark.parametrize(
    ("typed", "names"),
    [("[fid]", ["fid"]), ("[kid,cas]", ["kid", "cas"]), ("auto", ["fid", "kid", "precision_recall", "density_coverage"])],
)
def test_typed_measures_replace_those_of_a_protocol(typed, names):
    evaluation, measures = chosen("evaluation.protocol=studiogan", f"measure={typed}")
    assert [*measures] == names
    assert evaluation.samples == 50_000


def test_every_protocol_says_what_its_figures_compare_with_and_where_that_was_read():
    _, *columns = zip(*tables.protocols(), strict=True)
    assert [column[0] for column in columns] == [f"`{name}`" for name in NAMES]
    for _, _, _, comparable, apart, source in columns:
        assert len(comparable) > 20 < len(apart)
        assert re.search(r"\]\(https://github\.com/\w+", source)
