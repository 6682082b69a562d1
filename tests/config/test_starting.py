"""Beginning with the weights of another run, and with frozen layers of D."""

import shutil

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.facts import UserError
from tests.composing import composed
from tests.small_runs import NARROW, assert_same, trained
from tests.tiny import iterate

SETTINGS = [*NARROW, "device=cpu", "dataset.image_size=16", "checkpoint_every=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "first"
    trained(folder, SETTINGS, 3)
    return folder


def weights(made):
    return {name: dict(getattr(made.gan, name).state_dict()) for name in ("generator", "discriminator")}


def test_a_run_begins_with_the_weights_of_another_and_nothing_else_of_it(run):
    begun = build(composed(*SETTINGS, f"init_from={run}", "seed=5"))
    stored = torch.load(run / "checkpoints" / "last.pt", weights_only=True)["run"]["gan"]
    assert_same(weights(begun), {name: dict(stored[name]) for name in ("generator", "discriminator")})
    assert begun.iteration == 0
    assert begun.gan.optimizer_d.state_dict()["state"] == {}
    assert_same(dict(begun.step.average.generator.state_dict()), dict(stored["generator"]))


def test_a_run_begins_with_what_an_optimizer_that_averages_has_trained(tmp_path):
    trained(tmp_path, [*SETTINGS, "optimizer=schedule_free", "average=none"], 3)
    stored = torch.load(tmp_path / "checkpoints" / "last.pt", weights_only=True)["run"]["gan"]
    begun = build(composed(*SETTINGS, f"init_from={tmp_path}", "seed=5"))
    for name, index in (("generator", "g"), ("discriminator", "d")):
        moments = stored[f"optimizer_{index}"]["state"]
        for i, (key, p) in enumerate(getattr(begun.gan, name).named_parameters()):
            y, z = stored[name][key].double(), moments[i]["z"].double()
            torch.testing.assert_close(p.double(), (y - 0.1 * z) / 0.9, rtol=1e-5, atol=1e-7)  # from y = 0.1 z + 0.9 x
            assert not torch.equal(p, stored[name][key])


def test_frozen_layers_stay_and_the_others_move(run):
    begun = build(composed(*SETTINGS, f"init_from={run / 'checkpoints' / 'last.pt'}", "freeze_d=2", "penalty=r1"))
    before = {name: p.detach().clone() for name, p in begun.gan.discriminator.named_parameters()}
    iterate(begun, 2)
    moved = {name for name, p in begun.gan.discriminator.named_parameters() if not torch.equal(p, before[name])}
    assert moved == set(before) - {"layers.0.weight", "layers.0.bias", "layers.2.weight", "layers.2.bias"}


def test_a_resumed_run_does_not_look_for_the_other(run, tmp_path):
    shutil.copytree(run, tmp_path / "other")
    settings = [*SETTINGS, f"init_from={tmp_path / 'other'}", "freeze_d=1"]
    whole = trained(tmp_path / "whole", settings, 4)
    trained(tmp_path / "parts", settings, 4, stop_after=2)
    shutil.rmtree(tmp_path / "other")
    resumed = trained(tmp_path / "parts", settings, 4, resume=True)
    assert_same(weights(resumed), weights(whole))


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["init_from=nowhere"], "^init_from: "),
        (["init_from='~nobody-of-that-name/x'"], "^init_from: "),
        (["generator.width=5"], r"^init_from: the networks of .* are others \(generator\..*choose generator and discriminator"),
        (["discriminator=mlp"], r"^init_from: the networks of .* are others \(discriminator "),
        (["freeze_d=4"], "freeze_d=4 would leave nothing of D to train, which has 3 layers: choose fewer"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(overrides, said, run):
    with pytest.raises(UserError, match=said):
        check(composed(*SETTINGS, f"init_from={run}", *overrides))
