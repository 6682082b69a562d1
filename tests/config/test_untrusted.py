"""What a configuration from anyone may say: taken over, set right or refused in one sentence, and cheap to ask."""

import subprocess
import sys

import pytest

from ganexp.config.defaults import defaults
from ganexp.config.plain import plain
from ganexp.config.untrusted import checked
from ganexp.facts import UserError
from tests.composing import composed

HOSTILE = {
    "evaluation.features": ["evil.pt2", "./evil.pt", ["auto", "evil.pt"], [["evil.pt"]], {"a": "evil.pt"}],
    "evaluation.protocol": ["${oc.env:HOME}"],
    "dataset.path": ["${oc.env:HOME}", "a \\${oc.env:HOME} b"],
    "moving": [{"${oc.env:HOME}": 1}],
    "loss.base": [{"a": [1, ["${oc.env:HOME}"]]}],
    "logger.wandb.directory": ["/elsewhere", "", "~"],
    "logger.mine": [{"_target_": "ganexp.logging.TensorBoardLogger", "directory": "elsewhere"}],
    "logger.wandb": [{"_target_": "ganexp.logging.TensorBoardLogger", "directory": "elsewhere"}],
}
CASES = [(key, value) for key, values in HOSTILE.items() for value in values]


def with_value(key, value):
    values = plain(composed())
    *above, last = key.split(".")
    node = values
    for one in above:
        node = node.setdefault(one, {})
    node[last] = value
    return values


@pytest.mark.parametrize(("key", "value"), CASES)
def test_what_only_its_owner_may_say_is_refused_unless_it_was_typed_or_all_is_trusted(key, value):
    values = with_value(key, value)
    with pytest.raises(UserError, match=rf"\Aresume=x: the recorded setting {key.partition('.')[0]}\.\S+=[^\n]* could "):
        checked(values, "resume=x")
    with pytest.raises(UserError):
        checked(values, "resume=x", trust=["mine"], typed=[f"{key}x", "penalty"])
    for typed in (key, key.partition(".")[0]):
        assert checked(values, "resume=x", typed=[typed])[key.partition(".")[0]] == values[key.partition(".")[0]]
    assert checked(values, "resume=x", trust=None) == values


def test_what_a_run_leaves_is_taken_over(monkeypatch):
    words = ["logger=[wandb,tensorboard]", "logger.wandb.tags=[a,b]", "dataset=mnist", "penalty=[r1]", "trust=[mine]"]
    values = plain(composed(*words, "evaluation.features=[classifier,raw]", "loss._target_=mine.Loss"))
    values["logger"]["wandb"] |= {"notes": "a $ {b}", "mode": "offline"}
    assert checked(values, "x", trust=["mine"]) == values
    assert checked(values, "x", trust="mine") == values | {"trust": "mine"}


def test_where_this_machine_writes_and_whom_its_user_trusts_is_not_said_by_a_file():
    values = plain(composed("dataset=mnist", "data_root=/theirs"))
    values |= {"trust": ["os"], "resume": "/theirs", "sweep": values["sweep"] | {"resume": "/theirs", "metric": "loss/d"}}
    own = defaults()["data_root"]
    found = checked(values, "x")
    assert (found["data_root"], found["dataset"]["root"], found["trust"], found["resume"]) == (own, own, [], None)
    assert found["sweep"] == values["sweep"] | {"resume": None}
    found = checked(values | {"data_root": "/mine"}, "x", typed=["data_root"])
    assert (found["data_root"], found["dataset"]["root"]) == ("/mine", "/mine")
    found = checked(values, "x", typed=["dataset.root"])
    assert (found["data_root"], found["dataset"]["root"]) == (own, "/theirs")


def circle():
    values = {}
    values["loss"] = values
    return values


def deep(levels):
    values = {}
    for _ in range(levels):
        values = {"loss": values}
    return values


@pytest.mark.parametrize("values", [{"loss": object()}, {(1, 2): 3}, circle(), deep(40), deep(100_000), {"a": {1, 2}}])
def test_what_is_no_configuration_is_one_sentence(values):
    with pytest.raises(UserError, match=r"\Ax: [^\n]+\Z"):
        checked(values, "x")


@pytest.mark.parametrize("values", [{}, {"dataset": 3, "evaluation": 3, "logger": 3, "sweep": 3}, {"dataset": {"root": []}}])
def test_what_is_broken_is_left_to_the_parser(values):
    assert checked(values, "x").items() >= {key: value for key, value in values.items() if key != "dataset"}.items()


def test_the_shell_can_ask_before_torch_is_imported():
    code = "import sys, ganexp.config.untrusted as one; one.checked({}, ''); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
