"""Terms that look at D, what balances them with the loss, G's own terms, and networks that begin one after the other."""

import copy
import itertools
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

from ganexp import GAN, Batch, Step, strategies
from ganexp.distributed.batch_norm import synchronise
from ganexp.distributed.processes import Processes
from ganexp.facts import Facts, Misfit
from ganexp.losses import Hinge, Minimax, NonSaturating
from ganexp.networks import VAE, VQ
from ganexp.sources import PreviewSamples, Sources
from ganexp.strategies.base import as_strategy
from ganexp.terms import KL, L1, L2, Balance, Commitment, FeatureMatching, LastLayer, Normalize, Output, Perceptual, Transport
from ganexp.terms.base import Generated
from ganexp.wrappers import Lookahead, Pretrain
from tests.composing import every_strategy
from tests.distributed.forks import several
from tests.strategies.maps import EQUAL
from tests.strategies.sourced import Seekable, assert_recorded_and_resumed, batches, everything, trained
from tests.tiny import BATCH, LATENT, STRATEGIES, TWICE, descend, iterate, tiny_trainer


class Translator(nn.Module):
    reads_sources = True

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(LATENT, 7), nn.Linear(7, 2)

    @property
    def last_layer(self):
        return self.last.weight

    def forward(self, source):
        return self.last(self.first(source).tanh())


class Layered(nn.Module):
    """Scores of a point beside its source, at one place or at 36, with the features of two layers."""

    reads_source = True

    def __init__(self, places=1):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(2 + LATENT, 8), nn.Linear(8, 6), nn.Linear(6, places)

    def features(self, x, source):
        first = self.first(torch.cat([x, source], 1)).tanh()
        return [first, self.second(first).tanh()]

    def forward(self, x, source):
        scores = self.last(self.features(x, source)[-1])
        return scores.squeeze(1) if scores.shape[1] == 1 else scores.view(-1, 1, 6, 6)


def gan(terms=None, *, loss=NonSaturating, places=1, processes=None, sgd=False, **settings):
    torch.manual_seed(0)
    generator, discriminator = Translator().double(), Layered(places).double()
    for network in (generator, discriminator):
        if processes is not None:
            synchronise(network, processes)
    kind = {"lr": 0.05} if sgd else {"lr": 0.01, "betas": (0.5, 0.999), "fused": True}
    make = torch.optim.SGD if sgd else torch.optim.Adam
    return GAN(
        generator,
        discriminator,
        loss(),
        make(generator.parameters(), **kind),
        make(discriminator.parameters(), **kind),
        Sources(PreviewSamples(lambda _: None, 0), seed=3, dtype=torch.float64),
        batch_size=BATCH,
        processes=processes,
        terms={"fm": FeatureMatching(weight=2.0), "l1": L1(weight=3.0)} if terms is None else terms,
        **settings,
    )


@pytest.mark.parametrize("places", [1, 36])
@pytest.mark.parametrize(("first", "second"), EQUAL)
def test_equal_strategies_stay_equal(first, second, places):
    ends = [trained(gan(loss=Minimax, places=places), STRATEGIES[one]) for one in (first, second)]
    torch.testing.assert_close(*ends, rtol=1e-8, atol=1e-10)


def test_a_plain_loop_with_feature_matching_is_detach():
    plain, reals = gan(), batches()
    g, d = plain.generator, plain.discriminator
    for _ in range(4):
        x = next(reals)
        s, t = x.source, x.values
        fake = g(s)
        descend(plain.optimizer_d, softplus(-d(t, s)).mean() + softplus(d(fake.detach(), s)).mean())
        pairs = zip(d.features(fake, s), d.features(t, s), strict=True)
        matched = sum((a - b.detach()).abs().mean() for a, b in pairs) / 2
        descend(plain.optimizer_g, softplus(-d(fake, s)).mean() + 2 * matched + 3 * (fake - t).abs().mean())
    torch.testing.assert_close(trained(gan(), strategies.detach), everything(plain), rtol=1e-10, atol=1e-12)


