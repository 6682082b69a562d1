"""Games given by functions: beside plain loops to the last bit, beside GANs, and what is refused."""

import copy
import dataclasses
import itertools
import re
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import l1_loss, softplus
from torch.nn.parallel import DistributedDataParallel

from ganexp import Batch, Game, Step, strategies, wrappers
from ganexp.gan.game import LACKING, filled, tensors_in
from ganexp.sources import PreviewSamples, Sources
from tests.distributed.forks import several
from tests.tiny import BATCH, CASES, LATENT, real_batches, state, tiny_gan

STRATEGIES = strategies.by_name()


def net(*sizes, seed=0):
    torch.manual_seed(seed)
    layers = [[nn.Linear(a, b), nn.Tanh()] for a, b in itertools.pairwise(sizes)]
    return nn.Sequential(*[one for pair in layers for one in pair][:-1]).double()


def batches(start=0):
    for number in itertools.count(start):
        rng = torch.Generator().manual_seed(number)
        mel = torch.randn(BATCH, 3, generator=rng, dtype=torch.float64)
        yield {"mel": mel, "audio": (mel @ torch.linspace(-1, 1, 24, dtype=torch.float64).view(3, 8)).sin()}


class Vocoder:
    """A generator, and two discriminators in one optimiser, with feature matching and 45 times L1, as HiFi-GAN has them."""

    def __init__(self, optimizer):
        self.G, self.D = net(3, 9, 8), [net(8, 6, 1, seed=1), net(4, 5, 1, seed=2)]
        self.opt_g = optimizer(self.G.parameters())
        self.opt_d = optimizer(itertools.chain(*(d.parameters() for d in self.D)))

    def scored(self, audio):
        """Return the score and the first layer's features of each discriminator."""
        found = []
        for d, view in zip(self.D, (audio, audio[:, ::2]), strict=True):
            features = d[:2](view)
            found.append((d[2:](features), features))
        return found

    def d_loss(self, batch, fake):
        real, made = self.scored(batch["audio"]), self.scored(fake)
        return sum(((r - 1) ** 2).mean() + (f**2).mean() for (r, _), (f, _) in zip(real, made, strict=True))

    def g_loss(self, batch, fake):
        real, made = self.scored(batch["audio"]), self.scored(fake)
        matching = sum(l1_loss(f, r.detach()) for (_, r), (_, f) in zip(real, made, strict=True))
        return sum(((s - 1) ** 2).mean() for s, _ in made) + 2 * matching + 45 * l1_loss(fake, batch["audio"])

    def game(self, **settings):
        functions = {"generate": lambda batch: self.G(batch["mel"]), "d_loss": self.d_loss, "g_loss": self.g_loss}
        return Game(self.G, self.D, self.opt_g, self.opt_d, **functions, **settings)

    def loop(self, count, g_first):
        for batch in itertools.islice(batches(), count):
            fake = self.G(batch["mel"])
            if g_first:  # as both gradients at the old weights, so D's is taken before G moves
                self.opt_d.zero_grad()
                self.d_loss(batch, fake.detach()).backward()
                kept = [p.grad.clone() for d in self.D for p in d.parameters()]
                self.opt_g.zero_grad()
                self.g_loss(batch, fake).backward()
                self.opt_g.step()
                for p, grad in zip((p for d in self.D for p in d.parameters()), kept, strict=True):
                    p.grad = grad
                self.opt_d.step()
                continue
            self.opt_d.zero_grad()
            self.d_loss(batch, fake.detach()).backward()
            self.opt_d.step()
            self.opt_g.zero_grad()
            self.g_loss(batch, fake).backward()
            self.opt_g.step()

    def weights(self):
        return [p.detach().clone() for module in (self.G, *self.D) for p in module.parameters()]


def trained(game, strategy, count, reals=None, **steps):
    step, reals = Step(game, strategy, **steps), reals or batches()
    for _ in range(count):
        step(reals)
    return step


OPTIMIZERS = {"sgd": lambda p: torch.optim.SGD(p, 0.01, momentum=0.5), "adamw": lambda p: torch.optim.AdamW(p, 2e-3)}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("strategy", ["detach", "g_first"])
def test_a_loop_with_two_discriminators_is_the_same_to_the_last_bit(strategy, optimizer):
    plain, ours = Vocoder(OPTIMIZERS[optimizer]), Vocoder(OPTIMIZERS[optimizer])
    plain.loop(5, g_first=strategy == "g_first")
    trained(ours.game(), STRATEGIES[strategy], 5)
    assert all(map(torch.equal, plain.weights(), ours.weights()))


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


