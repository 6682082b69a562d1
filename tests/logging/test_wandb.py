"""What W&B really recorded, read back from an offline run through W&B's own inspect command."""

import json
import re
import sys

import numpy as np
import pytest
import wandb
from PIL import Image

from ganexp import UserError, build
from ganexp.logging import RunDescription, WandbLogger
from tests import processes
from tests.composing import CONF, composed
from tests.logging.records import inspected, records

pytestmark = pytest.mark.usefixtures("no_account")
SMALL = ["generator.width=4", "discriminator.width=4", "batch_size=4", "latent_dim=3"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    choices = ["loss=began", "generator=began", "discriminator=began", "iterations=9", "log_every=2", "sample_every=3"]
    choices += ["logger=[wandb]", "logger.wandb.mode=offline", "logger.wandb.tags=[a,b]", "logger.wandb.group=sweep"]
    cfg = composed(*SMALL, *choices, f"logger.wandb.directory={folder}")
    trainer = build(cfg, folder)
    trainer.fit()
    record, place = records(folder)
    return trainer, record, place, folder


def test_rows_equal_metrics_jsonl(run):
    _, records, _, folder = run
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    recorded = [record["item"] for record in records["history"]]
    assert len(recorded) == len(rows) == 7
    for row, item in zip(rows, recorded, strict=True):
        pictures = {key for key in row if isinstance(row[key], str)}
        scalars = {key: value for key, value in row.items() if key not in pictures}
        assert {key: item[key] for key in scalars} == pytest.approx(scalars, rel=1e-15)
        own = {key for key in item if not key.startswith("_") and key.split(".")[0] not in pictures}
        assert own == set(scalars)
        assert {f"{key}.path" for key in pictures} <= set(item)


def test_the_logged_picture_is_the_picture_and_neither_black_nor_inverted(run):
    trainer, records, place, folder = run
    item = next(record["item"] for record in reversed(records["history"]) if "samples.path" in record["item"])
    with (
        Image.open(place / "files" / item["samples.path"]) as logged,
        Image.open(folder / trainer.last_row["samples"].path) as kept,
    ):
        np.testing.assert_array_equal(np.asarray(logged), np.asarray(kept))
        pixels = np.asarray(logged).astype(float)
    assert pixels.std() > 1
    images = trainer.step.average.generator(trainer.gan.prior.fixed(64).values).detach().numpy()[:, 0]
    tiles = pixels[..., 0][2:, 2:].reshape(8, 34, 8, 34)[:, :32, :, :32].transpose(0, 2, 1, 3).reshape(64, 32, 32)
    assert np.corrcoef(tiles.ravel(), np.clip(images, -1, 1).ravel())[0, 1] > 0.99


def test_config_group_tags_name_and_state(run):
    trainer, records, _, _ = run
    (recorded,) = records["run"]
    config = recorded["config"]["update"]
    expected = trainer.checkpoints.described["config"]
    assert {key: config[key] for key in expected} == expected
    assert recorded["run_group"] == "sweep"
    assert recorded["tags"] == ["a", "b"]
    assert recorded["display_name"] == "digits-began-detach-seed0"
    assert records["exit"][0]["exit_code"] == 0


def test_the_iteration_is_the_axis_of_every_chart(run):
    _, records, _, _ = run
    assert any(metric.get("glob_name") == "*" and metric["step_metric"] == "progress/iteration" for metric in records["metric"])
    named = {metric["name"]: metric for metric in records["metric"] if "name" in metric}
    assert all(
        metric["step_metric"] == "progress/iteration" for metric in named.values() if metric["name"] != "progress/iteration"
    )
    wanted = {"began/convergence": {"last", "min"}, "memory/peak_mib": {"max"}, "time/iteration_ms": {"last", "mean"}}
    for key, kinds in wanted.items():
        assert {kind for kind, on in named[key]["summary"].items() if on} == kinds


def test_wandbs_own_variables_are_respected(monkeypatch, tmp_path):
    for variable, value in {
        "WANDB_PROJECT": "mine",
        "WANDB_NAME": "my run",
        "WANDB_DIR": str(tmp_path),
        "WANDB_TAGS": "x,y",
        "WANDB_NOTES": "note",
        "WANDB_RUN_GROUP": "g",
    }.items():
        monkeypatch.setenv(variable, value)
    build(composed(*SMALL, "iterations=1", "logger=[wandb]", "logger.wandb.mode=offline"), tmp_path / "run").fit()
    wandb.teardown()
    (recorded,) = records(tmp_path)[0]["run"]
    assert (recorded["project"], recorded["display_name"]) == ("mine", "my run")
    assert (recorded["tags"], recorded["notes"], recorded["run_group"]) == (["x", "y"], "note", "g")


def test_where_a_run_comes_from_is_recorded(run):
    _, records, _, folder = run
    origin = json.loads((folder / "provenance.json").read_text())
    assert records["run"][0]["config"]["update"]["provenance"] == origin
    assert re.fullmatch("[0-9a-f]{40}", origin["git"]["commit"])
    assert origin["versions"]["wandb"] == wandb.__version__
    assert json.loads((folder / "config.json").read_text())["loss"]["name"] == "began"


def test_after_a_rollback_the_rows_of_the_new_course_are_written_and_a_failed_run_has_failed(tmp_path):
    logger = WandbLogger(mode="offline", directory=str(tmp_path))
    logger.open(RunDescription(tmp_path))
    rows = [(4, 0.2), (6, float("nan")), (6, 0.3), (8, 0.4)]
    for iteration, value in rows:
        logger.write({"progress/iteration": iteration, "loss/d": value})
    logger.close({"state": "failed", "iteration": 8, "wall_s": 1.0, "paths": {}, "last": {}})
    written, _ = records(tmp_path)
    assert written["exit"][0]["exit_code"] == 1
    items = [record["item"] for record in written["history"]]
    assert [item["progress/iteration"] for item in items] == [iteration for iteration, _ in rows]
    assert [item["loss/d"] for item in items[2:]] == [0.3, 0.4]


def test_a_resumed_run_is_the_same_wandb_run_and_logs_the_rows_since_its_checkpoint(tmp_path):
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}", "log_every=1"]
    folder = tmp_path / "run"
    build(composed(*SMALL, *choices, "iterations=4", "checkpoint_every=2"), folder).fit()
    build(
        composed(*SMALL, *choices, "iterations=6"), folder, checkpoint=folder / "checkpoints" / "iteration_000000002.pt"
    ).fit()
    logs = sorted(tmp_path.glob("wandb/*run-*/*.wandb"), key=lambda log: log.stat().st_mtime)
    runs = [inspected(log) for log in logs]
    assert [run["run"][0]["run_id"] for run in runs] == 2 * [(folder / "wandb_id").read_text().strip()]
    iterations = [[record["item"]["progress/iteration"] for record in run["history"]] for run in runs]
    assert iterations == [[0, 1, 2, 3, 4], [3, 4, 5, 6]]


