"""Parts say for themselves whether they fit a run, in the same words in Python and on the command line."""

import inspect

import pytest
import torch

from ganexp import Facts, Misfit, build
from ganexp.augmentations import Ada, DiffAugment, NoAugmentation
from ganexp.config.check import check
from ganexp.config.remedies import REMEDIES
from ganexp.losses import ACGAN, BEGAN, EBGAN, WGAN, Hinge, NonSaturating, RpGAN
from ganexp.penalties import R1, GradientPenalty, NoPenalty
from ganexp.strategies import detach
from ganexp.wrappers import Balanced, LatentStep, Lookahead, Replay, TopK, WarmUp, Wrapper
from tests.composing import composed

NARROW = ["generator.width=2", "discriminator.width=2", "dataset.image_size=16"]
IMAGES, POINTS = (3, 32, 32), (2,)


@pytest.mark.parametrize(
    ("part", "run", "remedy"),
    [
        (EBGAN(pulling_away=0.1), {"further": ""}, {"pulling_away": 0}),
        (GradientPenalty(), {"scores": "energy"}, {"penalty": []}),
        (R1(), {"compiled": True}, {"compile": False}),
        (DiffAugment(), {"shape": POINTS, "loss": Hinge()}, {"augment": "none"}),
        (Ada(), {"loss": WGAN()}, {"augment": "diffaugment", "loss": "hinge"}),
        (TopK(detach, nu=0.99), {"batch_size": 8}, {"nu": 0.5, "batch_size": 16}),
        (Replay(detach, share=0.01), {"batch_size": 8}, {"share": 0.5}),
        (Replay(detach, size=3), {"batch_size": 8}, {"size": 8}),
        (Replay(detach, size=1000), {"free_bytes": 10**6}, {"size": 10**6 // (2 * 3 * 32 * 32 * 4)}),
        (LatentStep(detach), {"compiled": True}, {"compile": False, "through": False}),
        (Balanced(detach), {"loss": WGAN()}, {"loss": "nonsaturating"}),
    ],
    ids=lambda one: type(one).__name__ if not isinstance(one, dict) else "",
)
def test_what_does_not_fit_names_what_would(part, run, remedy):
    with pytest.raises(Misfit) as raised:
        part.check(Facts(**{"shape": IMAGES, "loss": NonSaturating(), **run}))
    assert raised.value.remedy == remedy
    assert str(raised.value) == f"{raised.value.reason}: choose " + " or ".join(f"{k}={v}" for k, v in remedy.items())


@pytest.mark.parametrize(
    ("loss", "run"),
    [
        (NonSaturating(), {"scores": "energy"}),
        (NonSaturating(), {"further": "code"}),
        (EBGAN(), {"scores": "logit"}),
        (EBGAN(pulling_away=0.1), {"further": ""}),
        (ACGAN(base=Hinge()), {"further": ""}),
        (ACGAN(base=Hinge()), {"scores": "energy"}),
        (RpGAN(), {"g_batch": 3}),
    ],
)
def test_a_loss_names_settings_of_its_own_alone(loss, run):
    with pytest.raises(Misfit) as raised:
        loss.check(Facts(**{"shape": IMAGES, "batch_size": 2, **run}))
    own = {*inspect.signature(type(loss)).parameters, "loss@loss.base"}
    assert own.issuperset(raised.value.remedy)
    assert raised.value.lack in REMEDIES or raised.value.remedy


def test_what_fits_is_silent():
    run = Facts(shape=IMAGES, loss=NonSaturating(), scores="logit", further="", batch_size=32, iterations=10_000)
    wrappers = [TopK(detach, nu=0.5), Replay(detach), LatentStep(detach), Balanced(detach)]
    for part in [NonSaturating(), R1(), NoPenalty(), Ada(), NoAugmentation(), *wrappers]:
        part.check(run)
    assert not run.warnings


def test_what_cannot_be_known_is_not_refused():
    """A discriminator that looks at values cannot be made without memory, and so what it returns is unknown."""
    for part in (Hinge(), BEGAN(), ACGAN(base=Hinge()), GradientPenalty()):
        part.check(Facts(shape=IMAGES))


def test_a_plan_holds_the_parts_and_building_leaves_them_as_they_are():
    plan = check(composed("loss=began", "generator=began", "discriminator=began", "logger=[]", *NARROW))
    assert isinstance(plan.parts.loss, BEGAN)
    k_t = plan.parts.loss.state_dict()
    made = build(plan.values)
    with torch.no_grad():
        for buffer in made.gan.loss.buffers():
            buffer.add_(1)
    assert all(torch.equal(k_t[key], value) for key, value in plan.parts.loss.state_dict().items())


@pytest.mark.parametrize(("wrappers", "constant"), [("[topk,lookahead]", True), ("[lookahead,warm_up]", False)])
def test_wrappers_are_made_in_the_order_of_the_list_from_the_outside(wrappers, constant):
    chosen = check(composed(f"wrapper={wrappers}")).parts
    made, strategy = [], chosen.strategy
    while isinstance(strategy, Wrapper):
        made.append(strategy)
        strategy = strategy.strategy
    kinds = {"topk": TopK, "lookahead": Lookahead, "warm_up": WarmUp, "balanced": Balanced}
    assert [type(one) for one in made] == [kinds[name] for name in wrappers.strip("[]").split(",") if name]
    assert [*chosen.by_key.values()][: len(made) + 1] == [*made, strategy]
    assert chosen.strategy.constant_steps == constant