def test_a_gradient_reversal_layer_is_joint():
    """Features of two domains, a classifier beside them, and D that tells the domains apart (Ganin & Lempitsky 2015)."""

    def parts():
        features, classes, domain = net(3, 8, 6), net(6, 2, seed=1), net(6, 5, 1, seed=2)
        optimizers = [torch.optim.SGD([*m.parameters()], 0.1) for m in (nn.ModuleList([features, classes]), domain)]
        return features, classes, domain, *optimizers

    def data(number):
        rng = torch.Generator().manual_seed(number)
        x = torch.randn(2, BATCH, 3, generator=rng, dtype=torch.float64)
        return {"source": x[0], "target": x[1] + 1, "y": (x[0, :, 0] > 0).long()}

    def domain_loss(domain, made):
        return softplus(-domain(made["source"])).mean() + softplus(domain(made["target"])).mean()

    features, classes, domain, opt_g, opt_d = parts()
    for number in range(6):
        batch = data(number)
        made = {name: features(batch[name]) for name in ("source", "target")}
        loss = nn.functional.cross_entropy(classes(made["source"]), batch["y"])
        loss = loss + domain_loss(domain, {name: Reversed.apply(one) for name, one in made.items()})
        opt_g.zero_grad()
        opt_d.zero_grad()
        loss.backward()
        opt_g.step()
        opt_d.step()
    expected = [p.detach().clone() for module in (features, classes, domain) for p in module.parameters()]
    features, classes, domain, opt_g, opt_d = parts()
    game = Game(
        [features, classes],
        domain,
        opt_g,
        opt_d,
        generate=lambda batch: {name: features(batch[name]) for name in ("source", "target")},
        d_loss=lambda batch, made: domain_loss(domain, made),
        g_loss=lambda batch, made: nn.functional.cross_entropy(classes(made["source"]), batch["y"]) - domain_loss(domain, made),
    )
    trained(game, strategies.joint, 6, map(data, itertools.count()))
    actual = [p.detach() for module in (features, classes, domain) for p in module.parameters()]
    for a, b in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-14, atol=1e-15)


class Number(nn.Module):
    def __init__(self, start):
        super().__init__()
        self.value = nn.Parameter(torch.tensor(start, dtype=torch.float64))


@pytest.mark.parametrize("strategy", ["joint", "detach", "extragradient", "competitive"])
def test_a_constraint_as_a_lagrangian_ends_in_its_solution(strategy):
    """The minimum of (x − 3)² under x = 1 is at λ = 4: G is x, and D ascends λ of L = (x − 3)² + λ(x − 1)."""
    x, multiplier = Number(0.0), Number(0.0)

    def lagrangian(made):
        return (made - 3) ** 2 + multiplier.value * (made - 1)

    game = Game(
        x,
        multiplier,
        torch.optim.SGD(x.parameters(), 0.05),
        torch.optim.SGD(multiplier.parameters(), 0.05),
        generate=lambda batch: x.value * 1,
        d_loss=lambda batch, made: -lagrangian(made),
        g_loss=lambda batch, made: lagrangian(made),
        zero_sum=True,
    )
    trained(game, STRATEGIES[strategy], 800, itertools.repeat(None))
    assert (x.value.item(), multiplier.value.item()) == pytest.approx((1, 4), abs=1e-6)


def with_sources(start=0):
    """Yield the batches of `real_batches` with latents as their sources."""
    for number, x in enumerate(real_batches(), start):
        z = torch.randn(BATCH, LATENT, generator=torch.Generator().manual_seed(number), dtype=torch.float64)
        yield Batch(x, source=z)


def of_sources(gan):
    gan.prior = Sources(PreviewSamples(lambda _: None, 0), seed=3, dtype=torch.float64)
    return gan


