"""Maps of scores: every strategy trains on them by its own rule, with the loss place by place."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from ganexp import strategies
from ganexp.augmentations import NoAugmentation
from ganexp.facts import Facts, Misfit
from ganexp.gan.passes import NoScores, Passes
from ganexp.losses import ACGAN, BEGAN, EBGAN, Hinge
from ganexp.penalties import R1, LeCam, Sum
from ganexp.strategies.base import as_strategy
from ganexp.streams import stream
from ganexp.wrappers import Balanced, LatentStep, TopK
from tests.composing import every_strategy, suited
from tests.distributed.alike import assert_the_same
from tests.strategies.maps import EQUAL, Energies, exact, on_places
from tests.tiny import (
    BATCH,
    CASES,
    LATENT,
    STRATEGIES,
    Case,
    descend,
    gan_in_parts,
    iterate,
    real_batches,
    state,
    tiny_gan,
    tiny_trainer,
    train,
)
from tests.training.tape import Tapes


class Repeated(nn.Module):
    """Each sample's score, at each of many places."""

    def __init__(self, of, sides):
        super().__init__()
        self.of, self.sides, self.output = of, sides, getattr(of, "output", "logit")

    def forward(self, x):
        scores = self.of(x)
        return scores.view(-1, 1, *[1] * len(self.sides)).expand(-1, 1, *self.sides)


QUICK = ("hinge", "softmaxgan", "rpgan")


