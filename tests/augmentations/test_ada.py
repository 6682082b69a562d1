"""ADA: its controller against NumPy's, what it does at probability 0, 1 and between, and where p is seen."""

import numpy as np
import pytest
import torch

from ganexp import build
from ganexp.augmentations import Ada, ada
from ganexp.config.check import check
from ganexp.facts import UserError
from tests.augmentations.images import SMALL, begun, built, images
from tests.composing import composed
from tests.tiny import iterate

CLASSES = ["blitting", "geometry", "color"]


def at(p, **settings):
    made = begun(Ada(**settings))
    made.p.fill_(p)
    return made


@pytest.mark.parametrize(("every", "target"), [(1, 0.6), (4, 0.6), (3, -0.2)])
def test_the_controller_is_numpys(every, target):
    rng, controller = np.random.default_rng(0), begun(Ada(every=every, target=target, images=300))
    p, signs, highest = 0.0, [], 0.0
    for update in range(400):
        center = 2 if update < 150 else -2
        scores = rng.normal(center, 1, 7)
        scores[0] = 0
        controller.observe(torch.from_numpy(scores).float())
        signs += [np.sign(scores)]
        if (update + 1) % every == 0:
            seen = np.concatenate(signs)
            p, signs = np.clip(p + np.sign(seen.mean() - target) * len(seen) / 300, 0, 1), []
        assert controller.measurements()["augment/p"].item() == pytest.approx(p, abs=1e-12)
        highest = max(highest, p)
    assert highest == 1
    assert p == 0


def test_p_moves_by_scores_and_not_by_what_stands_behind_them():
    """Behind ACGAN's scores stands each image's cross-entropy, which is always above 0."""
    labels = ["dataset.image_size=16", "conditional=true", "discriminator.conditioning=classifier", "loss=acgan"]
    settings = [one for one in SMALL if "dataset" not in one and not one.endswith("=mlp")]
    trainer = build(composed(*settings, "dataset=digits", *labels, "augment=ada", "augment.images=100", "augment.every=1"))
    iterate(trainer, 1)
    trainer.gan.augment.p.fill_(0.5)
    seen = []
    trainer.gan.augment.observe = lambda scores: seen.append(scores.shape)
    iterate(trainer, 1)
    assert seen == [(trainer.gan.batch_size,)]


def test_a_probability_that_is_given_stays_and_needs_no_boundary():
    trainer = built("augment=ada", "augment.p=0.3", "loss=wgan", "penalty=[]")
    iterate(trainer, 3)
    assert trainer.gan.measurements()["augment/p"].item() == 0.3


@pytest.mark.parametrize("pack", [1, 2])
def test_p_rises_from_0_to_1_while_d_sees_so_many_images(pack):
    controller = Ada(images=800)
    controller.begin(0, torch.device("cpu"), pack)
    for update in range(100):
        assert controller.p.item() == pytest.approx(update // 4 * 4 * 8 / 800)
        controller.observe(torch.ones(8 // pack))
    assert controller.p.item() == pytest.approx(1)


@pytest.mark.parametrize("channels", [1, 3])
def test_at_probability_0_images_are_what_they_are(channels):
    x = images(5, channels).float()
    assert torch.equal(at(0).transform(x), x)


@pytest.mark.parametrize("p", [0.3, 1])
@pytest.mark.parametrize("policy", CLASSES)
def test_every_transformation_has_its_probability(policy, p):
    """How many images stay what they are: those that no transformation was applied to, or one that changes nothing."""
    x = images(1).expand(6000, -1, -1, -1)
    same = (at(p, policy=[policy]).transform(x) == x).flatten(1).all(1).float().mean().item()
    left = 1 - p
    expected = {
        "geometry": left**4,  # scale, both rotations together, stretch, translation
        "color": left**4 * (left + p / 2),
        "blitting": (left + p / 2) * (left + p / 4) * (left + p * 0.25),  # of 8 pixels an eighth is ±1: rounded, half is 0
    }[policy]
    assert same == pytest.approx(expected, abs=4 * (0.25 / 6000) ** 0.5)


def test_blitting_draws_all_flips_angles_and_shifts_alike():
    x = torch.zeros(9000, 1, 8, 8, dtype=torch.float64)
    x[:, :, 3, 2] = 1
    made = at(1, policy=["blitting"]).transform(x)
    assert torch.equal(made.sum((1, 2, 3)), torch.ones(9000, dtype=torch.float64))
    ways = made.sum(0)[0]
    corners = [(3, 2), (3, 5), (4, 2), (4, 5), (2, 3), (5, 3), (2, 4), (5, 4)]  # before the shift
    expected = np.zeros((8, 8))
    for row, column in corners:
        for down, a in ((-1, 0.25), (0, 0.5), (1, 0.25)):
            for right, b in ((-1, 0.25), (0, 0.5), (1, 0.25)):
                expected[row + down, column + right] += 9000 * a * b / 8
    there = expected > 0
    assert (ways.numpy()[~there] == 0).all()
    assert ((ways.numpy() - expected)[there] ** 2 / expected[there]).sum() < 60  # about 23 degrees of freedom


def test_geometry_and_color_draw_from_the_papers_distributions(monkeypatch):
    """Each: whether it is 2 to the power of it, or an angle, and the standard deviation."""
    drawn = {}
    for name in ("positions", "recolored"):
        monkeypatch.setattr(
            ada, name, lambda x, *conditions, name=name: drawn.update({name: conditions}) or (x[:, :1], x[:, :1])
        )
    at(1, policy=["geometry"]).transform(images(1, 1).expand(8000, -1, -1, -1))
    at(1, policy=["color"]).transform(images(1, 1).expand(8000, -1, -1, -1))
    angle = (False, np.pi / 3**0.5)
    geometry = [(True, 0.2), angle, (True, 0.2), angle, (False, 0.125 * 8), (False, 0.125 * 8)]
    color = [(False, 0.2), (True, 0.5), (False, 1), angle, (True, 1)]
    for values, (power, std) in zip((*drawn["positions"], *drawn["recolored"]), geometry + color, strict=True):
        values = values.double().log2() if power else values.double()
        assert values.std().item() == pytest.approx(std, rel=0.04)
        assert values.mean().item() == pytest.approx(0, abs=0.05 * std)
    assert set(drawn["recolored"][2].unique().tolist()) == {-1, 1}


def test_p_is_logged_kept_and_known_as_a_metric(tmp_path):
    trainer = built("augment=ada", "augment.images=100", "augment.every=1", "augment.target=-0.9")
    iterate(trainer, 4)
    p = trainer.gan.measurements()["augment/p"].item()
    assert p == pytest.approx(4 * 5 / 100)
    assert trainer.gan.augment.state_dict()["p"].item() == p
    other = built("augment=ada", "augment.images=100", "augment.every=1", "augment.target=-0.9")
    other.load_state_dict(trainer.state_dict())
    assert other.gan.augment.p.item() == p
    with pytest.raises(UserError, match=r"^keep_best=augment/p is not logged with loss=nonsaturating; choose one of "):
        check(composed(*SMALL, "keep_best=augment/p"))
    with pytest.raises(UserError, match=r"^keep_best=augment/p does not say whether its lowest or its highest value is best"):
        check(composed(*SMALL, "augment=ada", "keep_best=augment/p"))


@pytest.mark.parametrize("shape", [(3, 8, 9), (2, 8, 8), (4, 8, 8)])
def test_images_that_cannot_be_turned_or_coloured_are_refused(shape):
    with pytest.raises(ValueError, match="it transforms square images in grey or RGB, but samples of shape "):
        begun(Ada()).refuse(shape)
