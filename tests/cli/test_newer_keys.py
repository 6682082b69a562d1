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
CLIP, EMA = (
    "clip_gradients should be off or a norm above 0, such as 1, not ",
    "ema should be off or a decay between 0 and 1, such as ",
)

REFUSED = [
    (["clip_gradients=0"], f"{CLIP}0."),
    (["clip_gradients=0.0"], f"{CLIP}0.0."),
    (["clip_gradients=-1"], f"{CLIP}-1."),
    (["clip_gradients=true"], f"{CLIP}true."),
    (["ema=0"], f"{EMA}0.999, not 0."),
    (["ema=0.0"], f"{EMA}0.999, not 0.0."),
    (["ema=true"], f"{EMA}0.999, not true."),
    (
        ["schedule=linear", "schedule.begin=100", "schedule.end=50"],
        "schedule.begin=100 should be less than its end, which is 50",
    ),
    (["schedule=linear", "schedule.end=9999"], "schedule.end=9999 lies beyond the run's 2500 iterations: lower it, or raise"),
    (["schedule=linear", "schedule.begn=2"], "schedule.begn is no key of the configuration; did you mean begin?"),
    (["schedule.end=9"], "schedule.end is no key of the configuration; this schedule has none: choose the one that has it too"),
    (["schedule=null"], "schedule=null: a group takes one of its options"),
    (["schedule=[linear,cosine]"], "schedule mixes several options into one: choose one of them"),
    (
        ["schedule=stalled"],
        "observes began/convergence, which the loss does not measure: choose loss=began.",
    ),
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
    (["wrapper=[constant]"], "wrapper=[constant] is not an option; --help lists those that there are."),
    (["wrapper.topk.nu=0.5"], "there is no topk in wrapper=[]: choose a list with it, such as wrapper=[topk]."),
    (
        ["wrapper=[lookahead]", "+wrapper.topk.nu=0.5"],
        "such as wrapper=[lookahead,topk] or add ~wrapper.topk if an experiment has set it.",
    ),
    (["+wrapper.mine._target_=ganexp.losses.Hinge"], "wrapper.mine._target_=ganexp.losses.Hinge must be a ganexp.wrappers."),
    (["lookahead.every=5"], "lookahead is no key of the configuration; it is wrapper=[lookahead] here."),
    (["steps=warm_up"], "steps is no key of the configuration; it is iterations, or d_steps and g_steps, here."),
    (["accumulate=2"], "accumulate=2 is exact only for networks that treat each sample by itself, and generator=dcgan changes"),
    (["accumulate=9"], "accumulate=9 is more parts than batch_size=8 has samples."),
    (["pack=3"], "batch_size=8 cannot be shared equally among packs of pack=3: choose a multiple of 3, such as batch_size=9."),
    (["pack=2", "conditional=true"], "conditional=true has labels for samples, and D judges packs of pack=2: choose pack=1."),
    (["conditional=true", "dataset=fake"], "dataset=fake has no class labels"),
    (["loss=acgan"], "the discriminator returns scores alone: choose discriminator.conditioning=classifier."),
    (["discriminator.conditioning=classifier"], "conditioning=classifier needs class labels: choose conditional=true, or"),
    (
        [*CLASSIFIER, "loss@loss.base=ebgan"],
        "loss=acgan is around EBGAN, which needs energy scores, and the discriminator returns logit scores: choose "
        "loss@loss.base=nonsaturating.",
    ),
    ([*CLASSIFIER, "strategy=one_stage"], "one_stage is exact only for losses of one score per image, and ACGAN also reads"),
    ([*BEGAN, "loss=ebgan", "loss.pulling_away=0.1"], "choose loss.pulling_away=0 or discriminator.returns_code=true."),
    (["penalty=spectral", "discriminator.spectral_norm=true"], "choose discriminator.spectral_norm=false, or another penalty."),
    (
        ["penalty=[r1]", "penalty.r1=[3]"],
        "penalty.r1=[3] does not go with what is there: set a value where there is one",
    ),
    (
        ["minibatch_deviation=true"],
        "minibatch_deviation is no key of the configuration; it is discriminator.minibatch_deviation",
    ),
    (["discriminator.minibatch_deviation=true", "strategy=one_stage"], "take strategy=joint, or a discriminator without it."),
    ([*RING, "augment=ada"], "it transforms images, but samples of shape (2,) are not: choose augment=none."),
    (
        ["augment=diffaugment", "augment.policy=[]"],
        "policy should name at least one kind of transformation; choose augment=none",
    ),
    (["augment=ada", "augment.policy=[]"], "policy should name at least one kind of transformation; choose augment=none"),
    (
        ["evaluation=fid"],
        "evaluation should be set by its keys, which are measures, features, samples, of, as in evaluation.KEY=…",
    ),
    (["evaluate_every=9", "evaluation.measures=[]"], "evaluation.measures should be auto or a list of "),
    (
        ["evaluate_every=9", "evaluation.measures=[modes]"],
        "evaluation.measures=modes needs data whose modes are known",
    ),
    (["keep_best=eval/fid"], "keep_best=eval/fid needs an evaluation that has it: choose evaluate_every=…"),
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


@pytest.mark.parametrize("off", ["off", "false"])
def test_off_is_off(off):
    config = check(compose(*SMALL, f"clip_gradients={off}", f"ema={off}")).config
    assert not isinstance(config.clip_gradients, float)
    assert not isinstance(config.ema, float)


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["evaluation.measures=[fid]", "evaluation.samples=9"],
            "nothing comes of evaluation.measures and evaluation.samples: choose",
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
        (["evaluation.features=raw", "evaluation.measures=[inception_score]"], "evaluation: "),
        (["evaluation.features=/etc/hostname"], "evaluation: "),
    ],
)
def test_what_only_the_features_know_is_said_before_anything_is_written(overrides, sentence, tmp_path):
    with pytest.raises(ConfigError) as refusal:
        build(compose(*SMALL, "wandb.mode=disabled", "evaluate_every=9", *overrides), tmp_path / "run")
    assert str(refusal.value).startswith(sentence)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "run").exists()
