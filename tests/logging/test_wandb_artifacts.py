"""Checkpoints as artifacts: what they hold, and that a run which is resumed from one elsewhere is the uninterrupted one."""

import json

import pytest
import torch
import wandb

from ganexp import build
from ganexp.cli.resuming import expand_resume
from ganexp.config.schema import ConfigError
from ganexp.facts import Misfit
from ganexp.logging.wandb_artifacts import artifact_of, fetched
from tests.composing import composed
from tests.logging.records import records
from tests.logging.stand_in import serving
from tests.processes import train
from tests.small_runs import SMALL, assert_same, rows, trained

HELD = ["command.json", "config.json", "measures.json", "metrics.jsonl", "wandb_id"]


@pytest.fixture(autouse=True)
def _own_places(no_account, monkeypatch, tmp_path):
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))  # where W&B lays copies of what it has not sent yet
    monkeypatch.setenv("WANDB_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.slow
def test_a_run_resumed_from_an_artifact_on_another_machine_is_the_uninterrupted_one(tmp_path):
    typed = [one for one in SMALL if one != "logger=[]"]
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    with serving() as server:
        account = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "a" * 40}
        done = train(*typed, "logger.wandb.artifacts=last", "iterations=3", cwd=here, **account)
        assert done.returncode == 0, done.stderr
        assert f"W&B        {server.url}" in done.stdout
        (version,) = server.artifacts.versions
        assert {*version["aliases"]} == {"last", "latest"}
        done = train(f"resume=wandb://someone/ganexp/{version['name']}:latest", "iterations=7", cwd=there, **account)
        assert done.returncode == 0, done.stderr
        assert len(server.artifacts.versions) == 2
    folder = there / "outputs" / f"{version['name']}-v0"
    assert [row["progress/iteration"] for row in rows(folder)] == [0, 3, 4, 7]
    whole = trained(tmp_path / "whole", SMALL, 7)
    assert_same(torch.load(folder / "checkpoints" / "last.pt")["run"]["gan"], whole.gan.state_dict())


def test_offline_the_checkpoint_is_kept_in_the_record_that_is_uploaded_later(tmp_path):
    folder = tmp_path / "run"
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}"]
    build(composed(*SMALL, *choices, "logger.wandb.artifacts=last", "iterations=3"), folder).fit()
    (record,) = records(tmp_path)[0]["artifact"]
    assert (record["type"], record["name"]) == ("checkpoint", f"checkpoint-{(folder / 'wandb_id').read_text().strip()}")
    files = {one["path"]: one for one in record["manifest"]["contents"]}
    assert sorted(files) == ["checkpoints/last.pt", *HELD[1:]]
    assert int(files["checkpoints/last.pt"]["size"]) == (folder / "checkpoints" / "last.pt").stat().st_size


def test_an_artifact_holds_what_resuming_reads_and_no_pictures(tmp_path):
    build(composed(*SMALL, "iterations=3", "keep_best=loss/d"), tmp_path).fit()
    for name in ("command.json", "wandb_id"):
        (tmp_path / name).write_text("{}")
    for which in ("last", "best"):
        artifact = artifact_of(tmp_path, which, "abc")
        assert artifact.name == "checkpoint-abc"
        assert sorted(artifact.manifest.entries) == [f"checkpoints/{which}.pt", *HELD]
    assert artifact_of(tmp_path / "nothing", "last", "abc") is None


def test_without_a_best_checkpoint_a_run_ends_with_a_warning(tmp_path, caplog):
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}"]
    made = build(composed(*SMALL, *choices, "logger.wandb.artifacts=best", "iterations=2"), tmp_path / "run")
    assert made.fit()["state"] == "finished"
    assert [one.levelname for one in caplog.records if "logger.wandb.artifacts=best" in one.getMessage()] == ["WARNING"]


def test_what_was_fetched_goes_on_without_a_connection(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "outputs" / "checkpoint-abc-v2" / "checkpoints"
    place.mkdir(parents=True)
    (place / "best.pt").touch()
    (place.parent / "command.json").write_text(json.dumps({"overrides": ["seed=3"], "options": []}))
    name = "wandb://someone/ganexp/checkpoint-abc:v2"
    assert fetched(name, tmp_path / "outputs") == place / "best.pt"
    (place / "last.pt").touch()
    assert expand_resume([f"resume={name}", "iterations=9"]) == [
        *("seed=3", "trust=[]", "resume='outputs/checkpoint-abc-v2/checkpoints/last.pt'", "iterations=9")
    ]


def test_what_cannot_be_fetched_is_one_sentence_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("wandb://", "wandb://x", "wandb://a/b/../c:v1", "wandb://a/b/c:v1:v2", "wandb://a/b/c/d:v1"):
        with pytest.raises(ConfigError, match=rf"\Aresume={name} should be wandb://entity/project/artifact:version\.\Z"):
            expand_resume([f"resume={name}"])
    with pytest.raises(ConfigError, match=r"\Aresume=wandb://a/b/c [^\n]*wandb login[^\n]*\Z"):
        expand_resume(["resume=wandb://a/b/c"])
    with serving() as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
        wandb.teardown()
        with pytest.raises(Misfit, match=r"\Acannot be fetched from W&B [^\n]*\Z"):
            fetched("wandb://someone/ganexp/nothing", tmp_path / "outputs")
        server.artifacts.versions.append({"name": "others", "type": "dataset", "committed": True})
        server.artifacts.manifests[0] = json.dumps(
            {"version": 1, "storagePolicy": "wandb-storage-policy-v1", "storagePolicyConfig": {}, "contents": {}}
        ).encode()
        with pytest.raises(Misfit, match="holds no checkpoint"):
            fetched("wandb://someone/ganexp/others:v0", tmp_path / "outputs")
        wandb.teardown()
    assert [path.name for path in tmp_path.iterdir() if path.name not in ("data", "cache")] == []