def test_the_jacobian_of_the_game_knows_that_targets_have_features_too():
    model, x = gan({"fm": FeatureMatching(weight=2.0)}), next(batches())

    def field():
        next(model.follow(iter([x])))
        return model.field(*model.losses_of_both(model.packed(x), model.generate(model.sample())))

    def v():
        next(model.follow(iter([x])))
        d, g = model.losses(model.packed(x), model.generate(model.sample()))
        return torch.cat([one.flatten() for player in model.gradients(d, g) for one in player])

    found = field()
    u = [torch.randn_like(one) for one in found.parameters]
    along, step = torch.cat([one.flatten() for one in found.both(u)[1]]), 1e-6
    with torch.no_grad():
        torch._foreach_add_(found.parameters, u, alpha=step)
    ahead = v()
    with torch.no_grad():
        torch._foreach_add_(found.parameters, u, alpha=-2 * step)
    behind = v()
    with torch.no_grad():
        torch._foreach_add_(found.parameters, u, alpha=step)
    torch.testing.assert_close(along, (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


def test_unrolled_matches_features_of_the_discriminator_ahead():
    rule, x = strategies.Unrolled(k=2, rate=0.3), next(batches())
    model = gan({"fm": FeatureMatching(weight=2.0)}, sgd=True)

    def value():
        next(model.follow(iter([x])))
        return rule.g_loss(model, model.packed(x), model.generate(model.sample())).value

    weights = model.g_parameters
    gradients = torch.autograd.grad(value(), weights)
    direction = [torch.randn_like(one) for one in weights]
    ends = []
    for sign in (1, -2):
        with torch.no_grad():
            torch._foreach_add_(weights, direction, alpha=sign * 1e-6)
        ends.append(value().item())
    expected = sum((a * b).sum().item() for a, b in zip(gradients, direction, strict=True))
    assert (ends[0] - ends[1]) / 2e-6 == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("balance", [LastLayer(weight=0.8), Output(weight=0.8)])
def test_a_step_of_vqgan_with_its_weight_by_backward_is_detach(balance):
    plain, x = gan(sgd=True, loss=Hinge), next(batches())
    g, d, s, t = plain.generator, plain.discriminator, x.source, x.values
    fake = g(s)
    descend(plain.optimizer_d, (1 - d(t, s)).relu().mean() + (1 + d(fake.detach(), s)).relu().mean())
    pairs = zip(d.features(fake, s), d.features(t, s), strict=True)
    terms = 2 * sum((a - b.detach()).abs().mean() for a, b in pairs) / 2 + 3 * (fake - t).abs().mean()
    adversarial = -d(fake, s).mean()
    fake.retain_grad()
    norms = []
    for one in (terms, adversarial):
        plain.optimizer_g.zero_grad()
        fake.grad = None
        one.backward(retain_graph=True)
        norms.append((g.last.weight.grad if isinstance(balance, LastLayer) else fake.grad).norm().item())
    factor = 0.8 * norms[0] / (norms[1] + 1e-4)
    descend(plain.optimizer_g, factor * adversarial + terms)
    model = gan(sgd=True, loss=Hinge, balance=copy.deepcopy(balance))
    ends = trained(model, strategies.detach, 1)
    torch.testing.assert_close(ends, everything(plain), rtol=1e-12, atol=1e-13)
    assert model.meter.read({})["terms/adversarial_factor"] == pytest.approx(factor, rel=1e-12)


def test_normalize_gives_each_gradient_its_share_of_the_norm():
    """By hand, with averages of norms that begin with the first update."""
    terms = {"l1": L1(weight=3.0), "l2": L2(weight=1.0)}
    plain, model = gan({}, sgd=True), gan(terms, sgd=True, balance=Normalize(weight=2.0, norm=0.7, decay=0.9))
    reals, averages, fix = batches(), dict.fromkeys(("adversarial", "l1", "l2"), 0.0), 0.0
    shares = {"adversarial": 2 / 6, "l1": 3 / 6, "l2": 1 / 6}
    for _ in range(3):
        x = next(reals)
        s, t = x.source, x.values
        fake = plain.generator(s)
        d = plain.discriminator
        descend(plain.optimizer_d, softplus(-d(t, s)).mean() + softplus(d(fake.detach(), s)).mean())
        values = {
            "adversarial": softplus(-d(fake, s)).mean(),
            "l1": (fake - t).abs().mean(),
            "l2": (fake - t).square().mean(),
        }
        fix = 0.9 * fix + 1
        whole = torch.zeros_like(fake)
        for name, value in values.items():
            (gradient,) = torch.autograd.grad(value, fake, retain_graph=True)
            averages[name] = 0.9 * averages[name] + gradient.norm().item()
            whole += 0.7 * shares[name] * gradient / (averages[name] / fix)
        plain.optimizer_g.zero_grad()
        fake.backward(whole)
        plain.optimizer_g.step()
    torch.testing.assert_close(trained(model, strategies.detach, 3), everything(plain), rtol=1e-9, atol=1e-11)


BALANCES = {"last_layer": LastLayer, "output": Output, "normalize": lambda: Normalize(decay=0.5)}


def shares(processes):
    def share():
        for batch in batches():
            yield processes.own(batch)

    return {
        name: trained(gan(processes=processes, balance=make(), term_gradients=True), strategies.joint, reals=share())
        for name, make in BALANCES.items()
    }


def test_two_processes_are_one(tmp_path):
    for ends in several(2, shares, tmp_path):
        for name, end in ends.items():
            whole = trained(gan(balance=BALANCES[name]()), strategies.joint)
            torch.testing.assert_close(end, whole, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("balance", BALANCES)
def test_recorded_and_resumed_runs_are_plain_ones(balance):
    assert_recorded_and_resumed(lambda: gan(balance=BALANCES[balance](), term_gradients=True), STRATEGIES["extragradient"])


def test_averages_of_norms_move_with_updates_and_not_with_looks_ahead():
    one, two = (gan(balance=Normalize(decay=0.5)) for _ in range(2))
    trained(one, STRATEGIES["extragradient"], 1)
    trained(two, strategies.joint, 1)
    assert one.balance.state_dict()["fix"].item() == two.balance.state_dict()["fix"].item() == 1.0


@pytest.mark.parametrize("strategy", [one for one in every_strategy() if str(getattr(one, "values", [one])[0]) in TWICE])
def test_strategies_that_differentiate_the_field_refuse_a_balance(strategy):
    with pytest.raises(ValueError, match=r"balance=none|joint"):
        trained(gan({"l1": L1()}, loss=Minimax, balance=Output()), STRATEGIES[strategy], 2)


def test_competitive_refuses_terms_of_d_and_keeps_those_of_g():
    with pytest.raises(ValueError, match="zero-sum"):
        trained(gan(loss=Minimax), strategies.Competitive(rate=0.1), 1)
    bare, with_l1 = (gan(terms, loss=Minimax, sgd=True) for terms in ({}, {"l1": L1(weight=3.0)}))
    x = next(batches())
    rule = strategies.Competitive(rate=1e-3, steps=20, tolerance=1e-14)
    moved = []
    for model in (bare, with_l1):
        d, g = model.losses(next(model.follow(iter([x]))), model.generate(model.sample()))
        moved.append((model, rule.anticipated(model, d, g, 1.0), model.field(d, g)))
    # (1 + M) x = v_G − η D_θψ v_D, with the M of the bare game, and v_G with the gradient of the term
    (_, _, bare_field), (_, (_, x_g), field) = moved
    v_d, v_g = field.split(field.vector)
    rate = 1e-3
    answer = torch._foreach_mul(bare_field.of_d_by_g(v_d), rate)
    m = torch._foreach_mul(bare_field.of_d_by_g(torch._foreach_mul(bare_field.of_g_by_d(list(x_g)), rate)), rate)
    left = torch._foreach_sub([*x_g], m)
    torch.testing.assert_close(left, torch._foreach_add(list(v_g), answer), rtol=1e-9, atol=1e-12)


def test_gradients_of_terms_are_measured_on_request():
    model, x = gan(sgd=True, term_gradients=True), next(batches())
    Step(model, strategies.detach)(iter([x]), keep_gradients=True)
    row = model.meter.read({})
    other = gan(sgd=True)
    d, s, t = other.discriminator, x.source, x.values
    fake = other.generator(s)
    descend(other.optimizer_d, softplus(-d(t, s)).mean() + softplus(d(fake.detach(), s)).mean())
    (of_loss,) = torch.autograd.grad(softplus(-d(fake, s)).mean(), fake, retain_graph=True)
    (of_l1,) = torch.autograd.grad((fake - t).abs().mean(), fake)
    assert row["terms/adversarial_gradient"] == pytest.approx(of_loss.norm().item(), rel=1e-10)
    assert row["terms/l1_gradient"] == pytest.approx(of_l1.norm().item(), rel=1e-10)
    cosine = torch.cosine_similarity(of_loss.flatten(), of_l1.flatten(), 0).item()
    assert row["terms/l1_cosine"] == pytest.approx(cosine, rel=1e-10)
    Step(model, strategies.detach)(iter([x]))
    assert "terms/l1_cosine" not in model.meter.read({})


@pytest.mark.parametrize("balance", [Balance(), Normalize(decay=0.5), Output()])
def test_gradients_of_zero_are_no_divergence(balance):
    model, x = (
        gan({"l1": L1(weight=3.0)}, loss=Hinge, sgd=True, term_gradients=True, balance=copy.deepcopy(balance)),
        next(batches()),
    )
    with torch.no_grad():
        model.discriminator.last.weight.zero_()
    model.meter.begin(keep_gradients=True)
    g = model.g_loss(None, model.generate(model.prior.of(x)))
    model.update_g(g)
    row = model.meter.read({})
    assert row["terms/adversarial_gradient"] == row["terms/l1_cosine"] == 0
    assert all(abs(value) <= 1e8 for value in row.values())


def test_a_weight_of_zero_trains_g_on_its_terms_alone():
    model = gan({"l1": L1(weight=3.0)}, sgd=True, balance=Balance(weight=0.0))
    trained(model, strategies.detach)
    plain = gan({}, sgd=True)
    for x in itertools.islice(batches(), 4):
        descend(plain.optimizer_g, 3 * (plain.generator(x.source) - x.values).abs().mean())
    torch.testing.assert_close([*model.generator.parameters()], [*plain.generator.parameters()], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("weight", "terms", "warned"), [(0.0, 0, True), (0.0, 1, False), (1.0, 0, False)])
def test_a_weight_of_zero_without_terms_is_warned_of(weight, terms, warned):
    run = Facts(shape=(2,), terms=terms)
    Balance(weight=weight).check(run)
    assert bool(run.warnings) is warned


def test_pretraining_is_g_alone_then_d_alone_then_both():
    model, rule = gan({"l1": L1(weight=3.0), "fm": FeatureMatching()}), Pretrain(strategies.detach, g=2, d=2)
    plain, step, reals = gan({}), Step(model, rule), batches()
    start = [one.clone() for one in model.discriminator.parameters()]
    for x in itertools.islice(batches(), 2):
        descend(plain.optimizer_g, 3 * (plain.generator(x.source) - x.values).abs().mean())
        step(reals)
    assert all(map(torch.equal, start, model.discriminator.parameters()))
    assert not model.optimizer_d.state
    torch.testing.assert_close([*model.generator.parameters()], [*plain.generator.parameters()], rtol=1e-10, atol=1e-12)
    d = plain.discriminator
    for x in itertools.islice(batches(2), 2):
        fake = plain.generator(x.source).detach()
        descend(plain.optimizer_d, softplus(-d(x.values, x.source)).mean() + softplus(d(fake, x.source)).mean())
        step(reals)
    torch.testing.assert_close(everything(model), everything(plain), rtol=1e-10, atol=1e-12)
    before = [one.clone() for one in model.generator.parameters()]
    step(reals)
    assert not any(map(torch.equal, before, model.generator.parameters()))
    assert model.meter.updates == {"d": 3, "g": 3}


def test_d_may_learn_beside_g_before_its_loss_counts():
    model, rule = gan({"l1": L1(weight=3.0)}), Pretrain(strategies.detach, g=1, beside=3)
    plain, step = gan({}), Step(model, rule)
    d, ours, theirs = plain.discriminator, batches(), batches()
    for iteration in range(4):
        if iteration:
            x = next(theirs)
            fake = plain.generator(x.source).detach()
            descend(plain.optimizer_d, softplus(-d(x.values, x.source)).mean() + softplus(d(fake, x.source)).mean())
        else:
            x = next(theirs)
        descend(plain.optimizer_g, 3 * (plain.generator(x.source) - x.values).abs().mean())
        step(ours)
    torch.testing.assert_close(everything(model), everything(plain), rtol=1e-10, atol=1e-12)
    assert model.meter.updates == {"d": 3, "g": 4}


def test_a_resumed_pretraining_goes_on():
    def trainer():
        return tiny_trainer(strategy=Pretrain(strategies.detach, g=3, d=3), gan=gan(), reals=Seekable(), iterations=8)

    whole = trainer()
    iterate(whole, 8)
    for parted_at in (2, 4, 7):
        first, second = trainer(), trainer()
        iterate(first, parted_at)
        second.load_state_dict(first.state_dict())
        iterate(second, 8 - parted_at)
        assert all(map(torch.equal, everything(whole.step.gan), everything(second.step.gan)))


def images(count=None, side=8):
    for number in itertools.count() if count is None else range(count):
        x = torch.rand(BATCH, 1, side, side, generator=torch.Generator().manual_seed(number), dtype=torch.float64) * 2 - 1
        yield Batch(x, source=x)


class OfImages(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0))

    def forward(self, x):
        return self.layers(x)


def autoencoding(kind, terms, processes=None, **settings):
    torch.manual_seed(0)
    shape = (1, 8, 8)
    generator = kind(shape, shape, width=3, depth=2, **settings).double()
    discriminator = OfImages().double()
    return GAN(
        generator,
        discriminator,
        Hinge(),
        torch.optim.Adam(generator.parameters(), lr=1e-2, fused=True),
        torch.optim.Adam(discriminator.parameters(), lr=1e-2, fused=True),
        Sources(PreviewSamples(lambda _: None, 0), dtype=torch.float64),
        batch_size=BATCH,
        processes=processes,
        terms=terms,
    )


def vq(processes=None):
    return autoencoding(VQ, {"l1": L1(weight=1.0), "commitment": Commitment()}, processes, codes=11, length=3, decay=0.8)


def test_the_codebook_follows_averages_and_g_gets_the_gradient_of_a_straight_pass():
    model, x = vq(), next(images())
    plain = copy.deepcopy(model.generator)
    z = plain.to_codes(plain.encoder(x.values)).permute(0, 2, 3, 1)
    z = z / z.norm(dim=3, keepdim=True)
    distances = (z.unsqueeze(3) - plain.book).square().sum(4)
    chosen = distances.argmin(3)
    code = plain.book[chosen]
    commitment = (z - code).square().mean()
    fake = plain.decode((code.detach() + z - z.detach()).permute(0, 3, 1, 2))
    loss = -model.discriminator(fake).mean() + (fake - x.values).abs().mean() + 0.25 * commitment
    expected = torch.autograd.grad(loss, [*plain.parameters()])
    found = []
    model.optimizer_g.register_step_pre_hook(lambda *_: found.extend(p.grad.clone() for p in model.g_parameters))
    trained(model, strategies.joint, 1, images())
    torch.testing.assert_close(found, [*expected], rtol=1e-9, atol=1e-12)
    rows = z.detach().flatten(0, 2)
    counts, sums = torch.ones(11).double(), plain.book.clone()
    for code in range(11):
        mine = rows[chosen.flatten() == code]
        counts[code] = 0.8 * counts[code] + 0.2 * len(mine)
        sums[code] = 0.8 * sums[code] + 0.2 * mine.sum(0)
    torch.testing.assert_close(model.generator.counts, counts, rtol=1e-12, atol=0)
    torch.testing.assert_close(model.generator.book, nn.functional.normalize(sums, dim=1), rtol=1e-9, atol=1e-10)


def test_a_code_without_vectors_keeps_its_place_and_the_used_ones_are_counted():
    model = vq()
    G = model.generator.float()
    before = G.book.clone()
    chosen = torch.tensor([2, 2, 5, 7, 7, 7])
    for _ in range(4000):
        G._see(nn.functional.normalize(torch.randn(6, 3), dim=1), chosen)
        G.advance(Processes())
    unused = [one for one in range(11) if one not in chosen]
    torch.testing.assert_close(G.book[unused], before[unused], rtol=0, atol=1e-4)
    torch.testing.assert_close(G.book.norm(dim=1), torch.ones(11))
    measured = model.measurements()
    assert measured.keys() == VQ.measures.keys()
    assert measured["codes/used"] == 3
    assert measured["codes/perplexity"].item() == pytest.approx(3 ** (1 / 3) * 6 ** (1 / 6) * 2 ** (1 / 2), rel=1e-5)


@pytest.mark.parametrize("strategy", [one for one in every_strategy() if getattr(one, "values", [one])[0] not in TWICE])
def test_the_codebook_moves_once_for_each_update_of_g(strategy):
    model = vq()
    moved = []
    advance = model.generator.advance
    model.generator.advance = lambda processes: (moved.append(1), advance(processes))
    rule = STRATEGIES[strategy]
    for name in ("refuse",):
        if name in vars(type(as_strategy(rule))) and strategy in ("one_stage", "competitive"):
            return
    Step(model, rule, d_steps=2, g_steps=3)(images())
    assert len(moved) == model.meter.updates["g"] == 3


def test_the_codebook_rests_where_d_learns_and_where_samples_are_looked_at():
    model = vq()
    before = model.generator.book.clone()
    model.update_d(model.d_loss(next(images()), model.generate(model.prior.of(next(images()))).detach()))
    model.generator.eval()(next(images()).values)
    assert torch.equal(before, model.generator.book)


def codebooks(processes):
    def share():
        for batch in images():
            yield processes.own(batch)

    return trained(vq(processes), Lookahead(strategies.detach, every=2), reals=share())


def test_a_codebook_of_two_processes_is_that_of_one(tmp_path):
    whole = trained(vq(Processes()), Lookahead(strategies.detach, every=2), reals=images())
    kept = [i for i, one in enumerate(whole) if one.shape not in ((11,), (11, 3)) or i < len(whole) - 2]
    for end in several(2, codebooks, tmp_path):
        torch.testing.assert_close([end[i] for i in kept], [whole[i] for i in kept], rtol=1e-8, atol=1e-10)


def test_kl_is_that_of_normal_distributions():
    model, x = autoencoding(VAE, {"kl": KL(weight=0.1)}, noise=False), next(images())
    mean, log_variance = model.generator.to_codes(model.generator.encoder(x.values)).chunk(2, 1)
    ours = torch.distributions.Normal(mean, (0.5 * log_variance).exp())
    expected = torch.distributions.kl_divergence(ours, torch.distributions.Normal(0.0, 1.0)).sum((1, 2, 3)).mean()
    trained(model, strategies.detach, 1, images())
    assert model.meter.read({})["terms/kl"] == pytest.approx(expected.item(), rel=1e-6)


def test_transport_is_the_mean_squared_distance_from_z():
    model = gan({"transport": Transport(weight=0.7)}, sgd=True)
    model.generator.last = nn.Linear(7, LATENT).double()
    model.discriminator.first = nn.Linear(2 * LATENT, 8).double()
    model.optimizer_g.add_param_group({"params": model.generator.last.parameters()})
    x = next(batches())
    x.values = torch.randn(BATCH, LATENT, dtype=torch.float64)
    value = (model.generator(x.source) - x.source).square().mean().item()
    trained(model, strategies.detach, 1, iter([x]))
    assert model.meter.read({})["terms/transport"] == pytest.approx(value, rel=1e-12)
    with pytest.raises(ValueError, match="latent_dim=2"):
        trained(gan({"transport": Transport()}), strategies.detach, 1)
    made = Batch(torch.zeros(3, 2, 8, 8), source=torch.zeros(6, 5))  # in packs of two
    with pytest.raises(ValueError, match=r"samples of 64 numbers with latents of 5: choose latent_dim=64$"):
        Transport()(Generated(made, *[None] * 3))


def test_the_noise_of_a_vae_has_its_variance():
    torch.manual_seed(0)
    network = VAE((1, 8, 8), (1, 8, 8), width=2, depth=2, length=2).double()
    network.decode = lambda z: z
    source = torch.rand(1, 1, 8, 8).double().expand(20_000, -1, -1, -1)
    made = network.train()(source)
    mean, log_variance = (one[0] for one in network.to_codes(network.encoder(source[:1])).chunk(2, 1))
    assert (made.mean(0) - mean).abs().max() < 0.03
    torch.testing.assert_close(made.var(0), log_variance.exp(), rtol=0.05, atol=0)
    assert torch.equal(network.eval()(source)[0], mean)


def test_a_perceptual_term_is_its_distance():
    model = gan({"perceptual": Perceptual(weight=2.0, distance=lambda a, b: (a - b).square().sum(1))}, sgd=True)
    x = next(batches())
    value = (model.generator(x.source) - x.values).square().sum(1).mean().item()
    trained(model, strategies.detach, 1)
    assert model.meter.read({})["terms/perceptual"] == pytest.approx(value, rel=1e-12)
    with pytest.raises(ValueError, match="distance"):
        trained(gan({"perceptual": Perceptual()}), strategies.detach, 1)


FACTS = Facts(shape=(1, 8, 8), source_shape=(1, 8, 8), paired=True, iterations=10, terms=1, terms_of_output=1)


@pytest.mark.parametrize(
    ("part", "facts", "remedy"),
    [
        (L1(), replace(FACTS, paired=False), "term"),
        (FeatureMatching(), FACTS, "term"),
        (Commitment(), FACTS, "term"),
        (KL(), FACTS, "term"),
        (LastLayer(), FACTS, "balance"),
        (Output(), replace(FACTS, terms_of_output=0), "balance"),
        (Output(), replace(FACTS, compiled=True), "compile"),
        (Pretrain(strategies.detach, g=3), replace(FACTS, terms=0), "g"),
        (Pretrain(strategies.detach, g=3), replace(FACTS, terms_of_d=1), "g"),
        (Pretrain(strategies.detach, g=0, beside=3), replace(FACTS, terms=0), "beside"),
        (Pretrain(strategies.detach, g=10), FACTS, "g"),
    ],
)
def test_what_does_not_fit_is_refused(part, facts, remedy):
    with pytest.raises(Misfit) as refused:
        part.check(facts)
    assert remedy in refused.value.remedy
