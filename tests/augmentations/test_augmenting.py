"""What holds for every augmentation, and how a GAN applies one: to all that D scores, the same way, in every strategy."""

import pytest
import torch
from torch import nn

from ganexp import GAN, Batch, Prior
from ganexp.augmentations import Ada, DiffAugment, NoAugmentation
from ganexp.gan.packing import packed
from ganexp.losses import NonSaturating
from ganexp.networks import MLPDiscriminator
from ganexp.penalties import R1, GradientPenalty, Orthogonal
from tests.augmentations.images import begun, built, images, weights
from tests.composing import declared, options
from tests.tiny import STRATEGIES, iterate


class Surely(Ada):
    """ADA with a probability that begins high."""

    def begin(self, seed, device, pack=1):
        super().begin(seed, device, pack)
        self.p.fill_(0.8)


CHOICES = {name: [f"augment={name}"] for name in options("augment") if name != "none"}
for name in ("ada", "apa"):
    CHOICES[name] += ["augment.target=-0.9", "augment.images=10", "augment.every=1"]
EVERY = {name: declared("augment", name) for name in CHOICES} | {"ada": Surely}
every_augmentation = pytest.mark.parametrize("name", EVERY)
every_transformation = pytest.mark.parametrize("name", [name for name in EVERY if name != "apa"])


class Mean(nn.Module):
    """A discriminator that keeps what it sees."""

    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(0.7, dtype=torch.float64))
        self.seen = []

    def forward(self, x):
        self.seen.append(x.detach())
        return self.gain * x.square().mean((1, 2, 3))


