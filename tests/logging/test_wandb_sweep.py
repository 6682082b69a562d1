"""The sweep of docs/sweeps.md by W&B's own commands: `wandb sweep` takes the file, and `wandb agent` trains what it is told."""

import json
import re
import sys

import pytest
import yaml

from tests.composing import CONF
from tests.logging.stand_in import serving
from tests.processes import run

SETTINGS = [{"optimizer.lr": 2e-5, "loss.gamma": 0.7}]  # of one run: an agent asks every five seconds
SMALL = ["generator.width=4", "discriminator.width=4", "dataset=fake", "dataset.image_size=32", "dataset.n=16"]
SMALL += ["batch_size=4", "iterations=2", "sample_every=0", "logger.wandb.mode=online"]


@pytest.mark.slow
def test_an_agent_trains_what_the_server_tells_it(tmp_path):
    (text,) = re.findall(r"```yaml\n(# sweep\.yaml.*?)```", (CONF.parent / "docs" / "sweeps.md").read_text(), re.DOTALL)
    sweep = yaml.safe_load(text)
    assert {*sweep["parameters"]} == {*SETTINGS[0]}
    sweep["command"][-1:-1] = SMALL  # the paper's size takes hours
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    (tmp_path / "train.py").symlink_to(CONF.parent / "train.py")
    wandb = [sys.executable, "-m", "wandb"]
    with serving() as server:
        server.sweep.settings = [*SETTINGS]
        account = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": "a" * 40, "WANDB_ERROR_REPORTING": "false"}
        done = run(*wandb, "sweep", "--project", "ganexp", "sweep.yaml", cwd=tmp_path, **account)
        assert done.returncode == 0, done.stderr
        (agent,) = re.findall(r"wandb agent (\S+)", done.stdout + done.stderr)
        done = run(*wandb, "agent", agent, cwd=tmp_path, **account)
        assert done.returncode == 0, done.stderr
        assert server.sweep.given == SETTINGS
        metrics = [row["began/convergence"] for row in server.rows if "began/convergence" in row]
    runs = sorted(tmp_path.glob("outputs/*_seed0"))
    assert len(runs) == len(SETTINGS), done.stdout + done.stderr
    configs = [json.loads((folder / "config.json").read_text()) for folder in runs]
    settings = [{"optimizer.lr": config["optimizer"]["lr"], "loss.gamma": config["loss"]["gamma"]} for config in configs]
    assert settings == SETTINGS
    assert [(folder / "wandb_id").read_text().strip() for folder in runs] == ["run1"]
    assert len(metrics) == len(SETTINGS), "what the sweep is to minimise has reached the server"
