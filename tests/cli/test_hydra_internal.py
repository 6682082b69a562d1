"""What is used of `hydra._internal`, and that a job is composed once."""

import ast
from pathlib import Path

import pytest
from hydra.types import RunMode

from ganexp.cli.composing import started
from ganexp.cli.line import Line

ROOT = Path(__file__).parents[2]
USED = {
    "callbacks.Callbacks",
    "config_loader_impl.ConfigLoaderImpl",
    "core_plugins.basic_sweeper.BasicSweeper",
    "hydra.Hydra",
    "utils.create_config_search_path",
}


def _imported(path: Path) -> set[str]:
    nodes = [one for one in ast.walk(ast.parse(path.read_text())) if isinstance(one, (ast.Import, ast.ImportFrom))]
    names = {f"{getattr(node, 'module', None) or ''}.{one.name}".lstrip(".") for node in nodes for one in node.names}
    return {name.removeprefix("hydra._internal.") for name in names if name.startswith("hydra._internal")}


def test_one_file_imports_what_hydra_calls_internal():
    files = [path for room in ("ganexp", "scripts", "tests") for path in (ROOT / room).rglob("*.py")]
    assert {path.name: _imported(path) for path in files if _imported(path)} == {"hydra_internal.py": USED}


def test_a_job_is_composed_once_and_is_told_what_its_sweep_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    with started(Line()) as loader:
        cfg = loader.load_configuration("train", ["hydra.mode=MULTIRUN"], run_mode=RunMode.MULTIRUN)
        first = loader.load_sweep_config(cfg, ["seed=3"])
        monkeypatch.setattr(loader, "load_configuration", None)
        loader.job_values = {"hydra.sweep.dir": str(tmp_path)}
        again = loader.load_sweep_config(cfg, ["seed=3"])
    assert again.hydra.sweep.dir == str(tmp_path) != first.hydra.sweep.dir
    assert again.seed == first.seed == 3
    assert again.hydra.overrides == first.hydra.overrides
