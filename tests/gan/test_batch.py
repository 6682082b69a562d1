"""What is given flows with the batch: a conditional GAN trains like the unconditional one whose batches spell it out."""

from contextlib import nullcontext
from dataclasses import fields, replace

import pytest
import torch
from torch import nn
from torch.nn.functional import one_hot

from ganexp import GAN, Batch, Prior, strategies
from ganexp.augmentations import Apa, DiffAugment
from ganexp.distributed.group import DistributedProcesses
from ganexp.gan.packing import packed
from ganexp.gan.passes import Passes
from ganexp.networks import MLPDiscriminator, MLPGenerator
from ganexp.streams import stream
from ganexp.training.reals import Reals
from ganexp.wrappers import LatentStep
from tests.composing import every_strategy, suited
from tests.tiny import BATCH, CASES, LATENT, STRATEGIES, iterate, state, tiny_gan, tiny_trainer

CLASSES = 3
FIELDS = [field.name for field in fields(Batch) if field.name != "own"]  # what G computed itself stays with its own fakes


def spelt_out(labels):
    return one_hot(labels, CLASSES).double()


class OnLabels(nn.Module):
    """A network of points that reads labels."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, values, labels):
        return self.network(torch.cat([values, spelt_out(labels)], 1))


class WithLabels(nn.Module):
    """A generator that hands on the labels at the end of its latents."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, z):
        return torch.cat([self.network(z), z[:, LATENT:]], 1)


class LabelledPrior(Prior):
    """Draws labels with the latents, as conditions or spelt out behind them."""

    def __init__(self, *, spell_out):
        super().__init__(LATENT, seed=3, dtype=torch.float64)
        self.spell_out, self.labels = spell_out, stream(3, "labels")

    def sample(self, n):
        z, labels = super().sample(n), torch.randint(CLASSES, (n,), generator=self.labels)
        return Batch(torch.cat([z.values, spelt_out(labels)], 1)) if self.spell_out else Batch(z.values, (labels,))

    def fixed(self, n):
        return Batch(super().fixed(n).values, (torch.arange(n) % CLASSES,))


def labelled_points(*, spell_out):
    source = torch.Generator().manual_seed(5)
    while True:
        x = torch.randn(BATCH, 2, generator=source, dtype=torch.float64)
        labels = torch.randint(CLASSES, (BATCH,), generator=source)
        yield torch.cat([x, spelt_out(labels)], 1) if spell_out else Batch(x, (labels,))


def gan_on_labels(loss, *, spell_out):
    torch.manual_seed(0)
    generator = MLPGenerator(LATENT + CLASSES, (2,), width=5, depth=2).double()
    discriminator = MLPDiscriminator((2 + CLASSES,), width=5, depth=2).double()
    case = CASES[loss]
    generator, discriminator = (
        (WithLabels(generator), discriminator) if spell_out else (OnLabels(generator), OnLabels(discriminator))
    )
    return GAN(
        generator,
        discriminator,
        case.loss().double(),
        torch.optim.SGD(generator.parameters(), lr=0.05, momentum=0.9),
        torch.optim.Adam(discriminator.parameters(), lr=0.02, betas=(0.5, 0.9), fused=True),
        LabelledPrior(spell_out=spell_out),
        batch_size=BATCH,
        penalty=case.penalty(),
    )


@pytest.mark.parametrize("loss", ["softmaxgan"])
@pytest.mark.parametrize("strategy", every_strategy())
def test_conditions_flow_through_every_strategy(strategy, loss):
    ends, loss = [], suited(strategy, loss)
    for spell_out in (True, False):
        gan, reals = gan_on_labels(loss, spell_out=spell_out), labelled_points(spell_out=spell_out)
        iterate(tiny_trainer(gan=gan, strategy=STRATEGIES[strategy], reals=reals, d_steps=2, g_steps=2), 4)
        ends.append(state(gan))
    torch.testing.assert_close(*ends, rtol=1e-12, atol=1e-13)


def test_the_gradient_penalty_gives_the_discriminator_the_conditions_of_the_real_batch():
    gan = gan_on_labels("wgan_gp", spell_out=False)
    x = next(labelled_points(spell_out=False))
    values = gan.penalty(gan.discriminator, x, x)  # every x̂ is x itself
    between = x.values.clone().requires_grad_()
    (derivative,) = torch.autograd.grad(gan.discriminator(between, *x.conditions).sum(), between)
    torch.testing.assert_close(values, (derivative.norm(dim=1) - 1) ** 2, rtol=1e-12, atol=0)