class Painter(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.layer, self.shape = nn.Linear(3, torch.Size(shape).numel()).double(), shape

    def forward(self, z):
        return self.layer(z).view(-1, *self.shape).tanh()


def gan_of(augmentation, penalty=None):
    torch.manual_seed(0)
    generator, discriminator = Painter((3, 8, 8)), Mean()
    optimizers = [torch.optim.SGD(network.parameters(), lr=0.1) for network in (generator, discriminator)]
    prior = Prior(3, dtype=torch.float64)
    return GAN(
        generator, discriminator, NonSaturating(), *optimizers, prior, batch_size=7, augment=augmentation, penalty=penalty
    )


@every_transformation
def test_each_image_is_transformed_by_itself(name):
    x = images(6)
    other = torch.cat([x[:1], images(5, seed=1)])
    made, beside_others = (begun(EVERY[name]()).transform(one) for one in (x, other))
    assert torch.equal(made[0], beside_others[0])
    assert not torch.equal(made[0], x[0])


@every_augmentation
@pytest.mark.parametrize("channels", [1, 3])
def test_gradients_and_gradients_of_gradients(name, channels):
    def transformed(x):
        return begun(EVERY[name]()).transform(x)

    x = images(2, channels, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(transformed, x, fast_mode=True)
    assert torch.autograd.gradgradcheck(lambda x: transformed(x).square(), x, fast_mode=True)


@every_transformation
def test_real_and_generated_images_are_transformed_alike(name):
    """The same image as both: what D sees of the two has the same mean and the same spread at every pixel."""
    gan = gan_of(EVERY[name]())
    same = images(1).expand(4000, -1, -1, -1)
    gan.losses(Batch(same), Batch(same))
    real, fake = gan.discriminator.seen
    assert not torch.equal(real, fake)
    for power in (1, 2):
        a, b = real**power, fake**power
        error = ((a.var(0) + b.var(0)) / 4000).sqrt()
        assert (((a.mean(0) - b.mean(0)) / error).abs() < 5).all()


@every_transformation
def test_d_sees_only_transformed_images_under_every_verb(name):
    gan = gan_of(EVERY[name](), R1())
    x, fake = Batch(images(7)), gan.generate(gan.sample())
    gan.d_loss(x, fake)
    gan.g_loss(x, fake)
    gan.losses(x, fake)
    gan.penalty_term(gan.discriminator, x, fake)
    assert len(gan.discriminator.seen) == 2 + 1 + 1 + 2 + 1 + 1  # scores and, three times, R1's
    for seen in gan.discriminator.seen:
        assert not any(torch.equal(seen[i], one.values[i]) for one in (x, fake) for i in range(7))


@every_augmentation
def test_r1_takes_the_slope_of_d_after_the_transformation_at_the_image_itself(name):
    gan = gan_of(EVERY[name](), R1(weight=3))
    x = images(7)
    by_hand, at = begun(EVERY[name]()), x.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(gan.discriminator(by_hand.transform(at)).sum(), at)
    expected = 3 / 2 * derivative.square().sum((1, 2, 3)).mean()
    assert gan.penalty_term(gan.discriminator, Batch(x), Batch(x)).item() == pytest.approx(expected.item(), rel=1e-12)


@every_augmentation
def test_strategies_stay_the_same_algorithms(name):
    ends = {}
    for strategy in ("detach", "retain_graph", "reuse_z", "joint", "one_stage"):
        gan = gan_of(EVERY[name](), GradientPenalty())
        gan.penalty.begin(0, torch.device("cpu"))
        reals = iter([Batch(images(7, seed=seed)) for seed in range(9)])
        for _ in range(2):
            STRATEGIES[strategy](gan, reals, d_steps=1, g_steps=2)
            gan.finish_iteration()
        ends[strategy] = weights(gan)
    assert all(torch.equal(a, b) for a, b in zip(ends["detach"], ends["retain_graph"], strict=True))
    torch.testing.assert_close(ends["detach"], ends["reuse_z"], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(ends["joint"], ends["one_stage"], rtol=1e-10, atol=1e-11)


@every_transformation
def test_mixed_precision_does_not_reach_it(name):
    """Positions of pixels in bfloat16 would be wrong by whole pixels."""
    seen = []
    for precision in ("fp32", "bf16"):
        gan = built(*CHOICES[name], f"precision={precision}").gan
        gan.discriminator.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
        gan.score(Batch(images(5).float()), gan.discriminator)
    assert torch.equal(*seen)


def test_none_is_nothing():
    gan = gan_of(None)
    batch = Batch(images(3))
    assert isinstance(gan.augment, NoAugmentation)
    assert gan.augment(batch) is batch
    assert gan.augment.before(gan.discriminator) is gan.discriminator
    assert gan.augment.streams() == []
    assert gan.augment.state_dict() == {}


def test_it_draws_from_a_stream_of_its_own():
    """Latents, and what the penalty draws, are the same with an augmentation and without."""
    trainers = [built(choice, "penalty=gradient_penalty") for choice in ("augment=none", "augment=diffaugment")]
    for trainer in trainers:
        iterate(trainer, 3)
    plain, augmented = (trainer.gan for trainer in trainers)
    assert torch.equal(plain.prior.rng.get_state(), augmented.prior.rng.get_state())
    assert torch.equal(plain.penalty.rng.get_state(), augmented.penalty.rng.get_state())
    before, other = (begun(DiffAugment(), seed).rng.get_state() for seed in (0, 1))
    assert not torch.equal(augmented.augment.rng.get_state(), before)
    assert not torch.equal(other, before)


def test_every_image_of_a_pack_is_changed_by_itself():
    """A pack of two is what its images make one by one, with the same random numbers."""
    alone, together = (DiffAugment(policy=["color", "translation", "cutout"]) for _ in range(2))
    alone.begin(0, torch.device("cpu"))
    together.begin(0, torch.device("cpu"), 2)
    images = Batch(torch.rand(6, 3, 16, 16) * 2 - 1)
    assert torch.equal(together(packed(images, 2)).values, packed(alone(images), 2).values)


def test_a_penalty_on_weights_reads_through_an_augmentation():
    augment, penalty = DiffAugment(), Orthogonal(weight=1.0)
    augment.begin(0, torch.device("cpu"))
    discriminator, x = MLPDiscriminator((3, 4, 4), width=4), Batch(torch.rand(2, 3, 4, 4))
    expected = penalty(discriminator, x, x)
    assert penalty(augment.before(discriminator), x, x).item() == expected.item() > 0