@pytest.mark.parametrize("sides", [(1,), (6, 6)])
@pytest.mark.parametrize("loss", [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in CASES])
@pytest.mark.parametrize("strategy", every_strategy())
def test_places_that_agree_are_one_score(strategy, loss, sides):
    if suited(strategy, loss) != loss:
        return
    plain = train(tiny_gan(CASES[loss]), STRATEGIES[strategy], d_steps=2)
    gan = tiny_gan(replace(CASES[loss], discriminator=lambda: Repeated(CASES[loss].discriminator(), sides)))
    if sides == (6, 6) and not exact(strategy, loss):
        with pytest.raises(ValueError, match=r"one_stage with .* is exact only for one score per image"):
            train(gan, STRATEGIES[strategy])
        return
    # a bias that only shifts all scores has a gradient of rounding under softmaxgan, and Adam moves by it
    torch.testing.assert_close(train(gan, STRATEGIES[strategy], d_steps=2), plain, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("heads", [(), (30, 6)])
@pytest.mark.parametrize("loss", CASES)
@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_equal_strategies_are_equal_on_36_places(first, second, loss, heads):
    if not exact(second, loss):
        return
    ends = [train(tiny_gan(on_places(loss, heads)), STRATEGIES[one]) for one in (first, second)]
    torch.testing.assert_close(*ends, rtol=1e-10, atol=1e-12)


def by_hand(name, real, fake):
    """Return D's and G's loss of two maps `(B, 1, 6, 6)`, written out for 36 separate scores of each sample."""
    r, f = ([one[:, 0, i, j] for i in range(6) for j in range(6)] for one in (real, fake))
    sp = nn.functional.softplus

    def mean(each):
        return torch.stack([*map(each, r, f)]).mean()

    r_mean, f_mean = torch.cat(r).mean(), torch.cat(f).mean()
    log_z = torch.cat([torch.cat(r), torch.cat(f)]).neg().exp().sum().log()
    return {
        "nonsaturating": lambda: (mean(lambda r, f: sp(-r) + sp(f)), mean(lambda r, f: sp(-f))),
        "hinge": lambda: (mean(lambda r, f: (1 - r).clamp(min=0) + (1 + f).clamp(min=0)), -f_mean),
        "lsgan": lambda: (mean(lambda r, f: ((r - 1) ** 2 + f**2) / 2), mean(lambda r, f: (f - 1) ** 2 / 2)),
        "rpgan": lambda: (mean(lambda r, f: sp(f - r)), mean(lambda r, f: sp(r - f))),
        "ragan": lambda: (
            mean(lambda r, f: (sp(f_mean - r) + sp(f - r_mean)) / 2),
            mean(lambda r, f: (sp(r_mean - f) + sp(r - f_mean)) / 2),
        ),
        "softmaxgan": lambda: (r_mean + log_z, (r_mean + f_mean) / 2 + log_z),
    }[name]()


@pytest.mark.parametrize("loss", ["nonsaturating", "hinge", "lsgan", "rpgan", "ragan", "softmaxgan"])
def test_a_plain_loop_on_36_places_is_detach(loss):
    gan, reals, draw = tiny_gan(on_places(loss)), real_batches(), stream(3, "latents")
    for _ in range(4):
        x = next(reals)
        fake = gan.generator(torch.empty(BATCH, LATENT, dtype=torch.float64).normal_(generator=draw))
        descend(gan.optimizer_d, by_hand(loss, gan.discriminator(x), gan.discriminator(fake.detach()))[0])
        descend(gan.optimizer_g, by_hand(loss, gan.discriminator(x).detach(), gan.discriminator(fake))[1])
    ends = train(tiny_gan(on_places(loss)), strategies.detach)
    torch.testing.assert_close(ends, state(gan), rtol=1e-8, atol=1e-10)


class TwoModules(nn.Module):
    """Two discriminators in one, of 30 places and of 6."""

    heads = (30, 6)

    def __init__(self):
        super().__init__()
        self.of = nn.ModuleList(nn.Linear(2, size) for size in self.heads)

    def forward(self, x):
        return torch.cat([one(x) for one in self.of], 1).unsqueeze(1)


@pytest.mark.parametrize("loss", ["hinge", "softmaxgan", "ragan"])
def test_heads_have_equal_shares(loss):
    make = CASES[loss].loss
    gan, x = tiny_gan(Case(make, discriminator=TwoModules)), next(real_batches())
    fake = gan.generate(gan.sample())
    d, g = gan.losses(x, fake)
    plain, maps = make(), [(one(x), one(fake.values)) for one in gan.discriminator.of]
    for found, of in ((d.loss, plain.d_loss), (g.loss, plain.g_loss)):
        each = [of(real, made) for real, made in maps]
        torch.testing.assert_close(found, (each[0] + each[1]) / 2, rtol=1e-12, atol=0)
    measured = gan.loss.measurements(d.real_scores, g.fake_scores)
    for key, value in measured.items():
        torch.testing.assert_close(value, sum(plain.measurements(*one)[key] for one in maps) / 2, rtol=1e-12, atol=0)


def test_heads_that_are_not_those_of_the_map_are_refused():
    with pytest.raises(ValueError, match=r"heads=\(30, 5\) have 35 places"):
        train(tiny_gan(on_places("hinge", (30, 5))), strategies.detach, 1)


def test_the_state_of_a_loss_is_moved_by_heads_of_equal_shares():
    gan = tiny_gan(Case(lambda: BEGAN(lambda_k=0.3), discriminator=lambda: Energies((30, 6))))
    real, fake = (torch.rand(BATCH, 1, 36, dtype=torch.float64) + least for least in (2.0, 0.5))
    gan.loss.observe(real, fake)
    balance = sum((0.5 * real[..., part].mean() - fake[..., part].mean()) / 2 for part in (slice(0, 30), slice(30, 36)))
    assert gan.loss.k_t.item() == pytest.approx(max(0.0, 0.3 * balance.item()), rel=1e-12)


@pytest.mark.slow
def test_two_processes_are_one(tmp_path):
    cases = {loss: (on_places(loss, (30, 6)), strategies.detach) for loss in CASES}
    cases["one pass"] = on_places("minimax"), STRATEGIES["one_stage"]
    cases["penalised"] = on_places("hinge", penalty=lambda: Sum(parts={"r1": R1(), "lecam": LeCam()})), strategies.joint
    assert_the_same(cases, 2, tmp_path)


@pytest.mark.parametrize("loss", ["hinge", "softmaxgan", "rpgan"])
def test_parts_of_a_batch_are_the_whole(loss):
    whole, parts = (gan_in_parts(count, on_places(loss, (30, 6))) for count in (1, 3))
    torch.testing.assert_close(train(parts, strategies.joint), train(whole, strategies.joint), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("strategy", ["detach", "joint"])
def test_recorded_and_resumed_runs_are_plain_ones(strategy):
    def trainer(**how):
        gan = tiny_gan(on_places("rpgan", (30, 6), penalty=LeCam), fused=True)
        return tiny_trainer(strategy=STRATEGIES[strategy], gan=gan, iterations=6, **how)

    plain, recorded = trainer(), trainer(recording=Tapes)
    iterate(plain, 6)
    iterate(recorded, 6)
    assert recorded.step.recordings
    assert all(torch.equal(a, b) for a, b in zip(state(plain.step.gan), state(recorded.step.gan), strict=True))
    first, second = trainer(), trainer()
    iterate(first, 3)
    second.step.gan.load_state_dict(first.step.gan.state_dict())
    second.reals.seek(3, 3 * BATCH)
    iterate(second, 3)
    assert all(torch.equal(a, b) for a, b in zip(state(plain.step.gan), state(second.step.gan), strict=True))


WRAPPED = {
    "topk": lambda: TopK(strategies.joint, every=1, gamma=0.5),
    "balanced": lambda: Balanced(strategies.detach, bound=0.6),
    "latent_step": lambda: LatentStep(strategies.detach, alpha=0.5),
    "r1": lambda: as_strategy(strategies.detach),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_sample_counts_once_by_the_mean_of_its_places(name):
    case = replace(CASES["nonsaturating"], penalty=R1)
    plain = train(tiny_gan(case), WRAPPED[name](), 5)
    repeated = tiny_gan(replace(case, discriminator=lambda: Repeated(case.discriminator(), (6, 6))))
    torch.testing.assert_close(train(repeated, WRAPPED[name](), 5), plain, rtol=1e-8, atol=1e-10)


def test_topk_ranks_by_the_mean():
    gan = tiny_gan(on_places("nonsaturating"))
    fake = torch.randn(BATCH, 1, 36, dtype=torch.float64, requires_grad=True)
    best = TopK(strategies.joint, nu=0.5, every=1, gamma=0.01)
    best.passed["iterations"] = 1
    (gradient,) = torch.autograd.grad(best.of_best(gan.loss).g_loss(None, fake), fake)
    chosen = gradient.abs().sum((1, 2)).nonzero().flatten().tolist()
    assert chosen == sorted(fake.mean((1, 2)).argsort()[BATCH // 2 :].tolist())


@pytest.mark.parametrize(
    ("shape", "remedy"), [((BATCH, 1), r"\.squeeze\(1\)"), ((BATCH, 3), "one output channel"), ((BATCH, 2, 3), "one output")]
)
def test_what_is_neither_a_score_nor_a_map_is_refused(shape, remedy):
    with pytest.raises(ValueError, match=rf"^the discriminator must return one score per sample, .*or a map.*{remedy}"):
        Passes().score(lambda x: x.new_zeros(shape), tiny_gan(CASES["hinge"]).sample())


class Watched(NoAugmentation):
    """Keeps what an adaptive augmentation is told."""

    def observe(self, real_scores):
        self.told = real_scores


def test_ada_is_told_one_score_for_each_sample():
    gan, x = tiny_gan(on_places("hinge")), next(real_batches())
    gan.augment = Watched()
    d = gan.d_loss(x, gan.generate(gan.sample()))
    gan.update_d(d)
    assert torch.equal(gan.augment.told, d.real_scores.detach().mean((1, 2)))


@pytest.mark.parametrize("loss", [ACGAN(base=Hinge()), EBGAN(pulling_away=0.1)])
def test_a_loss_that_reads_more_than_scores_refuses_maps(loss):
    (kind,) = loss.accepts
    with pytest.raises(Misfit, match="scores places") as refused:
        loss.check(Facts(shape=(1, 16, 16), scores=kind, further="", maps=True))
    assert "discriminator" in refused.value.remedy
    case = on_places("ebgan" if kind == "energy" else "hinge")
    with pytest.raises(NoScores, match=loss.reads):
        train(tiny_gan(replace(case, loss=lambda: loss)), strategies.detach, 1)
