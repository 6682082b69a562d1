"""Wrappers: off, they are the strategy inside to the last bit; on, they combine, in any order, or are refused."""

import copy
import itertools

import pytest
import torch

from ganexp import GAN, Step, wrappers
from ganexp.sources import PreviewSamples, Sources
from ganexp.strategies import Competitive, detach
from ganexp.terms import L2
from ganexp.wrappers import Balanced, LatentStep, Lookahead, Pretrain, Replay, TopK, WarmUp
from ganexp.wrappers.base import Wrapper, seen
from measuring.tracing import TracingGAN
from tests.composing import suited
from tests.strategies.sourced import batches
from tests.tiny import CASES, STRATEGIES, WITHOUT_REPLAY, ZERO_SUM, real_batches, tiny_gan, train

OFF = {
    "topk": lambda strategy: TopK(strategy, nu=1.0),
    "replay": lambda strategy: Replay(strategy, share=0.0),
    "latent_step": lambda strategy: LatentStep(strategy, alpha=0.0),
    "warm_up": lambda strategy: WarmUp(strategy, first=0, every=0),
    "balanced": lambda strategy: Balanced(strategy, bound=1.0),
}
ON = {
    "topk": lambda strategy: TopK(strategy, nu=0.4, gamma=0.7, every=1),
    "replay": lambda strategy: Replay(strategy, size=9, share=0.5),
    "latent_step": lambda strategy: LatentStep(strategy, alpha=0.5, beta=0.1),
    "lookahead": lambda strategy: Lookahead(strategy, every=2),
}


def trained(strategy, loss="nonsaturating", *, iterations=3, g_steps=2):
    gan = tiny_gan(CASES[loss])
    return [
        *train(gan, strategy, iterations, d_steps=2, g_steps=g_steps),
        gan.prior.rng.get_state(),
        gan.meter.last_real,
        gan.meter.last_fake,
    ]


def assert_same(first, second):
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["detach", "joint", "one_stage", "unrolled", "past_extragradient"])
def test_off_is_the_strategy_inside_to_the_last_bit(strategy):
    for loss in dict.fromkeys(suited(strategy, loss) for loss in ("nonsaturating", "rpgan", "softmaxgan", "began")):
        plain = trained(STRATEGIES[strategy], loss)
        for name, wrap in OFF.items():
            if name != "balanced" or loss == "nonsaturating":
                assert_same(trained(wrap(STRATEGIES[strategy]), loss), plain)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_on_they_are_not_and_combine_in_any_order(strategy):
    names = [name for name in ON if not (name == "replay" and strategy in WITHOUT_REPLAY)]
    names = [name for name in names if not (name == "topk" and strategy in ZERO_SUM)]
    loss = suited(strategy)
    plain = trained(STRATEGIES[strategy], loss)
    for name in names:
        assert any((a != b).any() for a, b in zip(trained(ON[name](STRATEGIES[strategy]), loss), plain, strict=True)), name
    ends = []
    inside = [name for name in names if name != "lookahead"]
    for order in (inside, inside[::-1]):
        combined = STRATEGIES[strategy]
        for name in order:
            combined = ON[name](combined)
        ends.append(trained(Lookahead(combined, every=2), loss))
    for end in ends[1:]:
        assert_same(end, ends[0])


def test_where_d_rests_the_order_changes_nothing_either():
    counted = {
        "balanced": lambda strategy: Balanced(strategy, bound=0.55, window=2),
        "warm_up": lambda strategy: WarmUp(strategy, first=9, many=3),
    }
    ends = []
    for first in (ON | counted, dict(reversed(ON.items())) | counted):
        names = list(first)
        for order in (names, names[::-1]):
            combined = detach
            for name in order:
                combined = first[name](combined)
            ends.append(trained(combined, iterations=9))
    for end in ends[1:]:
        assert_same(end, ends[0])
    restless = counted["warm_up"](detach)
    for wrap in ON.values():
        restless = wrap(restless)
    assert not torch.equal(trained(restless, iterations=9)[-1], ends[0][-1])


