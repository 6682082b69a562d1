"""What W&B would refuse ends in one sentence, before anything is made: `python train.py` in processes of their own."""

import pytest
import wandb

from ganexp.logging.wandb_account import WandbError, resolved_mode
from tests import forked

KEY = "a" * 40
pytestmark = pytest.mark.usefixtures("no_account")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("WANDB_MODE", "nonsense", "WANDB_MODE should be online, offline or disabled, not nonsense: "),
        ("WANDB_MODE", "online", "WANDB_MODE=online needs a login: run wandb login"),
        ("WANDB_PROJECT", "a/b", "WANDB_PROJECT='a/b' is not accepted by W&B"),
        ("WANDB_API_KEY", f"{KEY}\n{KEY}", "WANDB_API_KEY should be at least 40 letters"),
        ("WANDB_BASE_URL", "nowhere", "WANDB_BASE_URL='nowhere' is not accepted by W&B (Input should be a valid URL"),
        ("WANDB_SILENT", "perhaps", "WANDB_SILENT='perhaps' is not accepted by W&B"),
    ],
)
def test_a_variable_that_wandb_refuses_is_named(monkeypatch, name, value, said):
    monkeypatch.setenv(name, value)
    with pytest.raises(WandbError, match=name) as refused:
        resolved_mode("auto")
    sentence = str(refused.value)
    assert sentence.startswith(said)
    assert len(sentence.splitlines()) == 1
    assert KEY not in sentence
    assert resolved_mode("disabled") == "disabled"


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, "")
    assert resolved_mode("auto") == "offline"


@pytest.mark.parametrize(
    ("variables", "host", "mode"),
    [
        ({}, "", "offline"),
        ({"WANDB_API_KEY": KEY}, "", "online"),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "offline"}, "", "offline"),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "dryrun"}, "", "offline"),  # an older name, as the next one
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "run"}, "", "online"),
        ({"WANDB_API_KEY": KEY, "WANDB_MODE": "disabled"}, "", "disabled"),
        ({"WANDB_BASE_URL": "https://w.example"}, "api.wandb.ai", "online"),
        ({"WANDB_BASE_URL": "https://w.example"}, "w.example", "online"),
    ],
)
def test_auto_is_online_with_an_account_unless_wandbs_variable_says_otherwise(variables, host, mode, monkeypatch, tmp_path):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if host:
        (tmp_path / "netrc").write_text(f"machine {host}\n  login user\n  password {KEY}\n")
    wandb.teardown()  # so that the environment is read again
    assert resolved_mode("auto") == mode


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        (["logger.wandb.mode=online"], {}, "logger.wandb cannot begin a run: mode=online needs a login"),
        (["-m", "seed=0,1"], {"WANDB_PROJECT": "a/b"}, "logger.wandb cannot begin a run: WANDB_PROJECT='a/b' is not accepted"),
    ],
)
def test_nothing_is_made_before_the_sentence(arguments, variables, said, tmp_path):
    done = forked.train(*arguments, cwd=tmp_path, **variables)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith(f"Error: {said}")
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
