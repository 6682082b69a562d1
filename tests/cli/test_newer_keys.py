"""Mistakes with labels, packs, accumulation, schedules, augmentations and evaluations: one sentence each, or a warning."""

import pytest

from ganexp.cli.composing import compose
from ganexp.config.build import build
from ganexp.config.check import check
from ganexp.config.schema import ConfigError

SMALL = ["generator.width=4", "discriminator.width=4", "batch_size=8"]
RING = ["dataset=ring", "generator=mlp", "discriminator=mlp"]
BEGAN = ["generator=began", "discriminator=began", "loss=began"]
CLASSIFIER = ["conditional=true", "loss=acgan", "discriminator.conditioning=classifier"]
REFUSED = [
    (
        [*BEGAN, "schedule=stalled", "schedule.every=100", "schedule.metric=began/convergance"],
        "which the loss does not measure: choose schedule.metric=began/convergence.",
    ),
    (["wrapper=[topk]", "wrapper.topk.nu=0"], "wrapper.topk.nu should be greater than 0, not 0."),
    (["wrapper=[topk]", "wrapper.topk.nu=1.5"], "wrapper.topk.nu should be less than or equal to 1, not 1.5."),
    (["wrapper=[topk]", "wrapper.topk.nu=0.5", "wrapper.topk.gamma=1"], "wrapper.topk.gamma should be less than 1, not 1."),
    (
        ["wrapper=[topk]", "wrapper.topk.nu=0.99"],
        "wrapper.topk leaves out none of a batch's 8 fakes with nu=0.99: choose wrapper.topk.nu=0.5 or batch_size=16.",
    ),
    (["wrapper=[replay]", "wrapper.replay.share=2"], "wrapper.replay.share should be less than or equal to 1, not 2."),
    (
        ["wrapper=[replay]", "wrapper.replay.share=0.01"],
        "wrapper.replay takes share=0.01 of a batch's 8 fakes, which is none: choose wrapper.replay.share=0.5.",
    ),
    (
        ["wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=3"],
        "wrapper.replay takes 4 fakes of a batch from a buffer of size=3: choose wrapper.replay.size=8.",
    ),
    (
        ["wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=1000000000"],
        "GiB are free: choose wrapper.replay.size=",
    ),
    (
        ["wrapper=[replay]", "wrapper.replay.share=0.5", "strategy=one_stage"],
        "in this strategy G learns through D's objective: choose strategy=joint.",
    ),
    (
        ["wrapper=[replay]", "wrapper.replay.share=0.5", "strategy=unrolled"],
        "in this strategy G learns through D's objective: choose strategy=joint.",
    ),
    (
        ["wrapper=[latent_step]", "wrapper.latent_step.alpha=-1"],
        "wrapper.latent_step.alpha should be greater than or equal to 0, not -1.",
    ),
    (
        ["wrapper=[latent_step]", "wrapper.latent_step.alpha=1", "compile=true"],
        "choose compile=false or wrapper.latent_step.through=false.",
    ),
    (
        ["wrapper=[topk]", "wrapper.topk.nu=0.5", "strategy=one_stage", "loss=minimax", "discriminator.batch_norm=true"],
        "take strategy=joint",
    ),
    (
        ["wrapper=[topk]", "wrapper.topk.nu=0.5", "strategy=competitive", "loss=minimax"],
        "is not with topk around the strategy: leave topk out, or",
    ),
    (["wrapper=[warm_up]", "wrapper.warm_up.many=0"], "wrapper.warm_up.many should be greater than or equal to 1, not 0."),
    (["wrapper=[warm_up]", "d_steps=0"], "d_steps should be greater than or equal to 1, not 0."),
    (["wrapper=[balanced]", "wrapper.balanced.bound=0.5"], "wrapper.balanced.bound should be greater than 0.5, not 0.5."),
    (
        ["wrapper=[balanced]", "loss=wgan"],
        "wrapper.balanced needs a loss with a boundary between real and generated scores, and this one has none: choose loss=",
    ),
    (["wrapper=[constant]"], "wrapper=[constant] is not an option; choose from anchoring, balanced, latent_step, "),
    (["wrapper.topk.nu=0.5"], "there is no topk in wrapper=[]: choose a list with it, such as wrapper=[topk]."),
    (
        ["wrapper=[lookahead]", "+wrapper.topk.nu=0.5"],
        "such as wrapper=[lookahead,topk] or add ~wrapper.topk if an experiment has set it.",
    ),
    (["+wrapper.mine._target_=ganexp.losses.Hinge"], "wrapper.mine._target_=ganexp.losses.Hinge must be a ganexp.wrappers."),
    (["wandb.mode=offline"], "wandb is no key of the configuration; it is logger.wandb here."),
    (["logger=[]", "logger.wandb.name=x"], "there is no wandb in logger=[]: choose a list with it, such as logger=[wandb]."),
    (["lookahead.every=5"], "lookahead is no key of the configuration; it is wrapper=[lookahead] here."),
    (["steps=warm_up"], "steps is no key of the configuration; it is iterations, or d_steps and g_steps, here."),
    (["accumulate=2"], "accumulate=2 is exact only for networks that treat each sample by itself, and generator=dcgan changes"),
    (["penalty=spectral", "discriminator.spectral_norm=true"], "choose discriminator.spectral_norm=false, or another penalty."),
    (
        ["penalty=[r1]", "penalty.r1=[3]"],
        "penalty.r1=[3] does not go with what is there: set a value where there is one",
    ),
]