@pytest.mark.slow
def test_classes_of_strategies_stay_equal_inside():
    """G's gradient through the step of latents, and D's replayed fakes, do not depend on who moves first in a class."""
    for wrap, loss in itertools.product((ON["topk"], ON["replay"], ON["latent_step"]), ("nonsaturating", "rpgan", "wgan_gp")):
        alternating = [trained(wrap(STRATEGIES[name]), loss) for name in ("detach", "retain_graph")]
        assert_same(*alternating)
        simultaneous = ["joint", "g_first", *(["one_stage"] if wrap is not ON["replay"] else [])]
        ends = [trained(wrap(STRATEGIES[name]), loss, g_steps=1) for name in simultaneous]
        for end in ends[1:]:
            torch.testing.assert_close(end[:-3], ends[0][:-3], rtol=1e-9, atol=1e-11)


def test_replay_goes_around_no_strategy_that_learns_through_ds_objective():
    for name in WITHOUT_REPLAY:
        with pytest.raises(ValueError, match="choose strategy=joint"):
            Replay(LatentStep(STRATEGIES[name]))


def test_topk_goes_around_no_strategy_that_relies_on_a_zero_sum_loss():
    gan = tiny_gan(CASES["minimax"])
    TopK(Competitive(), nu=1.0).refuse(gan.discriminator, gan.loss, next(real_batches()))
    with pytest.raises(ValueError, match=r"is not with topk around the strategy: leave topk out"):
        TopK(Competitive(), nu=0.5).refuse(gan.discriminator, gan.loss, next(real_batches()))


def test_views_leave_the_gan_as_it_was():
    gan = tiny_gan(CASES["nonsaturating"], gan_class=TracingGAN)
    before = dict(vars(gan))
    ON["topk"](ON["replay"](ON["latent_step"](detach)))(gan, real_batches(), d_steps=1, g_steps=1)
    assert vars(gan).keys() == before.keys()
    assert gan.loss is before["loss"]
    assert "g_loss" not in vars(gan.loss)


def test_a_state_lies_around_that_of_the_strategy_inside():
    def made():
        return Lookahead(ON["replay"](ON["latent_step"](ON["topk"](WarmUp(detach, first=1, every=3, many=2)))), every=2)

    whole, part, resumed = made(), made(), made()
    gan, reals = tiny_gan(CASES["nonsaturating"]), real_batches()
    train(gan, part, 5, reals=reals)
    kept = copy.deepcopy(part.state_dict())
    assert kept.keys() == {"iterations", "slow", "strategy"}
    assert kept["strategy"]["strategy"] == {"iterations": 5, "strategy": {"iterations": 5}}
    resumed.load_state_dict(kept)
    assert_same(train(gan, resumed, 4, reals=reals), train(tiny_gan(CASES["nonsaturating"]), whole, 9))


def test_losses_say_which_scores_are_real_ones():
    """D lowers its loss by moving a real sample's score to its side."""
    for name, case in CASES.items():
        loss, real, fake = case.loss(), torch.zeros(4, requires_grad=True), torch.zeros(4)
        (by_real,) = torch.autograd.grad(loss.d_loss(real, fake), real)
        assert (by_real > 0).all() if loss.low_is_real else (by_real < 0).all(), name
        assert loss.pairs == (name == "rpgan")


def test_a_view_replaces_nothing_but_what_wrappers_may():
    for wrong in ("smaple", "generate"):
        with pytest.raises(ValueError, match=rf"alone, and not {wrong}$"):
            seen(tiny_gan(CASES["nonsaturating"]), **{wrong: None})


class Matched(GAN):
    """A GAN that notes, for each of D's losses, whether each fake was made from the source of the real sample beside it."""

    def d_loss(self, x, fake):
        self.matches.append(torch.equal(x.source, fake.source))
        return super().d_loss(x, fake)


ALL = [one for one in vars(wrappers).values() if isinstance(one, type) and issubclass(one, Wrapper) and one is not Wrapper]


@pytest.mark.parametrize(
    "wrapper", [one for one in ALL if one not in (LatentStep, Replay)]
)  # these refuse sources, and mix fakes
def test_real_samples_stay_beside_their_sources(wrapper):
    gan, reals = tiny_gan(CASES["nonsaturating"], gan_class=Matched), batches()
    gan.prior, gan.terms, gan.matches = Sources(PreviewSamples(lambda _: None, 0), dtype=torch.float64), {"l2": L2()}, []
    step = Step(gan, wrapper(detach, **({"g": 2} if wrapper is Pretrain else {})))
    for _ in range(6):
        step(reals)
    assert gan.matches
    assert all(gan.matches)
