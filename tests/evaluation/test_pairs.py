"""Measures of pairs, against closed forms and NumPy."""

import numpy as np
import pytest
import torch
import torchvision
from torch.nn import functional

from ganexp.batch import Batch
from ganexp.data import Degraded, Digits
from ganexp.evaluation import LPIPS, PSNR, SSIM, Evaluator, Raw, SlicedWasserstein
from ganexp.evaluation.statistics import FeatureBatch
from ganexp.facts import Facts, Misfit, UserError


def pixels(*shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def images(array):
    return torch.from_numpy(array).double() / 127.5 - 1


X, Y = pixels(5, 3, 32, 36), pixels(5, 3, 32, 36, seed=1)


def test_psnr_is_its_formula():
    wanted = [10 * np.log10(255**2 / ((x - y) ** 2).mean()) for x, y in zip(X.astype(float), Y.astype(float), strict=True)]
    np.testing.assert_allclose(PSNR().figures(images(X), images(Y)), wanted, rtol=1e-12)


@pytest.mark.parametrize("levels", [1, 16])
def test_psnr_of_a_constant_difference(levels):
    x = np.full((2, 1, 4, 4), 100, np.uint8)
    assert PSNR().figures(images(x), images(x + np.uint8(levels))).tolist() == pytest.approx([20 * np.log10(255 / levels)] * 2)
    beyond = images(np.full((2, 1, 4, 4), 255, np.uint8))
    assert torch.equal(PSNR().figures(beyond + 0.5, beyond), PSNR().figures(beyond, beyond))  # as they would be saved
    assert PSNR().figures(beyond, beyond).tolist() == pytest.approx([10 * np.log10(255**2 * 16)] * 2)


def test_ssim_is_the_papers_formula():
    """Windows of 11×11, weighted by a Gaussian, at each pixel of the image, which is reflected at its borders."""
    near = np.clip(X.astype(int) + pixels(*X.shape, seed=2) // 4, 0, 255).astype(np.uint8)
    weights = np.exp(-((np.arange(11) - 5.0) ** 2) / (2 * 1.5**2))
    weights = np.outer(weights, weights) / weights.sum() ** 2
    c1, c2, wanted = (0.01 * 255) ** 2, (0.03 * 255) ** 2, []

    def reflected(x):
        return np.pad(x, ((0, 0), (5, 5), (5, 5)), mode="reflect")

    def means(x):
        return (np.lib.stride_tricks.sliding_window_view(reflected(x), (11, 11), (1, 2)) * weights).sum((-2, -1))

    for x, y in zip(X.astype(float), near.astype(float), strict=True):
        mx, my = means(x), means(y)
        vx, vy, covariance = means(x * x) - mx**2, means(y * y) - my**2, means(x * y) - mx * my
        wanted.append(((2 * mx * my + c1) * (2 * covariance + c2) / ((mx**2 + my**2 + c1) * (vx + vy + c2))).mean())
    np.testing.assert_allclose(SSIM().figures(images(X), images(near)), wanted, rtol=1e-9)
    assert SSIM().figures(images(X), images(X)).tolist() == pytest.approx([1] * 5)
    assert SSIM().figures(images(X[:1]), images(near[:1])).shape == (1,)


def written(network, path):
    """Write random weights of a torchvision network, and return the network."""
    model = {"alex": torchvision.models.alexnet, "vgg": torchvision.models.vgg16}[network](weights=None)
    kept = {name: value for name, value in model.state_dict().items() if name.startswith("features.")}
    torch.save(kept | {"classifier.1.weight": torch.zeros(1)}, path)
    return model.features.eval()


STAGES = {"alex": (1, 4, 7, 9, 11), "vgg": (3, 8, 15, 22, 29)}
"""The last ReLU of each stage, in torchvision's numbers."""


@pytest.mark.parametrize("network", ["alex", pytest.param("vgg", marks=pytest.mark.slow)])
@pytest.mark.parametrize("channels", [1, 3])
def test_lpips_is_the_papers_formula(network, channels, tmp_path):
    """Equation 1: squared differences of features of unit length, weighted, summed over channels, means over places."""
    features = written(network, tmp_path / "weights.pth")
    measure, (x, y) = (
        LPIPS(network=network, weights=str(tmp_path / "weights.pth")),
        (images(one[:2, :channels]) for one in (X, Y)),
    )
    mean, std = (torch.tensor(one)[:, None, None] for one in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    seen, wanted = [((one.float() + 1) / 2 - mean) / std for one in (x, y)], torch.zeros(2)
    with torch.no_grad():
        for i, layer in enumerate(features[: STAGES[network][-1] + 1]):
            seen = [layer(one.clone()) for one in seen]
            if i in STAGES[network]:
                a, b = (one / one.norm(dim=1, keepdim=True) for one in map(torch.clone, seen))
                weight = getattr(measure._distance, f"lin{STAGES[network].index(i)}").model[-1].weight
                wanted += functional.conv2d((a - b).square(), weight).mean((1, 2, 3))
        found = measure.figures(x, y)
    torch.testing.assert_close(found, wanted, rtol=2e-3, atol=1e-6)  # torchmetrics adds 1e-8 to each squared length
    assert found.min() > 1e-4
    assert measure.figures(x, x).abs().max() < 1e-7


@pytest.mark.parametrize("channels", [1, 3])
def test_lpips_to_train_on_is_lpips_and_has_its_gradient(channels, tmp_path):
    written("alex", tmp_path / "weights.pth")
    measure = LPIPS(weights=str(tmp_path / "weights.pth"))
    x, y = (images(one[:2, :channels]).float() for one in (X, Y))
    distance = measure.differentiable(torch.device("cpu"))
    torch.testing.assert_close(distance(x, y), measure.figures(x, y), rtol=1e-5, atol=1e-7)
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(distance(x, y).sum(), x)
    along = gradient / gradient.norm()
    with torch.no_grad():
        ends = [distance(x + sign * 3e-2 * along, y).sum().item() for sign in (1, -1)]
    assert (ends[0] - ends[1]) / 6e-2 == pytest.approx(gradient.norm().item(), rel=3e-2)


def test_the_learnt_weights_are_the_authors_and_nothing_is_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr("urllib.request.urlopen", lambda *_, **__: pytest.fail("the network was touched"))
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    pairs = Facts(shape=(1, 32, 32), dataset=Degraded(of=Digits()))
    with pytest.raises(Misfit) as refused:
        LPIPS().check(pairs)
    assert "weights" in refused.value.remedy
    (tmp_path / "checkpoints").mkdir()
    written("alex", tmp_path / "checkpoints" / "alexnet-owt-7be5be79.pth")
    measure = LPIPS()
    measure.check(pairs)
    learnt = [one.model[-1].weight for one in measure._distance.lins]
    assert [one.numel() for one in learnt] == [64, 192, 384, 256, 256]
    assert all((one >= 0).all() and one.sum() > 0 for one in learnt)


@pytest.mark.slow
def test_a_file_of_other_weights_is_refused(tmp_path):
    written("vgg", tmp_path / "vgg.pth")
    (tmp_path / "none.pth").write_bytes(b"no weights")
    for name in ("vgg.pth", "none.pth"):
        with pytest.raises(UserError, match=name):
            LPIPS(weights=str(tmp_path / name)).figures(images(X), images(Y))


def test_pairs_are_fed_batch_by_batch():
    """The mean over all samples of a set, whatever the batches; a measure of sets beside it sees the real set."""
    evaluators = Evaluator(
        {"wasserstein": SlicedWasserstein(), "psnr": PSNR(), "ssim": SSIM()}, {"raw": Raw((3, 32, 36))}, samples=5
    )
    evaluators.see_reals(lambda: [images(Y)], 5)
    batches = [Batch(images(X[part]), target=images(Y[part])) for part in (slice(0, 3), slice(3, 5))]
    found = evaluators(batches)
    assert found["eval/psnr"] == pytest.approx(float(PSNR().figures(images(X), images(Y)).mean()))
    assert found["eval/ssim"] == pytest.approx(float(SSIM().figures(images(X), images(Y)).mean()))
    assert found["eval/sliced_wasserstein"] > 0
    assert evaluators.keys["eval/psnr"].real is None
    parts = [[one.to("cpu") for one in evaluators.extract(batch)] for batch in batches]  # as other processes send them
    assert evaluators.compare(parts) == pytest.approx(found)
    with pytest.raises(UserError, match="pairs"):
        evaluators([images(X)])


@pytest.mark.slow
def test_settings_and_networks_are_told_apart(tmp_path):
    for network in ("alex", "vgg"):
        written(network, tmp_path / f"{network}.pth")
    alex, vgg = (LPIPS(network=one, weights=str(tmp_path / f"{one}.pth")) for one in ("alex", "vgg"))
    statistics = [one.statistic(None, None) for one in (alex, vgg, PSNR(), SSIM())]
    assert len({one.kind for one in statistics}) == 4
    assert alex.basis(None, None) != vgg.basis(None, None)
    assert str(tmp_path) not in alex.settings + alex.basis(None, None)


def test_a_part_of_a_batch_keeps_its_targets():
    batch = FeatureBatch(images(X), torch.zeros(5, 2), targets=images(Y))
    assert torch.equal(batch[1:3].targets, images(Y[1:3]))


@pytest.mark.parametrize("measure", [PSNR(), SSIM()])
def test_data_without_pairs_are_refused(measure):
    with pytest.raises(Misfit) as refused:
        measure.check(Facts(shape=(1, 32, 32), dataset=Digits()))
    assert refused.value.remedy == {"dataset": "pairs"}
    measure.check(Facts(shape=(1, 32, 32), dataset=Degraded(of=Digits())))


def test_images_that_are_too_small_are_refused():
    small = Facts(shape=(1, 4, 4), dataset=Degraded(of=Digits(image_size=4)))
    with pytest.raises(Misfit):
        SSIM().check(small)
    PSNR().check(small)
