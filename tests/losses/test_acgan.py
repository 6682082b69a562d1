"""AC-GAN: the class losses that D returns behind its scores, against NumPy, a hand-written loop, and every strategy."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy, logsigmoid

from ganexp import GAN, Batch, Prior, build
from ganexp.config.check import check
from ganexp.facts import UserError
from ganexp.losses import ACGAN, Hinge, NonSaturating, RaGAN, SoftmaxGAN
from ganexp.networks import DCGANDiscriminator, MLPDiscriminator, MLPGenerator, ResNetDiscriminator
from ganexp.penalties import R1
from tests.composing import composed, every_strategy
from tests.tiny import BATCH, LATENT, STRATEGIES, train

SMALL = ["conditional=true", "batch_size=6", "latent_dim=3", "logger=[]", "device=cpu", "sample_every=0"]
POINTS = ["dataset=ring", "generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8"]
CHOSEN = ["loss=acgan", "discriminator.conditioning=classifier"]
WEIGHT = 0.7


def batches():
    generator = torch.Generator().manual_seed(5)
    while True:
        values = torch.randn(BATCH, 2, generator=generator, dtype=torch.float64)
        yield Batch(values, (torch.randint(3, (BATCH,), generator=generator),))


def tiny(penalty=None):
    torch.manual_seed(0)
    G = MLPGenerator(LATENT, (2,), width=5, depth=2, classes=3).double()
    D = MLPDiscriminator((2,), width=5, depth=2, classes=3, conditioning="classifier").double()
    optimizers = torch.optim.SGD(G.parameters(), lr=0.05), torch.optim.SGD(D.parameters(), lr=0.1, momentum=0.5)
    prior = Prior(LATENT, seed=3, dtype=torch.float64, frequencies=[1.0, 2.0, 1.0])
    return GAN(G, D, ACGAN(base=NonSaturating(), weight=WEIGHT), *optimizers, prior, batch_size=BATCH, penalty=penalty)


@pytest.mark.parametrize("base", [NonSaturating, Hinge, RaGAN, SoftmaxGAN])
def test_it_adds_the_mean_class_losses_of_reals_and_fakes_for_d_and_of_fakes_for_g(base):
    """Odena et al. 2017, equations 2 and 3: D maximises L_S + L_C, G maximises L_C − L_S."""
    rng, loss = np.random.default_rng(0), ACGAN(base=base(), weight=WEIGHT)
    r, f = rng.normal(size=(2, 7, 2))
    real, fake = torch.tensor(r, requires_grad=True), torch.tensor(f, requires_grad=True)
    d, g = loss.d_loss(real, fake), loss.g_loss(real.detach() if loss.g_needs_real else None, fake)
    alone = base().d_loss(real[:, 0], fake[:, 0]).item(), base().g_loss(real[:, 0], fake[:, 0]).item()
    assert d.item() == pytest.approx(alone[0] + WEIGHT * (r[:, 1].mean() + f[:, 1].mean()), rel=1e-12)
    assert g.item() == pytest.approx(alone[1] + WEIGHT * f[:, 1].mean(), rel=1e-12)
    (by_fake,) = torch.autograd.grad(g, fake)
    np.testing.assert_allclose(by_fake[:, 1], WEIGHT / 7, rtol=1e-12)
    assert torch.autograd.gradcheck(loss.d_loss, (real, fake))
    assert loss.measurements(real, fake).keys() == loss.measures.keys()
    assert loss.measurements(real, fake)["acgan/fake"].item() == pytest.approx(f[:, 1].mean())


def by_hand(strategy, iterations):
    """Return the weights that a plain loop ends with, which reads features and classes off D's layers itself."""
    gan, reals, sp = tiny(), batches(), lambda s: -logsigmoid(-s)
    G, D = gan.generator, gan.discriminator

    def told(x, labels):
        h = D.layers[:-2](x)
        return D.layers[-2](h)[:, 0], cross_entropy(D.classifier.linear(h), labels)

    def d_loss(x, y, fake, labels):
        (r, c_r), (f, c_f) = told(x, y), told(fake, labels)
        return sp(-r).mean() + sp(f).mean() + WEIGHT * (c_r + c_f)

    def g_loss(fake, labels):
        f, c_f = told(fake, labels)
        return sp(-f).mean() + WEIGHT * c_f

    def drawn():
        z = gan.prior.sample(BATCH)
        return G(z.values, *z.conditions), z.conditions[0]

    for _ in range(iterations):
        batch, (fake, labels) = next(reals), drawn()
        d = torch.autograd.grad(d_loss(batch.values, batch.conditions[0], fake.detach(), labels), list(D.parameters()))
        if strategy == "joint":
            g = torch.autograd.grad(g_loss(fake, labels), list(G.parameters()))
        step(gan.optimizer_d, d)
        if strategy == "resample":
            fake, labels = drawn()
        if strategy != "joint":
            g = torch.autograd.grad(g_loss(fake, labels), list(G.parameters()))
        step(gan.optimizer_g, g)
    return [*G.parameters(), *D.parameters()]