@pytest.mark.parametrize(("overrides", "sentence"), REFUSED, ids=[" ".join(overrides) for overrides, _ in REFUSED])
def test_a_mistake_is_one_sentence_that_names_the_key_and_the_remedy(overrides, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))  # where no classifier has been trained
    with pytest.raises(ConfigError) as refusal:
        check(compose(*SMALL, *overrides))
    said = str(refusal.value)
    assert sentence in said, said
    assert "\n" not in said
    assert said.endswith((".", "?"))


def test_another_list_drops_what_a_preset_sets_of_its_own():
    assert list(compose("experiment=grid", "penalty=[r1]").penalty) == ["r1"]
    assert list(compose("experiment=topk_ring", "wrapper=[]").wrapper) == []
    typed = compose("experiment=grid", "penalty=[r1]", "penalty.gradient_penalty.weight=3")
    with pytest.raises(ConfigError, match=r"penalty\.gradient_penalty"):
        check(typed)


@pytest.mark.parametrize("off", ["off", "false"])
def test_off_is_off(off):
    config = check(compose(*SMALL, f"clip_gradients={off}")).config
    assert not isinstance(config.clip_gradients, float)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["measure=[fid]", "evaluation.samples=9"],
            "nothing comes of measure and evaluation.samples: choose",
        ),
        (
            ["evaluate_every=9", "evaluation.features=raw", "keep_best=eval/fdi"],
            "keep_best=eval/fdi is no figure of this evaluation, ",
        ),
        (
            ["wrapper=[topk]", "wrapper.topk.nu=0.5", "wrapper.topk.every=2500"],
            "wrapper.topk leaves out no fake within iterations=2500: lower every or gamma.",
        ),
        (
            ["wrapper=[replay]", "wrapper.replay.share=0.5", "wrapper.replay.size=50000"],
            "for which its buffer is not full: lower size.",
        ),
    ],
)
def test_what_has_no_effect_is_said(overrides, sentence):
    (said,) = check(compose(*SMALL, *overrides)).warnings
    assert sentence in said
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (["evaluation.features=raw", "measure=[inception_score]"], "evaluation: "),
        (["evaluation.features=/etc/hostname"], "evaluation: "),
    ],
)
def test_what_only_the_features_know_is_said_before_anything_is_written(overrides, sentence, tmp_path):
    with pytest.raises(ConfigError) as refusal:
        build(compose(*SMALL, "logger=[]", "evaluate_every=9", *overrides), tmp_path / "run")
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()
