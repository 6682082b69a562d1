"""What runs are called."""

import multiprocessing
import re

import pytest
from omegaconf import OmegaConf

from ganexp.cli.folders import make_new
from ganexp.cli.line import read_line
from ganexp.cli.naming import LONGEST, changes, class_names, run_name
from ganexp.facts import UserError
from tests.processes import joined


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], ""),
        (
            ["loss=hinge", "seed=3", "dataset=ring", "strategy=joint", "iterations=9", "logger.wandb.mode=offline", "resume=x"],
            "",
        ),
        (["optimizer.lr=1e-3"], "lr1e-3"),
        (["generator=mlp", "average=none", "+generator.width=8", "~penalty"], "generator-mlp_average-none_width8"),
        (["optimizer.d.lr=1e-4", "optimizer.g.lr=2e-4"], "optimizer.d.lr1e-4_optimizer.g.lr2e-4"),
        (["dataset.path=/a b/c (d)/birds & bees/"], "path-birds-bees"),
        (["loss._target_=mine.Loss", "generator._target_=mine.Net", "optimizer.betas=[0.5,0.9]"], "generator-Net_betas0.5-0.9"),
    ],
)
def test_what_was_changed(overrides, name):
    assert changes(overrides) == name


def test_names_are_short_and_plain_and_differ_nevertheless():
    long = [[f"generator.key{i}={'ü/ ' * 9}{i}" for i in range(30)] + [f"optimizer.lr={lr}"] for lr in (1, 2)]
    names = {changes(overrides) for overrides in long}
    assert len(names) == 2
    assert all(len(name) <= LONGEST and re.fullmatch(r"[\w.+-]+", name, re.ASCII) for name in names)


def test_a_name_keeps_whole_changes_and_has_at_most_sixty_characters():
    given = ["generator=mlp", "generator.width=8", "discriminator=patch", "discriminator.layers=1", "batch_size=16"]
    named = {group: {"name": name} for group, name in (("dataset", "digits"), ("loss", "hinge"), ("strategy", "g_first"))}
    cfg = OmegaConf.create({**named, "seed": 0, "hydra": {"overrides": {"task": given}}})
    name = run_name(cfg)
    assert re.fullmatch(r"digits_hinge_g_first_generator-mlp_width8_[0-9a-f]{6}_seed0", name)
    assert len(name) <= 60
    cfg.hydra.overrides.task = ["experiment=pix2pix_digits"]
    assert run_name(cfg) == "digits_hinge_g_first_pix2pix_digits_seed0"
    cfg.dataset.name = "a" * 60
    assert re.fullmatch(r"a{60}_hinge_g_first_[0-9a-f]{6}_seed0", run_name(cfg))


def test_a_class_of_ones_own_gives_its_name():
    assert class_names(["loss._target_=mine.losses.Loss", "strategy=joint"]) == {"loss": "Loss"}
    assert class_names(["loss._target_=mine.Loss", "loss.name=best"]) == {}


def test_an_option_without_a_name_is_called_as_its_class_is():
    named = {group: {"name": group} for group in ("dataset", "strategy")}
    cfg = {**named, "loss": {"_target_": "mine.losses.Loss"}, "seed": 0, "hydra": {"overrides": {"task": []}}}
    assert run_name(OmegaConf.create(cfg)) == "dataset_Loss_strategy_seed0"


def test_a_name_is_one_part_of_a_path_whatever_the_names_of_its_choices_are():
    """The folder of a job is made before the job's configuration is checked, and a sweep that is resumed may be anyone's."""
    named = {group: {"name": f"../../{group}"} for group in ("dataset", "loss", "strategy")}
    cfg = OmegaConf.create({**named, "seed": "/../0", "hydra": {"overrides": {"task": []}}})
    assert run_name(cfg) == "..-..-dataset_..-..-loss_..-..-strategy_seed-..-0"


def make(folder, told):
    told.put(make_new(folder).name)


def test_a_name_is_given_once(tmp_path):
    context = multiprocessing.get_context("fork")
    told = context.Queue()
    processes = [context.Process(target=make, args=(tmp_path / "outputs" / "run", told)) for _ in range(6)]
    for process in processes:
        process.start()
    names = {told.get(timeout=30) for _ in processes}
    joined(*processes)
    assert names == {"run", *(f"run_{number}" for number in range(2, 7))}


@pytest.mark.parametrize("adding", ["", "+", "++"])
def test_a_folder_that_was_named_is_taken_however_it_was_written(adding):
    typed = read_line([f"{adding}hydra.run.dir=out"])
    assert typed.value_of("hydra.run.dir") == "out"
    assert typed.value_of("hydra.sweep.dir") is None


def test_an_outputs_folder_that_is_a_link_to_nowhere_is_refused(tmp_path):
    (tmp_path / "outputs").symlink_to(tmp_path / "unmounted")
    with pytest.raises(UserError, match=r"outputs/run cannot be made \(.*\): choose another hydra.run.dir"):
        make_new(tmp_path / "outputs" / "run")
