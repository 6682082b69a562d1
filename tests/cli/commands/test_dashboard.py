"""The dashboard: what it shows, checked offline, and saved to a stand-in for W&B's server."""

import json

import pytest

from ganexp.cli.commands.dashboard import run as dashboard
from ganexp.logging.keys import KEYS, STEPS
from ganexp.losses import BEGAN, SoftmaxGAN
from tests.calling import call
from tests.composing import options
from tests.logging.stand_in import serving


@pytest.fixture(scope="module")
def made():
    return dashboard.workspace("someone", "ganexp", sweeps=["a_multirun"])


def panels(made):
    return [panel for section in made.sections for panel in section.panels]


def test_every_measurement_is_there_against_every_axis(made):
    shown = {
        (key, panel.x.name if hasattr(panel.x, "name") else panel.x)
        for panel in panels(made)
        for key in getattr(panel, "y", [])
    }
    shown = {(key.name if hasattr(key, "name") else key, axis) for key, axis in shown}
    for key in (*KEYS, *BEGAN.measures, *SoftmaxGAN.measures):
        if not key.startswith("progress/"):
            assert {(key, axis) for axis in STEPS} <= shown, key


def test_samples_have_a_step_slider_and_evaluations_are_found_by_their_prefix(made):
    media = [panel for panel in panels(made) if hasattr(panel, "media_keys")]
    assert [panel.media_keys for panel in media] == [["samples"], ["real"], ["reconstructions"]]
    assert {panel.gallery_axis for panel in media} == {"step"}
    assert sum(getattr(panel, "metric_regex", None) == "^eval/.*" for panel in panels(made)) == 3


def test_runs_are_grouped_by_sweep_strategy_and_loss_each_in_its_colour(made):
    text = json.dumps(dashboard.spec(made))
    run_set = dashboard.spec(made)["spec"]["section"]["runSets"][0]
    assert [group["name"] for group in run_set["grouping"]] == ["group", "strategy.value.name", "loss.value.name"]
    colors = dashboard.colors(options("strategy"), options("loss")).values()
    assert len(set(colors)) == len(colors)
    assert text.count("run-color-group") >= len(colors)
    assert all(color in text for color in colors)


def test_the_table_has_the_lowest_value_of_what_is_good_when_low(made):
    columns = dashboard.spec(made)["spec"]["section"]["runSets"][0]["runFeed"]["columnPinned"]
    assert "summary:began/convergence.min" in columns
    assert not any("k_t" in column for column in columns)


def test_it_is_printed_without_an_account(capsys):
    call("dashboard", "--entity", "someone", "--print")
    assert json.loads(capsys.readouterr().out)["entity"] == "someone"


def test_a_loss_that_inherits_is_there_and_a_broken_file_is_one_sentence(tmp_path, capsys):
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "mine.yaml").write_text("defaults: [hinge, _self_]\nname: mine\n")
    call("dashboard", "--entity", "someone", "--print", "--config-dir", tmp_path)
    assert json.loads(capsys.readouterr().out)["entity"] == "someone"
    (tmp_path / "loss" / "mine.yaml").write_text("name: [")
    with pytest.raises(SystemExit, match=r"^Error: .*mine\.yaml"):
        call("dashboard", "--entity", "someone", "--print", "--config-dir", tmp_path)


def test_a_server_that_refuses_is_one_sentence(monkeypatch):
    with serving(401) as server:
        monkeypatch.setenv("WANDB_BASE_URL", server.url)
        monkeypatch.setenv("WANDB_API_KEY", "a" * 40)
        with pytest.raises(SystemExit, match=r"W&B did not save the workspace .* check --entity, --project and `wandb login`"):
            call("dashboard", "--entity", "someone")
