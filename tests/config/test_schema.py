"""The schema says the type of a key and what it changes, and conf/train.yaml its default and its meaning."""

from typing import Literal, get_origin

import pytest

from ganexp.cli.options import primary
from ganexp.config.parsing import check_type, parse
from ganexp.config.plain import dotted, plain
from ganexp.config.resume import contradictions
from ganexp.config.schema import GROUPS, Config, choices_of, effect_of, keys_of
from ganexp.facts import UserError
from tests.composing import CONF, composed


def test_every_key_stands_in_the_yaml_in_the_schemas_order_with_a_meaning_that_names_its_choices():
    ours = primary([CONF])
    declared = dict(keys_of())
    assert list(ours.keys) == [key for key in declared if key not in ours.groups]
    assert set(ours.meanings) == {*declared, *GROUPS, "experiment"}
    for key, field in declared.items():
        if get_origin(field.annotation) is Literal:
            assert choices_of(field) in ours.meanings[key], key


def test_what_a_plain_dictionary_leaves_out_has_the_default_of_the_yaml(monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_DATA", str(tmp_path))
    values = plain(composed())
    groups = {group: values[group] for group in GROUPS}
    assert parse(groups) == parse(values)
    assert parse(groups).data_root == str(tmp_path)
    some = parse(groups | {"evaluation": {"samples": 9}, "seed": 3})
    assert (some.evaluation.samples, some.evaluation.of, some.seed, some.batch_size) == (9, "average", 3, 32)
    del groups["dataset"]
    with pytest.raises(UserError, match=r"^dataset is missing"):
        parse(groups)


def test_choices_are_those_that_the_type_takes():
    declared = dict(keys_of())
    assert choices_of(declared["feed"]) == "auto, resident or streamed"
    assert choices_of(declared["cuda_graph"]) == "auto, true or false"
    assert choices_of(declared["batch_size"]) == ""


def test_what_a_key_changes():
    """Only what changes neither what is trained nor its rounding may be other when a run is resumed."""
    expected = {
        "records": {"iterations", "minutes", "log_every", "sample_every", "evaluate_every", "evaluation", "dynamics"}
        | {"checkpoint_every", "keep_checkpoints", "keep_best", "measure"}
        | {"on_divergence", "resume", "trust", "data_root", "logger", "sweep"},
        "speed": {"cuda_graph", "threads", "feed", "workers"},
        "machine": {"device"},
    }
    for effect, keys in expected.items():
        assert {name for name in Config.model_fields if effect_of(name) == effect} == keys
    assert effect_of("logger.wandb.name") == "records"
    assert effect_of("loss.gamma") == effect_of("what_nobody_knows") == "training"
    before = dict.fromkeys(Config.model_fields, 1)
    changed = dict.fromkeys(Config.model_fields, 2)
    assert set(contradictions(before, changed)) == set(Config.model_fields) - expected["records"] - expected["speed"]


def test_a_key_that_is_missing_has_its_default():
    """As in configurations from before the key existed, and in those of library users who leave it out."""
    whole = plain(composed())
    before = {key: value for key, value in whole.items() if key not in ("freeze_d", "iterations")}
    assert not contradictions(before, whole)
    assert contradictions(before, {**whole, "freeze_d": 1}) == ["freeze_d"]


def test_the_order_of_a_list_tells_runs_apart():
    both = [plain(composed(f"wrapper={names}")) for names in ("[lookahead,topk]", "[topk,lookahead]")]
    assert contradictions(*both) == ["wrapper"]
    assert dotted(both[0])["wrapper"] == "[lookahead,topk]"
    assert dotted({"wrapper": "nothing that is known", "seed": 1}) == {"wrapper": "nothing that is known", "seed": 1}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), [0.5, float("-inf")]])
def test_floats_are_finite(value):
    with pytest.raises(UserError, match=r"^x needs a finite number; got "):
        check_type("x", value, list[float] if isinstance(value, list) else float)


def test_a_whole_number_is_an_integer_however_it_is_written():
    config = parse(plain(composed("iterations=1e4", "evaluation.samples=2e3", "clip_gradients=1.0")))
    assert (config.iterations, config.evaluation.samples) == (10_000, 2000)
    assert (type(config.iterations), type(config.clip_gradients)) == (int, float)
    with pytest.raises(UserError, match=r"^iterations needs an integer; got 0\.5\.$"):
        parse(plain(composed("iterations=5e-1")))


def test_what_json_cannot_hold_is_refused_in_a_sentence():
    values, deep = plain(composed()), 0.5
    for _ in range(250):
        deep = {"r1": deep}
    with pytest.raises(UserError, match=r"^data_root needs text in UTF-8; got /a/"):
        parse(values | {"data_root": "/a/\udcff"})  # as Python reads a path whose bytes are no UTF-8
    with pytest.raises(UserError, match=r"^The configuration should hold plain values only: "):
        parse(values | {"moving": deep})


def test_an_annotation_that_says_nothing_of_plain_values_is_let_through():
    class Anything:
        pass

    check_type("x", 3, Anything)