@pytest.mark.parametrize("how", ["killed", "without it"])
def test_a_resumed_run_logs_the_rows_that_wandb_may_not_have(how, tmp_path):
    """W&B's process writes in blocks of 32 KiB, and takes along what it has not written when the run is killed."""
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}", "log_every=1"]
    folder = tmp_path / "run"
    first = choices if how == "killed" else ["logger=[]", "log_every=1"]
    build(composed(*SMALL, *first, "iterations=4", "checkpoint_every=2"), folder).fit()
    (folder / "summary.json").unlink()  # as a kill leaves it
    checkpoint = folder / "checkpoints" / "iteration_000000002.pt"
    build(composed(*SMALL, *choices, "iterations=6"), folder, checkpoint=checkpoint).fit()
    history = inspected(max(tmp_path.glob("wandb/*run-*/*.wandb"), key=lambda log: log.stat().st_mtime))["history"]
    assert [record["item"]["progress/iteration"] for record in history] == [*range(7)]
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    assert [record["item"]["loss/d"] for record in history[1:]] == [row["loss/d"] for row in rows[1:]]
    assert "samples.path" in history[0]["item"]


@pytest.mark.parametrize("which", ["last", "best"])
def test_an_artifact_holds_what_resuming_reads_and_is_in_the_record_that_is_uploaded_later(which, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))  # where W&B lays copies of what it has not sent yet
    folder = tmp_path / "run"
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}", "keep_best=loss/d"]
    build(composed(*SMALL, *choices, f"logger.wandb.artifacts={which}", "iterations=3", "log_every=1"), folder).fit()
    (record,) = records(tmp_path)[0]["artifact"]
    assert (record["type"], record["name"]) == ("checkpoint", f"checkpoint-{(folder / 'wandb_id').read_text().strip()}")
    files = {entry["path"]: int(entry["size"]) for entry in record["manifest"]["contents"]}
    held = {f"checkpoints/{which}.pt", "config.json", "measures.json", "metrics.jsonl", "provenance.json", "wandb_id"}
    assert files == {name: (folder / name).stat().st_size for name in held}


def test_without_a_best_checkpoint_a_run_is_refused_or_ends_with_a_warning(tmp_path, caplog):
    choices = ["logger=[wandb]", "logger.wandb.mode=offline", f"logger.wandb.directory={tmp_path}"]
    choices += ["logger.wandb.artifacts=best", "iterations=2"]
    with pytest.raises(UserError, match=r"keep_best.*logger\.wandb\.artifacts=last"):
        build(composed(*SMALL, *choices), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    trainer = build(composed(*SMALL, *choices, "keep_best=eval/none", "evaluate_every=0"), tmp_path / "run")
    assert trainer.fit()["state"] == "finished"
    assert [line.levelname for line in caplog.records if "logger.wandb.artifacts=best" in line.getMessage()] == ["WARNING"]


@pytest.mark.slow
def test_without_it_wandb_is_not_imported(tmp_path):
    code = """
import sys, ganexp
folder = sys.argv[1]
ganexp.build(ganexp.compose("iterations=1", "generator.width=2", "discriminator.width=2", "logger=[]"), folder).fit()
assert "wandb" not in sys.modules
"""
    assert processes.run(sys.executable, "-c", code, tmp_path / "run", cwd=CONF.parent).returncode == 0
    assert (tmp_path / "run" / "metrics.jsonl").exists()
