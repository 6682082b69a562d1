"""A run that is interrupted and resumed is, to the last bit, the run that was not."""

import copy
import random
import signal

import numpy as np
import pytest
import torch
from PIL import Image

from ganexp import build
from ganexp.config.plain import plain
from ganexp.facts import UserError
from ganexp.networks import MLPGenerator
from ganexp.training import Checkpoints, Stopping, checkpoint
from tests.composing import composed, options
from tests.small_runs import CONVOLUTIONAL, SMALL, assert_resumes, assert_same, state, trained
from tests.small_runs import untimed as rows
from tests.tiny import iterate

UNFED = [word for word in SMALL if not word.startswith("dataset")]
IN_SCHEDULES = ("adam", "negative_momentum", "rmsprop")
"""Optimisers of other cases."""
DCGAN = "generator=dcgan discriminator=dcgan dataset.image_size=16"
CASES = {
    "detach": "strategy=detach",
    **{f"optimizer {name}": f"optimizer={name}" for name in options("optimizer") if name not in IN_SCHEDULES},
    "loss change": "wrapper=[loss_change] d_steps=2",
    "began": "loss=began generator=began discriminator=began dataset.image_size=16",
    "lazy penalty": "penalty=dragan penalty.dragan.every=2 d_steps=3",
    "several penalties": "penalty=[dragan,wgan_lp] penalty.wgan_lp.every=2",
    "approximate penalties": "penalty=[approx_r1r2,centring] penalty.approx_r1r2.every=2 d_steps=3",
    "averaged past": "strategy=past_extragradient strategy.decay=0.9",
    "diffaugment": "augment=diffaugment penalty=r1",
    "ada": "augment=ada augment.target=-0.9 augment.images=100 d_steps=3",
    "clipping": "loss=wgan g_steps=2",
    "softmaxgan": "loss=softmaxgan strategy=joint g_steps=2",
    "lookahead": "wrapper=[lookahead] wrapper.lookahead.every=3",
    "lookahead around a state": "wrapper=[lookahead] wrapper.lookahead.every=3 strategy=past_extragradient",
    "topk": "wrapper=[topk] wrapper.topk.nu=0.5 wrapper.topk.gamma=0.6 wrapper.topk.every=4",
    "replay": "wrapper=[lookahead,replay] wrapper.lookahead.every=3 wrapper.replay.share=0.5 wrapper.replay.size=11 "
    "dataset=digits conditional=true",
    "latent step": "wrapper=[latent_step] wrapper.latent_step.alpha=0.5 strategy=joint",
    "warm-up": "wrapper=[topk,warm_up] wrapper.topk.nu=0.5 wrapper.warm_up.first=2 wrapper.warm_up.every=7 "
    "wrapper.warm_up.many=3",
    "balanced": "wrapper=[balanced] wrapper.balanced.bound=0.55 wrapper.balanced.window=3",
    "skip": "wrapper=[skip] d_steps=2",
    "without ema": "average=none",
    "uniform average": "average=uniform average.start=3",
    "spectral norm": f"{DCGAN} discriminator.spectral_norm=true",
    "bf16, channels last": f"{DCGAN} precision=bf16 channels_last=true",
    "labels": f"{DCGAN} dataset=digits conditional=true",
    "acgan, of ragan": f"{DCGAN} dataset=digits conditional=true loss=acgan loss@loss.base=ragan "
    "discriminator.conditioning=classifier discriminator.spectral_norm=true",
    "pulling away": "generator=began discriminator=began loss=ebgan loss.pulling_away=0.1 discriminator.returns_code=true "
    "discriminator.code_dim=5",
    "cosine, momentum": "schedule=cosine schedule.warm_up=3 optimizer=negative_momentum",
    "cosine of g": "schedule=cosine schedule.of=g optimizer=rmsprop",
    "stalled": "generator=began discriminator=began loss=began schedule=stalled schedule.every=2 schedule.patience=1",
}


def overrides(case):
    mine = CASES[case].split()
    settings = CONVOLUTIONAL if any(word in mine for word in ("generator=began", "generator=dcgan")) else SMALL
    if "dataset=digits" in mine:
        settings = [word for word in settings if not word.startswith("dataset")]
    return [*settings, *mine]


QUICK = ("replay", "detach")


@pytest.mark.parametrize("case", [pytest.param(case, marks=() if case in QUICK else pytest.mark.slow) for case in CASES])
def test_a_killed_run_resumes_to_the_last_bit(case, tmp_path):
    settings = overrides(case)
    assert_resumes(tmp_path, settings, 20, stop_after=11)
    assert [row["progress/iteration"] for row in rows(tmp_path / "parts")] == [0, 4, 7, 8, 12, 14, 16, 20]