def as_game(gan, **settings):
    """Return a tiny GAN's networks and loss as a game of functions."""
    scored = gan.discriminator
    return Game(
        gan.generator,
        scored,
        gan.optimizer_g,
        gan.optimizer_d,
        sample=lambda x: x.source,
        generate=gan.generator,
        d_loss=lambda x, fake: gan.loss.d_loss(scored(x.values), scored(fake)),
        g_loss=lambda x, fake: gan.loss.g_loss(None, scored(fake)),
        zero_sum=True,
        **settings,
    )


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_makes_its_updates_or_is_refused_for_its_need(name):
    strategy = STRATEGIES[name]
    if {*strategy.needs} & {"scores", "discriminator"}:
        with pytest.raises(ValueError, match=re.escape(LACKING[strategy.needs[0]])):
            Step(as_game(tiny_gan(CASES["minimax"])), strategy)
        return
    gan, ours = of_sources(tiny_gan(CASES["minimax"])), tiny_gan(CASES["minimax"])
    for one in (gan, as_game(ours)):
        trained(one, copy.deepcopy(strategy), 4, with_sources(), d_steps=2, g_steps=2)
    for a, b in zip(state(gan), state(ours), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)


def test_nineteen_of_the_rules_or_more_need_nothing_else():
    offered = [name for name, one in STRATEGIES.items() if {*one.needs} <= {"latents", "zero_sum"}]
    assert len(offered) >= 19
    bare = as_game(tiny_gan(CASES["minimax"]))
    bare.offers = ()
    for name in ("reuse_z", "competitive"):
        with pytest.raises(ValueError, match=re.escape(LACKING[STRATEGIES[name].needs[0]])):
            Step(bare, STRATEGIES[name])


