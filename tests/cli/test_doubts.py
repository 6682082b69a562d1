"""What Hydra settles in silence is told in a sentence."""

import pytest
from hydra import compose, initialize_config_dir

from ganexp.cli.composing import doubts
from ganexp.cli.hydra_internal import VERSION_BASE
from tests import forked
from tests.composing import CONF
from tests.small_runs import SMALL


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ("loss=hinge loss=wgan", ["loss is given twice: the last one counts, loss=wgan."]),
        ("seed=1 seed=2 d_steps=2 seed=3", ["seed is given 3 times: the last one counts, seed=3."]),
        ("penalty=[r1,r2,r1]", ["penalty=[r1,r2,r1] names r1 twice: it counts once."]),
        (
            "penalty=r1 loss=wgan_gp",
            [
                "penalty=r1 takes the place of penalty=[gradient_penalty], which is part of loss=wgan_gp: "
                "leave it out, or have both by penalty=[gradient_penalty,r1]."
            ],
        ),
        ("penalty=[] experiment=wgan_gp", ["penalty=[] takes the place of penalty=[gradient_penalty]"]),
        ("penalty=[r1,gradient_penalty] loss=wgan_gp", []),
        ("penalty=r1 loss=hinge", []),
        ("loss=wgan_gp", []),
    ],
)
def test_what_was_typed_and_does_not_count_is_named(overrides, said):
    with initialize_config_dir(**VERSION_BASE, config_dir=str(CONF)):
        cfg = compose("train", overrides.split(), return_hydra_config=True)
    found = list(doubts(cfg.hydra))
    assert len(found) == len(said)
    assert all(one.startswith(part) for one, part in zip(found, said, strict=True))


def test_a_penalty_that_is_brought_along_by_its_name_is_one_penalty(tmp_path):
    (tmp_path / "loss").mkdir()
    of_hinge = (CONF / "loss" / "hinge.yaml").read_text()
    (tmp_path / "loss" / "mine.yaml").write_text(f"defaults: [{{override /penalty@_global_.penalty: r1}}]\n{of_hinge}")
    with initialize_config_dir(**VERSION_BASE, config_dir=str(CONF)):
        overrides = [f"hydra.searchpath=[{tmp_path}]", "loss=mine"]
        alike = compose("train", [*overrides, "penalty=[r1]"], return_hydra_config=True)
        other = compose("train", [*overrides, "penalty=[spectral]"], return_hydra_config=True)
    assert not list(doubts(alike.hydra))
    assert "penalty=[r1,spectral]" in "".join(doubts(other.hydra))


def test_a_loss_that_is_not_chosen_may_be_broken(tmp_path):
    (tmp_path / "loss").mkdir()
    (tmp_path / "loss" / "unfinished.yaml").write_text("{")
    with initialize_config_dir(**VERSION_BASE, config_dir=str(CONF)):
        cfg = compose("train", [f"hydra.searchpath=[{tmp_path}]", "penalty=[r1]"], return_hydra_config=True)
    assert not list(doubts(cfg.hydra))


def test_a_run_says_it_on_the_screen_and_in_its_log(tmp_path):
    done = forked.train(*SMALL, "iterations=1", "loss=wgan_gp", "penalty=r1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "penalty=r1 takes the place of" in done.stdout
    assert "penalty=r1 takes the place of" in (tmp_path / "outputs" / "latest" / "train.log").read_text()