def test_ten_and_ten_iterations_are_twenty(tmp_path):
    settings = [*SMALL, "log_every=5", "sample_every=10", "checkpoint_every=10"]
    whole = trained(tmp_path / "whole", settings, 20)
    trained(tmp_path / "parts", settings, 10)
    resumed = trained(tmp_path / "parts", settings, 20, resume=True)
    assert_same(state(resumed), state(whole))
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_streamed_images_go_on_where_they_were(tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    for i in range(13):
        Image.new("RGB", (4, 4), (i * 15, 255 - i * 15, 7 * i)).save(images / f"{i}.png")
    settings = [*UNFED, "dataset=image_folder", f"dataset.path={images}", "dataset.image_size=4", "workers=2"]
    assert_resumes(tmp_path, settings, 12, stop_after=7)


def test_a_run_that_was_stopped_before_its_first_iteration_goes_on(tmp_path):
    whole = trained(tmp_path / "whole", SMALL, 8)
    with Stopping() as stopping:
        stopped = build(composed(*SMALL, "iterations=8"), tmp_path / "parts", stopping=stopping)
        stopping.received = signal.SIGTERM
        assert stopped.fit()["iteration"] == 0
    resumed = trained(tmp_path / "parts", SMALL, 8, resume=True)
    assert_same(state(resumed), state(whole))
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_half_a_row_of_a_killed_run_is_written_again(tmp_path):
    whole = trained(tmp_path / "whole", SMALL, 20)
    trained(tmp_path / "parts", SMALL, 20, stop_after=11)
    with (tmp_path / "parts" / "metrics.jsonl").open("a") as file:
        file.write('{"progress/iteration": 12, "loss/')
    resumed = trained(tmp_path / "parts", SMALL, 20, resume=True)
    assert_same(state(resumed), state(whole))
    assert rows(tmp_path / "parts") == rows(tmp_path / "whole")


def test_another_configuration_is_refused_with_the_keys_that_differ(tmp_path):
    trained(tmp_path, SMALL, 6)
    last = tmp_path / "checkpoints" / "last.pt"
    with pytest.raises(UserError, match=r"batch_size, loss"):
        build(composed(*SMALL, "batch_size=6", "loss=hinge", "iterations=20"), tmp_path, checkpoint=last)
    with pytest.raises(UserError, match="6 iterations"):
        build(composed(*SMALL, "iterations=6"), tmp_path, checkpoint=last)
    changed = ["iterations=9", "log_every=2", "sample_every=2", "checkpoint_every=1", "logger=[wandb]"]
    trainer = build(composed(*SMALL, *changed, "logger.wandb.project=other"), tmp_path, checkpoint=last)
    assert trainer.iteration == 6
    trainer.finish("failed")
    default = plain(composed(*SMALL))
    del default["iterations"]
    trainer = build(default, tmp_path, checkpoint=last)
    assert trainer.iteration == 6
    trainer.finish("failed")


def test_a_checkpoint_of_other_networks_does_not_fit(tmp_path):
    trained(tmp_path, SMALL, 3)
    last = tmp_path / "checkpoints" / "last.pt"
    kept = checkpoint.load(last)
    kept["run"]["gan"]["generator"] = {}
    torch.save(kept, last)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(UserError, match="checkpoint"):
        build(composed(*SMALL, "iterations=20"), tmp_path, checkpoint=last)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before


class Noisy(MLPGenerator):
    """A generator that draws from every global stream there is."""

    def forward(self, z):
        return super().forward(z) + 0.1 * (torch.rand(()) + np.random.randn() + random.gauss(0, 1))  # noqa: NPY002


def test_networks_that_draw_random_numbers_by_numpy_or_python_resume_too(tmp_path):
    cfg = composed(*overrides("without ema"), "iterations=10")
    cfg.generator._target_ = f"{__name__}.Noisy"
    whole = build(cfg, trust="tests")
    iterate(whole, 3)
    whole.checkpoints = Checkpoints(tmp_path, described=whole.checkpoints.described)
    whole.checkpoints.write(whole)
    iterate(whole, 4)
    expected = copy.deepcopy(state(whole))
    random.seed(3)
    np.random.seed(3)  # noqa: NPY002
    resumed = build(cfg, trust="tests", checkpoint=tmp_path / "checkpoints" / "last.pt")
    iterate(resumed, 4)
    assert_same(state(resumed), expected)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_data_of_ones_own_that_draw_random_numbers_are_the_seeds(workers, tmp_path):
    settings = [*UNFED, "dataset=torch", "dataset.dataset._target_=tests.data.own.Drawn", f"workers={workers}"]
    whole = trained(tmp_path / "whole", settings, 12)
    np.random.rand(7)  # noqa: NPY002
    random.random()
    again = trained(tmp_path / "again", settings, 12)
    assert_same(state(again), state(whole))
    assert not torch.equal(whole.reals.shown(), trained(tmp_path / "other", [*settings, "seed=1"], 2).reals.shown()[:60])
    if workers == 0:  # others draw as far ahead as they read
        trained(tmp_path / "parts", settings, 12, stop_after=7)
        assert_same(state(trained(tmp_path / "parts", settings, 12, resume=True)), state(whole))


def test_how_often_a_run_was_rolled_back_is_kept():
    first = build(composed(*SMALL, "iterations=10"))
    iterate(first)
    first.guard.rollbacks = 3
    state = first.state_dict()
    second = build(composed(*SMALL, "iterations=10"))
    second.load_state_dict(state)
    assert second.guard.rollbacks == 3
    second.guard.rollbacks = 4  # which is under way, and not to be forgotten by going back to a checkpoint of before it
    second.load_state_dict(state)
    assert second.guard.rollbacks == 4
