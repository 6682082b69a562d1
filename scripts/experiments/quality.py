"""How good samples are: modes of a mixture counted, images compared by a classifier's features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torchmetrics.image.fid import FrechetInceptionDistance
from torchvision import datasets

from ganexp.compare.intervals import Interval, of_positive_mean, of_share_mean
from ganexp.data import Digits, Grid, Ring
from ganexp.data.vision import MNIST
from ganexp.evaluation.modes import Gaussians


class Quality(Protocol):
    """A distance of samples from the data, the lower the better, with a few figures beside it."""

    name: str
    n: int

    def __call__(self, samples: Tensor) -> dict[str, float]:
        """Judge `n` samples; the distance stands under `name`."""
        ...

    def interval(self, values: Sequence[float]) -> Interval:
        """Return the mean of several such distances with its confidence interval, within the distance's bounds."""
        ...


class Mixture:
    """Total variation between where samples lie and where they should: one equal part near each mode, none elsewhere.

    Beside it `modes`, those with at least one sample of high quality, and `high_quality`, the share of such samples
    (Srivastava et al. 2017; Lin et al. 2018, both with 2,500 samples).
    """

    name = "total variation"
    n = 2500

    def __init__(self, data: Ring | Grid) -> None:
        self.modes = Gaussians(data.centers, data.std)

    def __call__(self, samples: Tensor) -> dict[str, float]:
        """Judge `(n, 2)` points."""
        mode = self.modes.of(samples.cpu())
        share = torch.bincount(mode[mode >= 0], minlength=self.modes.count).double() / len(samples)
        high_quality = float(share.sum())
        missed = (share - 1 / self.modes.count).abs().sum() + 1 - high_quality
        return {self.name: float(missed) / 2, "modes": float((share > 0).sum()), "high_quality": high_quality}

    def interval(self, values: Sequence[float]) -> Interval:
        """Stay between 0 and 1."""
        return of_share_mean(values)


@dataclass
class Labelled:
    """Images in [-1, 1], `(N, C, H, W)`, with labels `(N,)`."""

    images: Tensor
    labels: Tensor


class FrechetDistance:
    """Fréchet distance (Heusel et al. 2017) in the features of a small classifier trained on the same data.

    Departure: the features are not Inception's, whose weights need a download and which has seen photographs, not
    digits. Figures compare within one data set and one page only, not with published ones.
    """

    name = "Fréchet distance (own classifier)"

    def __init__(self, data: Labelled, n: int = 2000) -> None:
        self.n = n
        classifier = trained_classifier(data)
        _, channels, side, _ = data.images.shape
        self.metric = FrechetInceptionDistance(classifier, reset_real_features=False, input_img_size=(channels, side, side))
        self.metric.set_dtype(torch.float64)
        self._update(data.images[: 5 * n], real=True)

    @torch.no_grad()
    def __call__(self, samples: Tensor) -> dict[str, float]:
        """Judge `(n, C, H, W)` images."""
        self.metric.reset()
        self._update(samples.cpu(), real=False)
        return {self.name: float(self.metric.compute())}

    def interval(self, values: Sequence[float]) -> Interval:
        """Stay above 0."""
        return of_positive_mean(values)

    @torch.no_grad()
    def _update(self, images: Tensor, real: bool) -> None:
        for part in images.split(500):
            self.metric.update(part, real=real)


FEATURES = (
    "The Fréchet distance (Heusel et al. 2017) is that of 64 features of a small classifier trained on the same data, not of "
    "Inception's: it compares arms on one dataset of this page, and is no FID as papers give it."
)


class Features(nn.Module):
    """A small convolutional classifier; what it returns once trained are the 64 features before its last layer."""

    num_features = 64

    def __init__(self, channels: int, side: int, classes: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Conv2d(channels, 16, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Flatten(), nn.Linear(32 * (side // 4) ** 2, self.num_features), nn.ReLU()),
        )
        self.head = nn.Linear(self.num_features, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Map `(B, C, H, W)` to `(B, 64)`."""
        return self.layers(images.to(self.head.weight.dtype))


def trained_classifier(data: Labelled, *, steps: int = 600) -> Features:
    """Train the classifier, always the same way."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = Features(data.images.shape[1], data.images.shape[2], int(data.labels.max()) + 1)
        optimizer = torch.optim.Adam(network.parameters(), lr=2e-3)
        for _ in range(steps):
            chosen = torch.randint(len(data.images), (128,))
            scores = network.head(network(data.images[chosen]))
            optimizer.zero_grad()
            nn.functional.cross_entropy(scores, data.labels[chosen]).backward()
            optimizer.step()
    return network.eval()


def labelled_digits(image_size: int) -> Labelled:
    """Return scikit-learn's digits."""
    return Labelled(_normalised(Digits(image_size=image_size).load()), torch.as_tensor(load_digits().target, dtype=torch.long))


def labelled_mnist(root: str, image_size: int) -> Labelled:
    """Return MNIST's training part.

    Raises:
        OSError: The set is neither in `root` nor to be had from the network.
    """
    data = MNIST(root, image_size=image_size)
    return Labelled(_normalised(data.load()[:20_000]), datasets.MNIST(data.root).targets[:20_000])


def _normalised(images: Tensor) -> Tensor:
    return images.float() / 127.5 - 1
