"""Layers that read class labels, for the conditional networks of every family."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Conditioning = Literal["projection", "classifier"]
"""How a discriminator reads labels: its score depends on them, or it predicts them itself (Odena et al. 2017)."""


class ConditionalBatchNorm2d(nn.Module):
    """Batch norm whose gain and bias are those of each image's class (Dumoulin et al. 2017; de Vries et al. 2017).

    Args:
        channels: Of the input `(B, channels, H, W)`.
        classes: Number of classes. Gains begin at 1 and biases at 0.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels, affine=False)
        self.gain = nn.Embedding(classes, channels)
        self.bias = nn.Embedding(classes, channels)
        nn.init.ones_(self.gain.weight)
        nn.init.zeros_(self.bias.weight)

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:
        """Normalise `(B, channels, H, W)` under labels `(B,)`."""
        gain, bias = (layer(labels)[:, :, None, None] for layer in (self.gain, self.bias))
        return gain * self.norm(x) + bias


class ConditionalSequential(nn.Sequential):
    """A sequence of layers, some of which also read the labels."""

    def forward(self, x: Tensor, labels: Tensor) -> Tensor:  # type: ignore[override]
        """Pass a batch through all layers with labels `(B,)`."""
        for layer in self:
            x = layer(x, labels) if isinstance(layer, ConditionalBatchNorm2d) else layer(x)
        return x


class ConcatenatedEmbedding(nn.Module):
    """Latents followed by a learnt vector of their class, as in conditional GANs since Mirza & Osindero 2014.

    Args:
        classes: Number of classes.
        size: Length of a class's vector, which is initialised standard normal.
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, size)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Map `(B, latent_dim)` and labels `(B,)` to `(B, latent_dim + size)`."""
        return torch.cat([z, self.embedding(labels)], 1)


class ClassHead(nn.Module):
    """A linear classifier of features, which returns the cross-entropy of each sample's own label (Odena et al. 2017).

    Args:
        classes: Number of classes.
        features: Length of the features `(B, features)`.
    """

    def __init__(self, classes: int, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Map features `(B, features)` and labels `(B,)` to `(B,)`, in float32 at least."""
        logits = self.linear(features)
        return cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels, reduction="none")


def classifies(conditioning: Conditioning, classes: int) -> bool:
    """Return whether a discriminator has a classifier, which needs classes."""
    if conditioning == "classifier" and not classes:
        raise ValueError("conditioning=classifier needs class labels: choose conditional=true, or conditioning=projection")
    return conditioning == "classifier"


class Projection(nn.Module):
    """The inner product of features with a learnt vector of their class, to add to a score (Miyato & Koyama 2018).

    Args:
        classes: Number of classes.
        features: Length of the features `(B, features)`. The vectors begin at 0: every class is scored alike at first.
    """

    def __init__(self, classes: int, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, features)
        nn.init.zeros_(self.embedding.weight)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Map features `(B, features)` and labels `(B,)` to `(B,)`."""
        return (self.embedding(labels) * features).sum(1)