def step(optimizer, gradients):
    parameters = optimizer.param_groups[0]["params"]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("strategy", ["detach", "joint", "resample"])
def test_training_is_a_hand_written_loop(strategy):
    found = train(tiny(), STRATEGIES[strategy], 5, reals=batches())
    torch.testing.assert_close(found, by_hand(strategy, 5), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("make", [DCGANDiscriminator, ResNetDiscriminator, MLPDiscriminator])
def test_a_classifier_returns_the_cross_entropy_of_each_images_own_label(make):
    torch.manual_seed(0)
    D, labels = make((1, 32, 32), width=2, classes=3, conditioning="classifier").double().eval(), torch.tensor([0, 2, 1, 2])
    heard, x = [], torch.randn(4, 1, 32, 32, dtype=torch.float64)
    D.classifier.linear.register_forward_hook(lambda module, inputs, out: heard.append(out))
    outputs, others = D(x, labels), D(x, 2 - labels)
    probabilities = np.exp(heard[0].detach().numpy())
    own = probabilities[range(4), labels] / probabilities.sum(1)
    np.testing.assert_allclose(outputs[:, 1].detach(), -np.log(own), rtol=1e-10, atol=1e-14)
    assert torch.equal(outputs[:, 0], others[:, 0])  # a score is of the image alone
    assert D.further == "class_loss"
    assert [m for m in D.modules() if isinstance(m, (torch.nn.Linear, torch.nn.Conv2d))][-1] is not D.classifier.linear


def test_the_log_and_penalties_see_the_scores_alone():
    gan, plain = tiny(penalty=R1(weight=3.0)), tiny()
    x, fake = next(batches()), plain.generate(plain.sample()).detach()
    D = gan.discriminator
    points = x.values.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(D(points, *x.conditions)[:, 0].sum(), points)
    d = gan.d_loss(x, fake)
    assert d.penalty.item() == pytest.approx(3 * 0.5 * derivative.square().sum(1).mean().item(), rel=1e-12)
    expected = {
        "score/real": D(x.values, *x.conditions)[:, 0].mean(),
        "score/fake": D(fake.values, *fake.conditions)[:, 0].mean(),
    }
    expected = {key: value.item() for key, value in expected.items()}
    gan.update_d(d)
    logged = gan.meter.so_far()
    assert {key: logged[key].item() for key in expected} == pytest.approx(expected)


@pytest.mark.parametrize("strategy", every_strategy())
def test_every_strategy_trains_or_refuses(strategy):
    refused = {
        "one_stage": r"exact only for losses of one score per image, and ACGAN.*strategy=joint",
        "competitive": "needs a zero-sum loss, .* but ACGAN is not",
    }
    gan, reals, run = tiny(), batches(), STRATEGIES[strategy]
    if strategy in refused:
        with pytest.raises(ValueError, match=refused[strategy]):
            run(gan, reals, d_steps=1, g_steps=1)
        return
    before = gan.discriminator.classifier.linear.weight.clone()
    for _ in range(2):
        run(gan, reals, d_steps=1, g_steps=1)
    assert {"acgan/real", "acgan/fake"} <= gan.measurements().keys() | gan.meter.so_far().keys()
    assert not torch.equal(before, gan.discriminator.classifier.linear.weight)


@pytest.mark.slow
def test_classes_are_learnt():
    made = build(composed(*SMALL, *POINTS, *CHOSEN, "batch_size=64", "iterations=300", "log_every=300", "optimizer.lr=0.002"))
    assert made.fit()["last"]["acgan/real"] < 1  # ln 8 = 2.08 at first


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([*CHOSEN, "loss@loss.base=acgan"], "loss@loss.base"),
        ([*CHOSEN, "loss.base._target_=os.system"], r"loss\.base\._target_"),
        ([*CHOSEN, "+loss.base.margin=1"], r"loss\.base\.margin"),
        ([*CHOSEN, "keep_best=softmaxgan/d_excess"], "keep_best"),
    ],
)
def test_what_does_not_fit_is_refused(overrides, said):
    with pytest.raises(UserError, match=said):
        check(composed(*SMALL, *POINTS, *overrides))


def test_what_the_base_measures_is_logged():
    check(composed(*SMALL, *POINTS, *CHOSEN, "loss@loss.base=softmaxgan", "keep_best=softmaxgan/d_excess"))


def test_a_discriminator_that_returns_something_else_is_refused():
    gan, x = tiny(), next(batches())
    gan.discriminator.forward = lambda points, labels: points[:, :1]
    with pytest.raises(ValueError, match=r"its class_loss behind it, \(6, 1 \+ k\) in all, and returned \(6, 1\)"):
        gan.score_real(x)
