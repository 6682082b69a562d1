"""conditional=true: labels come with the images, latents are drawn with the data's frequencies, and both networks read them."""

import numpy as np
import pytest
import torch
from PIL import Image

import ganexp
from ganexp import Prior, build
from ganexp.data import Dataset, Digits, Resident, Streamed
from ganexp.facts import UserError
from tests.composing import composed
from tests.tiny import iterate

IMAGES = ["dataset.image_size=16", "generator.width=2", "discriminator.width=2"]
POINTS = ["dataset=ring", "generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8"]
SMALL = ["conditional=true", "batch_size=6", "latent_dim=3", "logger=[]", "device=cpu", "sample_every=0"]


class Broken(Dataset):
    """Points or images of somebody who has not kept the contract."""

    classes = 3

    def __init__(self, n: int = 9, side: int = 2, white: float = 1.0, image: bool = False, labels: list[float] = ()):
        self.shape = (1, 8, 8) if image else (2,)
        self.n, self.side, self.white, self.given = n, side, white, labels

    def load(self):
        return torch.full((self.n, *self.shape[:-1], self.side), self.white)

    def labels(self):
        return torch.tensor(self.given or [0, 1, 2] * 3)


@pytest.mark.parametrize(
    "broken",
    [
        *({"n": 0}, {"side": 3}, {"white": 255}, {"image": True, "side": 8, "white": 255.0}),
        *({"labels": given} for given in ([0, 1, 2], [1, 2, 3] * 3, [0, 1, -1] * 3, [0.0, 1.0, 2.0] * 3)),
    ],
)
def test_data_that_are_not_what_their_class_says_are_refused(broken):
    cfg = composed(*SMALL, *POINTS, "iterations=1")
    cfg.dataset = {"name": "broken", "_target_": f"{__name__}.Broken", **broken}
    with pytest.raises(UserError, match=r"^dataset: .*Broken"):
        build(cfg, trust="tests")


def test_classes_of_anyones_data_that_have_no_samples_are_named(caplog):
    cfg = composed(*SMALL, *POINTS, "iterations=1")
    cfg.dataset = {"name": "broken", "_target_": f"{__name__}.Broken", "labels": [0, 2, 2] * 3}
    build(cfg, trust="tests")
    assert [one.getMessage() for one in caplog.records if "no samples" in one.getMessage()] == [
        "1 of 3 classes have no samples, and nothing is learnt of them: 1."
    ]


@pytest.mark.parametrize("kind", [Resident, Streamed])
def test_feeds_refuse_labels_that_are_not_one_for_each_sample(kind):
    with pytest.raises(ValueError, match="labels should be as many"):
        kind(torch.zeros(9, 2), 3, labels=torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("flip", [False, True])
def test_feeds_give_each_image_its_own_label(flip):
    data = torch.arange(23, dtype=torch.float32).view(23, 1, 1, 1).expand(23, 1, 2, 2)
    labels = torch.arange(23) % 5
    feeds = [
        Resident(data, 6, seed=3, flip=flip, labels=labels),
        Streamed(data, 6, seed=3, flip=flip, labels=labels),
        Streamed(data, 6, seed=3, flip=flip, labels=labels, workers=1),
    ]
    for feed in feeds:
        feed.seek(2)
    for _ in range(9):
        batches = [next(feed) for feed in feeds]
        for batch in batches:
            assert torch.equal(batch.conditions[0], batch.values[:, 0, 0, 0].long() % 5)
            assert torch.equal(batch.values, batches[0].values)
    feeds[-1].close()


def test_frequencies_may_be_counts_in_an_array_or_a_tensor():
    drawn = [
        Prior(3, seed=1, frequencies=of).sample(9).conditions[0] for of in ([1, 3], np.array([1, 3]), torch.tensor([1, 3]))
    ]
    assert torch.equal(drawn[0], drawn[1])
    assert torch.equal(drawn[0], drawn[2])


def test_labels_are_drawn_with_the_frequencies_and_leave_the_latents_as_they_are():
    plain, prior = Prior(3, seed=1), Prior(3, seed=1, frequencies=[1, 0, 3, 4])
    drawn = [prior.sample(500) for _ in range(40)]
    assert all(torch.equal(batch.values, plain.sample(500).values) for batch in drawn)
    shares = torch.cat([batch.conditions[0] for batch in drawn]).bincount(minlength=4) / 20_000
    np.testing.assert_allclose(shares, [1 / 8, 0, 3 / 8, 1 / 2], atol=0.015)  # four standard deviations


@pytest.mark.parametrize(("classes", "rows"), [(10, 10), (3, 3), (100, 16)])
def test_every_row_of_a_grid_is_of_one_class(classes, rows):
    labels = Prior(3, frequencies=[1.0] * classes).fixed(8 * rows).conditions[0].view(rows, 8)
    assert torch.equal(labels, labels[:, :1].expand(-1, 8))
    assert len(labels.unique()) == rows


def test_the_frequencies_are_those_of_the_data_and_the_grid_has_a_row_for_each(tmp_path):
    made = build(composed(*SMALL, *IMAGES, "iterations=1", "sample_every=1"), tmp_path)
    counts = Digits(image_size=16).labels().bincount()
    drawn = torch.cat([made.gan.prior.sample(1000).conditions[0] for _ in range(40)]).bincount() / 40_000
    np.testing.assert_allclose(drawn, counts / counts.sum(), atol=0.006)
    summary = made.fit()
    with Image.open(tmp_path / summary["last"]["samples"]) as picture:
        assert picture.size == (2 + 8 * 18, 2 + 10 * 18)


def test_a_conditional_generator_is_loaded_and_asked_for_a_class(tmp_path):
    made = build(composed(*SMALL, *IMAGES, "iterations=5", "average=none"), tmp_path)
    made.fit()
    G = ganexp.load(tmp_path)
    assert G.classes == 10
    z = made.gan.prior.sample(4).values
    made.gan.generator.eval()
    with torch.no_grad():
        expected = made.gan.generator(z, torch.full((4,), 7))
    assert torch.equal(G(z, torch.full((4,), 7)), expected)


def test_a_label_moves_the_picture():
    made = build(composed(*SMALL, *POINTS, "iterations=200", "batch_size=64", "average=none"))
    before = made.gan.discriminator.projection.embedding.weight.clone()
    iterate(made, 150)
    assert not torch.equal(before, made.gan.discriminator.projection.embedding.weight)
    z = torch.zeros(8, 3)
    with torch.no_grad():
        points = made.gan.generator(z, torch.arange(8))
    assert torch.cdist(points, points).sum() > 1
