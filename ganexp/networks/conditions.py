"""Layers that read class labels, for the conditional networks of every family."""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

Conditioning = Literal["projection", "classifier"]
"""How a discriminator reads labels: its score depends on them, or it predicts them itself (Odena et al. 2017)."""


class ConditionalBatchNorm2d(nn.Module):
    """Batch norm whose gain and bias are those of each image's class (Dumoulin et al. 2017; de Vries et al. 2017).

    Gains begin at 1 and biases at 0.
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

    The vectors begin standard normal, and have length `size`.
    """

    def __init__(self, classes: int, size: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, size)

    def forward(self, z: Tensor, labels: Tensor) -> Tensor:
        """Map `(B, latent_dim)` and labels `(B,)` to `(B, latent_dim + size)`."""
        return torch.cat([z, self.embedding(labels)], 1)


class ClassHead(nn.Module):
    """A linear classifier of features, which returns the cross-entropy of each sample's own label (Odena et al. 2017)."""

    def __init__(self, classes: int, features: int) -> None:
        super().__init__()
        self.linear = nn.Linear(features, classes)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Map features `(B, features)` and labels `(B,)` to `(B,)`, in float32 at least."""
        logits = self.linear(features)
        return cross_entropy(logits.to(torch.promote_types(logits.dtype, torch.float32)), labels, reduction="none")


class Projection(nn.Module):
    """The inner product of features with a learnt vector of their class, to add to a score (Miyato & Koyama 2018).

    The vectors begin at 0: every class is scored alike at first.
    """

    def __init__(self, classes: int, features: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(classes, features)
        nn.init.zeros_(self.embedding.weight)

    def forward(self, features: Tensor, labels: Tensor) -> Tensor:
        """Map features `(B, features)` and labels `(B,)` to `(B,)`."""
        return (self.embedding(labels) * features).sum(1)


class LabelledDiscriminator(nn.Module):
    """A discriminator that reads labels, if there are classes, by `conditioning`.

    `projection` adds the projection of features on the class to the logit. `classifier` returns the loss of a classifier of
    features after the logit, and `further` is then `class_loss`.
    """

    output = "logit"
    classifier: ClassHead | None
    projection: Projection | None

    def _begin_labels(self, conditioning: Conditioning, classes: int, classified: int, projected: int) -> None:
        """Make the classifier or the projection, of so many features."""
        if conditioning == "classifier" and not classes:
            raise ValueError("conditioning=classifier needs class labels: choose conditional=true, or conditioning=projection")
        self.classifier = ClassHead(classes, classified) if conditioning == "classifier" else None
        self.projection = Projection(classes, projected) if classes and not self.classifier else None
        self.further = "class_loss" if self.classifier else ""

    def _with_labels(self, scores: Tensor, features: Tensor, *labels: Tensor) -> Tensor:
        """Return scores `(B,)` under labels, or `(B, 2)` with a classifier; maps of features are summed for a projection."""
        if self.classifier is not None:
            return torch.stack([scores, self.classifier(features.flatten(1), *labels)], 1)
        if self.projection is None:
            return scores
        return scores + self.projection(features.sum((2, 3)) if features.dim() == 4 else features, *labels)