WRAPPERS = {
    "lookahead": lambda: wrappers.Lookahead(strategies.detach, every=2),
    "anchoring": lambda: wrappers.Anchoring(strategies.joint),
    "skip": lambda: wrappers.Skip(strategies.detach, probability=0.5),
    "warm_up": lambda: wrappers.WarmUp(strategies.detach, first=2, many=3),
    "replay": lambda: wrappers.Replay(strategies.detach, size=9, share=0.5),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrappers_act_on_games_as_on_gans(name):
    gan, ours = of_sources(tiny_gan(CASES["minimax"])), tiny_gan(CASES["minimax"])
    for one in (gan, as_game(ours, seed=gan.seed)):
        trained(one, WRAPPERS[name](), 5, with_sources())
    for a, b in zip(state(gan), state(ours), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11)
    with pytest.raises(ValueError, match="scores"):
        Step(as_game(ours), wrappers.TopK(strategies.detach))


def test_pretraining_needs_g_s_objective_without_d():
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    game = vocoder.game(terms=lambda batch, fake: l1_loss(fake, batch["audio"]))
    trained(game, wrappers.Pretrain(strategies.detach, g=3), 3)
    assert game.meter.updates == {"d": 0, "g": 3}
    expected = Vocoder(OPTIMIZERS["sgd"])
    for batch in itertools.islice(batches(), 3):
        expected.opt_g.zero_grad()
        l1_loss(expected.G(batch["mel"]), batch["audio"]).backward()
        expected.opt_g.step()
    assert all(map(torch.equal, expected.weights(), vocoder.weights()))
    with pytest.raises(ValueError, match="terms="):
        trained(vocoder.game(), wrappers.Pretrain(strategies.detach, g=3), 1)


@dataclasses.dataclass(frozen=True)
class Wave:
    low: Any
    high: Any
    rate: int = 24_000


def test_fakes_are_detached_and_given_back_in_their_nesting():
    nest = {"a": [torch.ones(2, requires_grad=True) * 2], "b": (Wave(torch.ones(1), torch.zeros(3)), "text"), "c": None}
    changed = filled(nest, [tensor + 1 for tensor in tensors_in(nest)])
    assert [tensor.sum().item() for tensor in tensors_in(changed)] == [6, 2, 3]
    assert (changed["b"][0].rate, changed["b"][1], changed["c"]) == (24_000, "text", None)
    vocoder, seen = Vocoder(OPTIMIZERS["sgd"]), []

    def d_loss(batch, fake):
        seen.append([tensor.requires_grad for tensor in tensors_in(fake)])
        return vocoder.d_loss(batch, fake["waves"][0].low)

    def g_loss(batch, fake):
        seen.append([tensor.requires_grad for tensor in tensors_in(fake)])
        return vocoder.g_loss(batch, fake["waves"][0].low)

    game = Game(
        *(vocoder.G, vocoder.D, vocoder.opt_g, vocoder.opt_d),
        generate=lambda batch: {"waves": [Wave(audio := vocoder.G(batch["mel"]), audio * 2)]},
        d_loss=d_loss,
        g_loss=g_loss,
    )
    trained(game, strategies.detach, 5)
    assert seen[:2] == [[False, False], [True, True]]
    plain = Vocoder(OPTIMIZERS["sgd"])
    plain.loop(5, g_first=False)
    assert all(map(torch.equal, plain.weights(), vocoder.weights()))


@pytest.mark.parametrize("strategy", ["detach", "extragradient", "consensus"])
def test_parts_of_a_batch_give_the_gradients_of_the_whole(strategy):
    ends = []
    for accumulate in (1, 4):  # six samples in parts of two
        vocoder = Vocoder(OPTIMIZERS["sgd"])
        trained(vocoder.game(accumulate=accumulate), copy.deepcopy(STRATEGIES[strategy]), 3)
        ends.append(vocoder.weights())
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


def test_what_a_batch_is_split_into_has_one_first_dimension():
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    uneven = ({"mel": batch["mel"], "audio": batch["audio"][:-1]} for batch in batches())
    with pytest.raises(ValueError, match="accumulate"):
        trained(vocoder.game(accumulate=2), strategies.detach, 1, uneven)
    vocoder.G.append(nn.BatchNorm1d(8))
    vocoder.opt_g.add_param_group({"params": [*vocoder.G[-1].parameters()]})
    with pytest.raises(ValueError, match="batch norm"):
        vocoder.game(accumulate=2)


def test_several_optimizers_and_frozen_parts():
    one, two = Vocoder(OPTIMIZERS["adamw"]), Vocoder(OPTIMIZERS["adamw"])
    two.opt_d = [torch.optim.AdamW(d.parameters(), 2e-3) for d in two.D]
    for vocoder in (one, two):
        vocoder.D[1][0].weight.requires_grad_(False)
        trained(vocoder.game(), strategies.joint, 4)
    assert all(map(torch.equal, one.weights(), two.weights()))
    assert torch.equal(two.D[1][0].weight, net(4, 5, 1, seed=2)[0].weight)


def test_a_row_has_objectives_norms_and_updates():
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    game = vocoder.game()
    step, reals, losses = Step(game, strategies.joint), batches(), []
    for keep in (False, True):
        batch = next(reals)
        with torch.no_grad():
            fake = vocoder.G(batch["mel"])
            losses.append((vocoder.d_loss(batch, fake).item(), vocoder.g_loss(batch, fake).item()))
        weights = vocoder.weights()
        step(iter([batch]), keep_gradients=keep)
    row = game.read()
    moved = torch.cat([(a - b).flatten() for a, b in zip(weights[:4], vocoder.weights()[:4], strict=True)])
    assert row["loss/d"] == pytest.approx(sum(d for d, _ in losses) / 2)
    assert row["loss/g"] == pytest.approx(sum(g for _, g in losses) / 2)
    assert {key: row[key] for key in ("updates/d", "updates/g")} == {"updates/d": 2, "updates/g": 2}
    assert row.keys() == {"loss/d", "loss/g", "grad_norm/d", "grad_norm/g", "updates/d", "updates/g"}
    assert moved.norm() > 0
    assert game.read().keys() == {"grad_norm/d", "grad_norm/g", "updates/d", "updates/g"}


def test_a_strategy_with_a_memory_resumes():
    def ours():
        vocoder = Vocoder(OPTIMIZERS["sgd"])
        return vocoder, Step(vocoder.game(), strategies.PastExtragradient())

    whole, first = ours(), ours()
    for _, step in (whole, first):
        reals = batches()
        for _ in range(3):
            step(reals)
    second = Vocoder(OPTIMIZERS["sgd"])
    for a, b in zip((second.G, *second.D), (first[0].G, *first[0].D), strict=True):
        a.load_state_dict(b.state_dict())
    second.opt_g.load_state_dict(first[0].opt_g.state_dict())
    second.opt_d.load_state_dict(first[0].opt_d.state_dict())
    step = Step(second.game(), strategies.PastExtragradient())
    step.load_state_dict(copy.deepcopy(first[1].state_dict()))
    for one in (whole[1], step):
        reals = batches(3)
        for _ in range(2):
            one(reals)
    assert all(map(torch.equal, whole[0].weights(), second.weights()))


@pytest.mark.parametrize("strategy", ["detach", "extragradient"])
def test_processes_average_their_gradients(strategy, tmp_path):
    def work(processes):
        vocoder = Vocoder(OPTIMIZERS["sgd"])
        wrapped, share = DistributedDataParallel(vocoder.G), slice(3 * processes.rank, 3 * processes.rank + 3)
        inner, vocoder.G = vocoder.G, wrapped
        game = vocoder.game()
        assert game.generator is inner
        trained(game, STRATEGIES[strategy], 4, ({k: v[share] for k, v in batch.items()} for batch in batches()))
        with pytest.raises(ValueError, match="process"):
            Step(game, strategies.Consensus())
        vocoder.G = inner
        return vocoder.weights()

    alone = Vocoder(OPTIMIZERS["sgd"])
    trained(alone.game(), STRATEGIES[strategy], 4)
    assert not dist.is_initialized()
    for ends in several(2, work, tmp_path / "both"):
        for a, b in zip(alone.weights(), ends, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


def refused(match, strategy=strategies.detach, count=1, reals=None, **functions):
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    given = {"generate": lambda batch: vocoder.G(batch["mel"]), "d_loss": vocoder.d_loss, "g_loss": vocoder.g_loss}
    game = Game(vocoder.G, vocoder.D, vocoder.opt_g, vocoder.opt_d, **given | functions)
    with pytest.raises(ValueError, match=match):
        trained(game, strategy, count, reals)


def test_bad_objectives_and_batches_are_one_sentence_each():
    refused("d_loss returns a tensor of shape", d_loss=lambda batch, fake: fake)
    refused("g_loss returns 1.0", g_loss=lambda batch, fake: 1.0)
    refused("depends on no parameter", d_loss=lambda batch, fake: fake.mean())
    refused("depends on no parameter", g_loss=lambda batch, fake: fake.detach().mean())
    refused("generate should return a tensor", generate=lambda batch: "audio")
    refused("ended within an iteration, after 0 updates of D and 0 of G", reals=iter([]))
    refused("after 1 updates of D and 0 of G", strategies.resample, reals=itertools.islice(batches(), 1))


def test_bad_players_are_one_sentence_each():
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    for wrong, match in (
        ({"discriminator": []}, "discriminator should be a module"),
        ({"optimizer_d": [vocoder.opt_d, vocoder.opt_d]}, "share parameters"),
        ({"optimizer_g": vocoder.opt_d}, "parameters that are not the generator's"),
        ({"optimizer_g": torch.amp.GradScaler("cpu")}, "GradScaler"),
        ({"optimizer_g": "adam"}, "should be an optimiser"),
        ({"discriminator": [*vocoder.D, net(2, 1)]}, r"2\.0\.weight"),
        ({"generator": vocoder.D[0]}, "share parameters"),
    ):
        players = {
            "generator": vocoder.G,
            "discriminator": vocoder.D,
            "optimizer_g": vocoder.opt_g,
            "optimizer_d": vocoder.opt_d,
        }
        with pytest.raises(ValueError, match=match):
            Game(**players | wrong, generate=vocoder.G, d_loss=vocoder.d_loss, g_loss=vocoder.g_loss)


def test_compiled_networks_are_refused_where_derivatives_are_differentiated():
    vocoder = Vocoder(OPTIMIZERS["sgd"])
    vocoder.G.compile(backend="eager")
    game = vocoder.game()
    trained(game, strategies.joint, 2)
    with pytest.raises(ValueError, match="Sequential is compiled"):
        Step(game, strategies.Consensus())


def test_gradients_are_clipped_to_the_norm():
    vocoder, plain = Vocoder(OPTIMIZERS["sgd"]), Vocoder(OPTIMIZERS["sgd"])
    trained(vocoder.game(clip_gradients=0.1), strategies.detach, 1)
    batch = next(batches())
    fake = plain.G(batch["mel"])
    plain.d_loss(batch, fake.detach()).backward()
    nn.utils.clip_grad_norm_([p for d in plain.D for p in d.parameters()], 0.1)
    plain.opt_d.step()
    for a, b in zip(plain.weights()[4:], vocoder.weights()[4:], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14)
