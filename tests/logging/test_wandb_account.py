"""What W&B would refuse ends in one sentence, before anything is made: `python train.py` in processes of their own."""

import pytest
import wandb

from ganexp.facts import Misfit
from ganexp.logging.wandb_account import resolved_mode
from tests import forked

KEY = "a" * 40
pytestmark = pytest.mark.usefixtures("no_account")


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("WANDB_MODE", "nonsense", "mode"),
        ("WANDB_MODE", "online", "WANDB_MODE"),  # without an account
        ("WANDB_PROJECT", "a/b", "project"),
        ("WANDB_API_KEY", f"{KEY}\n{KEY}", "WANDB_API_KEY"),
        ("WANDB_BASE_URL", "nowhere", "base_url"),
        ("WANDB_SILENT", "perhaps", "silent"),
    ],
)
def test_a_variable_that_wandb_refuses_is_named(monkeypatch, name, value, named):
    monkeypatch.setenv(name, value)
    with pytest.raises(Misfit, match=rf"\A[^\n]*\b{named}\b[^\n]*\Z") as refused:
        resolved_mode("auto")
    assert KEY not in str(refused.value)
    assert resolved_mode("disabled") == "disabled"


def test_an_empty_variable_is_as_good_as_none(monkeypatch):
    for name in ("WANDB_MODE", "WANDB_PROJECT", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.setenv(name, "")
    assert resolved_mode("auto") == "offline"


def test_a_dead_process_of_a_parent_is_not_looked_for(monkeypatch):
    monkeypatch.setenv("WANDB_SERVICE", "3-1-unix-/nowhere")
    assert resolved_mode("auto") == "offline"


@pytest.mark.parametrize(
    ("asked", "variables", "host", "mode"),
    [
        ("auto", {}, "", "offline"),
        ("auto", {"WANDB_API_KEY": KEY}, "", "online"),
        ("auto", {"WANDB_API_KEY": KEY, "WANDB_MODE": "offline"}, "", "offline"),
        ("auto", {"WANDB_API_KEY": KEY, "WANDB_MODE": "dryrun"}, "", "offline"),  # an older name, as the next one
        ("auto", {"WANDB_API_KEY": KEY, "WANDB_MODE": "run"}, "", "online"),
        ("auto", {"WANDB_API_KEY": KEY, "WANDB_MODE": "disabled"}, "", "disabled"),
        ("auto", {"WANDB_API_KEY": KEY, "WANDB_BASE_URL": "http://127.0.0.1:9"}, "", "online"),  # nobody is asked
        ("auto", {"WANDB_BASE_URL": "https://w.example"}, "w.example", "online"),
        ("auto", {"WANDB_BASE_URL": "https://w.example"}, "other.example", "offline"),
        ("auto", {}, "api.wandb.ai", "online"),  # where older logins were kept
        ("online", {"WANDB_API_KEY": KEY, "WANDB_MODE": "offline"}, "", "online"),
        ("offline", {"WANDB_API_KEY": KEY}, "", "offline"),
    ],
)
def test_auto_is_online_with_an_account_unless_wandbs_variable_says_otherwise(
    asked, variables, host, mode, monkeypatch, tmp_path, capfd
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    if host:
        (tmp_path / "netrc").write_text(f"machine {host}\n  login user\n  password {KEY}\n")
    wandb.teardown()  # so that the environment is read again
    assert resolved_mode(asked) == mode
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [(["logger.wandb.mode=online"], {}, "mode=online"), (["-m", "seed=0,1"], {"WANDB_PROJECT": "a/b"}, "project")],
)
def test_nothing_is_made_before_the_sentence(arguments, variables, named, tmp_path):
    done = forked.train(*arguments, cwd=tmp_path, **variables)
    assert done.returncode == 1
    prepared = ("Preparing ", "Checking 2 jobs", "Jobs are still being checked")
    assert all(line.startswith(prepared) for line in done.stdout.splitlines())
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: logger.wandb ")
    assert named in line
    assert list(tmp_path.iterdir()) == []