def test_parts_of_a_batch_keep_their_conditions():
    batch = Batch(torch.arange(5.0), (torch.arange(5), torch.arange(10).view(5, 2)))
    parts = batch.split(2)
    assert [len(part) for part in parts] == [2, 2, 1]
    assert all(torch.equal(part.conditions[0], part.values.long()) and len(part.conditions[1]) == len(part) for part in parts)
    assert batch.detach().conditions is batch.conditions
    assert Batch.of(batch) is batch
    assert Batch.of(batch.values).conditions == ()


def full(n=4):
    """A batch of images that has every field, and whose numbers all differ."""
    given = {field: torch.rand(n, 1, 4, 4, dtype=torch.float64) for field in FIELDS}
    return Batch(**given | {"conditions": (torch.arange(n), torch.arange(n) + 10)})


def packs_of_two(batch):
    return packed(replace(batch, conditions=()), 2)


class Half(DistributedProcesses):
    """The second of two processes."""

    def __init__(self):
        self.rank, self.count = 1, 2


def drawn(batch):
    """Return a batch as `Reals` hands it on, in float32."""
    return next(Reals([batch], lambda _: nullcontext(), batch_size=4, device=torch.device("cpu"), dtype=torch.float32))


def augmented(batch):
    augment = DiffAugment()
    augment.begin(0, torch.device("cpu"))
    return augment(batch)


def all_shown(batch):
    augment = Apa(p=1.0)
    augment.begin(0, torch.device("cpu"))
    return augment.shown_as_real(full(), batch)


def stepped(batch):
    """Return a batch that G is given after a step of latents."""
    gan = tiny_gan(CASES["hinge"])
    z = replace(batch, values=gan.sample().values[:4], conditions=())
    return LatentStep(strategies.detach).moved(gan, lambda: z)


CARRIED = {
    # what makes a batch of another: the fields that it should leave as they are, or change as it changes the samples
    "detach": (Batch.detach, {}),
    "map": (lambda batch: batch.map(torch.clone), {}),
    "split": (
        lambda batch: batch.split(3)[0],
        dict.fromkeys(FIELDS, lambda one: one[:3]),
    ),
    "a share": (Half().own, dict.fromkeys(FIELDS, lambda one: one[2:])),
    "G": (
        lambda batch: Passes().generate(lambda values, *labels: -values, replace(batch, source=None)),
        {"values": torch.neg, "source": None},
    ),
    "reals": (drawn, dict.fromkeys(("values", "source", "target"), torch.Tensor.float)),
    "packs": (packs_of_two, {"values": None, "conditions": None, "target": None}),
    "augmentation": (augmented, {"values": None}),
    "shown as real": (all_shown, {}),
    "a step of latents": (stepped, {"values": None, "conditions": None}),
}


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", CARRIED)
def test_what_makes_a_batch_of_another_keeps_every_field(name, field):
    make, changed = CARRIED[name]
    batch = full()
    before, after = getattr(batch, field), getattr(make(batch), field)
    assert after is not None
    change = changed.get(field, lambda one: one)
    if change is not None:
        pairs = zip(before, after, strict=True) if field == "conditions" else [(before, after)]
        assert all(torch.equal(change(a), b) for a, b in pairs)


def test_parts_of_packs_have_the_sources_of_their_samples():
    batch = replace(packs_of_two(full(8)), source=torch.arange(8))
    assert [part.source.tolist() for part in batch.split(3)] == [[0, 1, 2, 3, 4, 5], [6, 7]]


def test_the_source_of_a_fake_is_what_g_was_given_and_its_target_goes_along():
    z, target = torch.rand(6, 3, requires_grad=True), torch.rand(6, 2)
    fake = Passes().generate(torch.nn.Linear(3, 2), Batch(z, target=target))
    assert torch.equal(fake.source, z)
    assert not fake.source.requires_grad
    assert fake.target is target


def test_all_tensors_of_a_batch_are_listed():
    batch = full()
    assert [*map(id, batch.tensors())] == [*map(id, (batch.values, *batch.conditions, batch.source, batch.target, *batch.own))]
    assert Batch(batch.values).tensors() == [batch.values]
    assert Batch(batch.values, own=(batch.target,)).tensors() == [batch.values, batch.target]
    assert not Batch(batch.values, own=(batch.target,)).detach().own
