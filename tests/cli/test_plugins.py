"""An installed package with the entry point `ganexp.plugins`: its options are there without being named, and it is trusted."""

import json
import sys
from importlib.metadata import entry_points

import pytest

import ganexp
import tables
from ganexp.cli.help import described
from ganexp.config import plugins
from ganexp.config.metrics import measures_offered
from ganexp.facts import UserError
from measuring.passes import in_passes
from tests.calling import call
from tests.composing import chosen, declared, every_strategy, games, losses_of_scores, measures, options
from tests.small_runs import SMALL

PACKAGE, MODULE = "ganexp-shifted", "shifted_of_a_test"
CODE = """
from typing import ClassVar

import torch

from ganexp.data import Dataset
from ganexp.evaluation import Measure, low
from ganexp.evaluation.statistics import Moments
from ganexp.instruments.scalar import Scalar
from ganexp.losses import Loss
from ganexp.networks import MLPGenerator
from ganexp.strategies import Consensus
from ganexp.terms import Term


class Shifted(Loss):
    def __init__(self, *, shift: float = 1.0):
        super().__init__()
        self.shift = shift

    def d_loss(self, real, fake):
        return (real - self.shift).square().mean() + fake.square().mean()

    def g_loss(self, real, fake):
        return (fake - self.shift).square().mean()


class Generator(MLPGenerator):
    pass


class Strong(Consensus):
    def __init__(self, *, gamma: float = 0.9):
        super().__init__(gamma=gamma)


class Size(Term):
    measures: ClassVar = Scalar("mean square of a sample")

    def __call__(self, made):
        return made.fake.values.square().flatten(1).mean(1)


class FirstMoment(Measure[Moments]):
    keys: ClassVar = {"eval/first_moment": low("distance of the mean features")}
    keeps = Moments

    def __call__(self, real, fake):
        return {"eval/first_moment": float((real.mean - fake.mean).norm())}


class Bars(Dataset):
    shape = (1, 8, 8)

    def load(self):
        return torch.eye(8).mul(255).to(torch.uint8)[torch.arange(24) % 8, None, :, None].expand(-1, *self.shape)
"""
YAML = {
    "loss": "# Nobody 2026: least squares around a shift.\nname: shifted\n_target_: {}.Shifted\nshift: 1.0\n",
    "generator": "# Somebody's own.\nname: shifted\n_target_: {}.Generator\nwidth: 8\n",
    "strategy": "# Consensus, and more of it.\nname: shifted\n_target_: {}.Strong\ngamma: 0.9\n",
    "term": "# Small samples.\nshifted:\n  _target_: {}.Size\n",
    "measure": "# How far means lie apart.\nshifted:\n  _target_: {}.FirstMoment\n",
    "dataset": "# One bar in each image.\nname: shifted\n_target_: {}.Bars\n",
}
TYPED = [one for one in SMALL if not one.startswith("generator")] + ["loss=shifted", "generator=shifted", "iterations=2"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Return a folder as `pip install --target` leaves it."""
    place = tmp_path_factory.mktemp("site")
    package = place / MODULE
    for group, text in YAML.items():
        (package / "conf" / group).mkdir(parents=True)
        (package / "conf" / group / "shifted.yaml").write_text(text.format(MODULE))
    (package / "conf" / "loss" / "hinge.yaml").write_text("# Not ganexp's.\nname: hinge\n_target_: os.system\n")
    (package / "__init__.py").write_text(CODE)
    info = place / f"{PACKAGE.replace('-', '_')}-1.5.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PACKAGE}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nshifted = {MODULE}\n")
    return place


@pytest.fixture
def installed(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    for cached in (caches := (plugins.plugins, measures_offered, games, declared)):
        cached.cache_clear()
    yield
    for cached in caches:
        cached.cache_clear()
    sys.modules.pop(MODULE, None)


def test_without_it_there_is_none():
    assert plugins.plugins() == ()
    with pytest.raises(UserError, match=r"loss=shifted is not an option"):
        ganexp.compose(*TYPED)


def test_its_options_are_in_the_help_and_it_is_not_imported_for_it(installed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    said = described(["--help"])
    assert "  shifted           Nobody 2026: least squares around a shift (shift=1.0)\n" in said
    assert "  shifted           Somebody's own (width=8)\n" in said
    for meaning in (
        "Consensus, and more of it (gamma=0.9)",
        "Small samples",
        "How far means lie apart",
        "One bar in each image",
    ):
        assert f"  shifted           {meaning}\n" in said
    assert "Not ganexp's" not in said, "ganexp's own options come first"
    assert MODULE not in sys.modules


def test_its_parts_are_cases_of_the_generic_tests(installed):
    assert all("shifted" in options(group) for group in YAML)
    assert "shifted" in [one.values[0] for one in every_strategy() if not isinstance(one, str)]
    assert "shifted" in losses_of_scores()
    assert chosen("strategy", "shifted").differentiates_gradients
    assert measures("shifted")["shifted"].keys.keys() == {"eval/first_moment"}
    assert chosen("dataset", "shifted").shape == (1, 8, 8)


def test_its_parts_are_in_tables(installed, site, monkeypatch):
    monkeypatch.setattr(tables, "FOLDERS", [tables.CONF, site / MODULE / "conf"])
    monkeypatch.setattr(tables, "_costs", lambda: {"shifted": in_passes(tables._strategy("shifted"))})
    assert [*tables.strategies()][1] == ("`shifted`", "`z G r f DG+`", "21d + 9g", "Consensus, and more of it")
    assert ("`term=[shifted]`", "`terms/shifted`", "mean square of a sample") in [*tables.measured()]
    assert ("`shifted`", "`eval/first_moment`", "lowest", "distance of the mean features") in [*tables.figures()]
    for group in ("loss", "dataset"):
        assert "`shifted`" in [row[0] for row in tables.members(group)]


def test_its_strategy_is_compared_with_ganexps(installed, tmp_path):
    folder = call(
        "compare", "--strategies", "shifted", "--repeats", 2, "--iterations", 1, "--overrides", *SMALL, "--output", tmp_path
    )
    assert "| shifted " in (folder / "table.md").read_text()


def test_its_strategy_is_looked_for_in_a_loop_that_is_watched(installed, tmp_path, capsys):
    script = tmp_path / "loop.py"
    script.write_text(
        "from ganexp.strategies import Consensus\n"
        "from tests.watching.own import gan_and_reals\n"
        "gan, reals = gan_and_reals()\n"
        "while True:\n"
        "    Consensus(gamma=0.9)(gan, reals, d_steps=1, g_steps=1)\n"
    )
    assert call("watch", script).rule == "shifted"


def test_it_trains_and_its_module_is_trusted_where_a_run_is_read(installed, tmp_path):
    cfg = ganexp.compose(*TYPED, "loss.shift=0.5")
    ganexp.build(cfg, tmp_path / "run").fit()
    assert ganexp.load(tmp_path / "run").sample(2).shape == (2, 3, 4, 4)
    assert json.loads((tmp_path / "run" / "provenance.json").read_text())["versions"][PACKAGE] == "1.5"
    longer = ganexp.compose(*TYPED, "loss.shift=0.5", "iterations=3")
    resumed = ganexp.build(longer, tmp_path / "run", checkpoint=tmp_path / "run" / "checkpoints" / "last.pt", trust=())
    assert resumed.fit()["iteration"] == 3


def test_nothing_else_becomes_trusted(installed):
    cfg = ganexp.compose(*TYPED)
    cfg.generator._target_ = f"{MODULE}_other.Generator"
    with pytest.raises(UserError, match=r"^generator\._target_=\S+ is not ganexp's, .*trust=shifted_of_a_test_other \("):
        ganexp.build(cfg)


def test_ganexps_own_options_come_first(installed):
    assert ganexp.compose("loss=hinge").loss._target_.startswith("ganexp.")


def test_a_plugin_that_is_not_there_is_said_and_left_out(installed, site, tmp_path, monkeypatch, caplog):
    (tmp_path / "gone-1.dist-info").mkdir()
    (tmp_path / "gone-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: gone\nVersion: 1\n")
    (tmp_path / "gone-1.dist-info" / "entry_points.txt").write_text(f"[{plugins.GROUP}]\ngone = nowhere.at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert len(entry_points(group=plugins.GROUP)) == 2
    assert [plugin.module for plugin in plugins.plugins()] == [MODULE]
    (record,) = caplog.records
    assert "gone" in record.getMessage()


def test_a_package_within_a_package_is_found_without_importing_either(site, monkeypatch):
    monkeypatch.syspath_prepend(str(site))
    assert plugins._place(f"{MODULE}.conf") == site / MODULE / "conf"
    assert MODULE not in sys.modules
