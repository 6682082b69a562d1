"""A sweep over Ray: started by the command on this machine alone, and ended with it."""

import shutil
import tempfile

import psutil
import pytest

from ganexp.cli.sweeping import Results
from tests.cli.handmade_sweeps import TINY, sweep_folder
from tests.processes import train


@pytest.mark.slow
def test_jobs_are_tasks_of_ray(tmp_path, monkeypatch):
    pytest.importorskip("ray")
    pytest.importorskip("hydra_plugins.hydra_ray_launcher")
    place = tempfile.mkdtemp(prefix="ray-")  # short, since sockets have short names
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_raylet_start_wait_time_s", "120")  # for machines that are busy
    settings = ["init.address=null", "+init.num_cpus=1", "+init.include_dashboard=false", f"+init._temp_dir={place}"]
    settings += ["remote.num_cpus=1", "remote.num_gpus=0"]
    launcher = [f"{'+' * one.startswith('+')}hydra.launcher.ray.{one.lstrip('+')}" for one in settings]
    try:
        done = train(
            "-m", "hydra/launcher=machines", *launcher, "seed=0,1", "loss=hinge,began", "logger=[]", *TINY, cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert [job.state for job in Results.read(sweep_folder(tmp_path)).jobs.values()] == ["finished", "skipped"] * 2
        left = [one.pid for one in psutil.process_iter(["cmdline"]) if place in " ".join(one.info["cmdline"] or ())]
        assert left == [], "what the command has started has ended with it"
    finally:
        shutil.rmtree(place, ignore_errors=True)
