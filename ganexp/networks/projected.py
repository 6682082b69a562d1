"""A discriminator on features of a frozen network (Sauer et al. 2021, Projected GAN, section 3)."""

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge, Le
from torch import Tensor, nn
from torch.nn.functional import interpolate
from torch.nn.utils.parametrizations import spectral_norm

from ganexp.documents import read_state, weights_among
from ganexp.facts import Misfit
from ganexp.networks.sizes import Width, sides
from ganexp.ranges import checked

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet's pixels in [0, 1], as torchvision's networks expect them."""
NARROWEST = 8
"""The largest side at which a head stops halving its map."""
Network = Literal["efficientnet_b0", "resnet18", "resnet50"]


class ProjectedDiscriminator(nn.Module):
    """One small discriminator for each of four scales of frozen features, mixed across channels and across scales.

    At each scale, a 1×1 convolution mixes the channels; from the coarsest scale on, a 3×3 convolution mixes the result with
    that of the coarser scale, enlarged bilinearly. Both are random and frozen. Each head halves its map by 4×4 convolutions of
    stride 2 with spectral norm and leaky ReLU, until it has 8 places or fewer along a side; a 4×4 convolution gives the logits.

    Departures: torchvision's networks, and not EfficientNet-Lite1; no batch norm in heads; the loss is a mean over
    heads, not a sum. Mixed maps have `width`, 2, 4 and 8 · `width` channels, as in the authors' code for `width` 64.

    Args:
        shape: `(1 or 3, H, W)`.
        network: The torchvision network of the features.
        weights: torchvision's file of its weights; null leaves them random, the same in every run.
        size: Side that images are scaled to, as in the authors' code for small ones; 0 leaves them as they are.
        width: Channels of the finest mixed map.
    """

    output = "logit"
    maps = True
    mean: Tensor
    std: Tensor

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        network: Network = "efficientnet_b0",
        weights: str | None = None,
        size: Annotated[int, Ge(0), Le(4096)] = 224,
        width: Width = 64,
    ) -> None:
        super().__init__()
        height, side = (size, size) if size else sides(shape)
        if len(shape) != 3 or shape[0] not in (1, 3):
            raise ValueError(f"shape should be that of an image of 1 or 3 channels, not {shape}")
        if min(height, side) < 32:
            raise Misfit(f"sees features at a 32nd of the sides, and there are {height}×{side}", size=224)
        self.size, self.weights_file = size, weights
        self.register_buffer("mean", torch.tensor(MEAN).view(3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(STD).view(3, 1, 1), persistent=False)
        self.stages, channels = frozen_stages(network, weights)
        mixed = [width * 2**i for i in range(len(channels))]
        self.across_channels = nn.ModuleList(nn.Conv2d(a, b, 1) for a, b in zip(channels, mixed, strict=True))
        self.across_scales = nn.ModuleList(
            nn.Conv2d(own + coarser, own, 3, padding=1) for own, coarser in zip(mixed, [*mixed[1:], 0], strict=True)
        )
        for fixed in (self.across_channels, self.across_scales):
            for layer in fixed:
                nn.init.kaiming_normal_(layer.weight)  # type: ignore[arg-type]
                nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
            fixed.requires_grad_(False)
        strides = [2 ** (2 + i) for i in range(len(channels))]
        maps = [(-(-height // stride), -(-side // stride)) for stride in strides]
        heads = [head(before, map_side) for before, map_side in zip(mixed, maps, strict=True)]
        self.scales = nn.ModuleList(network for network, _ in heads)
        self.heads = tuple(places for _, places in heads)
        """The number of places that each of them scores."""
        self.register_state_dict_post_hook(_leave_stages_out)
        self.register_load_state_dict_post_hook(_miss_no_stages)
        self.train()

    def train(self, mode: bool = True) -> "ProjectedDiscriminator":
        """Set the mode of the heads; the network of the features stays in evaluation mode."""
        super().train(mode)
        self.stages.eval()
        return self

    def projections(self, x: Tensor) -> list[Tensor]:
        """Return the mixed maps, from the finest scale to the coarsest: `(B, width · 2ⁱ, h, w)`."""
        h = interpolate(x, (self.size, self.size), mode="bilinear") if self.size else x
        h = (h.expand(-1, 3, -1, -1) / 2 + 0.5 - self.mean) / self.std
        features = []
        for stage, across in zip(self.stages, self.across_channels, strict=True):
            h = stage(h)
            features.append(across(h))
        mixed: list[Tensor] = []
        for own, across in zip(reversed(features), reversed(self.across_scales), strict=True):
            coarser = [interpolate(mixed_map, own.shape[2:], mode="bilinear") for mixed_map in mixed[-1:]]
            mixed.append(across(torch.cat([own, *coarser], 1)))
        return mixed[::-1]

    def features(self, x: Tensor) -> list[Tensor]:
        """Return the output of each leaky ReLU of each head."""
        outputs = []
        for network, h in self._each(x):
            for layer in network[:-1]:
                h = layer(h)
                if isinstance(layer, nn.LeakyReLU):
                    outputs.append(h)
        return outputs

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(B, C, H, W)` in [-1, 1] to the logits of all heads, `(B, 1, S)`."""
        return torch.cat([network(h).flatten(2) for network, h in self._each(x)], 2)

    def _each(self, x: Tensor) -> Iterator[tuple[Any, Tensor]]:
        return zip(self.scales, self.projections(x), strict=True)


def head(channels: int, sides: tuple[int, int]) -> tuple[nn.Sequential, int]:
    """Return a discriminator of maps with these channels and sides, and the number of places that it scores."""
    layers: list[nn.Module] = []
    while max(sides) > NARROWEST:
        layers += [spectral_norm(nn.Conv2d(channels, channels, 4, 2, 1)), nn.LeakyReLU(0.2)]
        sides = (sides[0] // 2, sides[1] // 2)
    kernel = (min(4, sides[0]), min(4, sides[1]))
    layers.append(spectral_norm(nn.Conv2d(channels, 1, kernel)))
    return nn.Sequential(*layers), (sides[0] - kernel[0] + 1) * (sides[1] - kernel[1] + 1)


def frozen_stages(name: str, weights: str | None) -> tuple[nn.ModuleList, list[int]]:
    """Return a torchvision network in four parts, which end at a 4th, 8th, 16th and 32nd of the sides, and their channels."""
    from torchvision import models  # slow to import
    from torchvision.ops import FrozenBatchNorm2d

    with torch.random.fork_rng([]):
        torch.default_generator.manual_seed(0)  # so that random features need not be kept; the GPUs' streams stay as they are
        network: Any = getattr(models, name)(weights=None, norm_layer=FrozenBatchNorm2d)
    if weights is not None:
        load(network, Path(os.path.expanduser(weights)), name)
    if name.startswith("resnet"):
        stem = nn.Sequential(network.conv1, network.bn1, network.relu, network.maxpool, network.layer1)
        parts = [stem, network.layer2, network.layer3, network.layer4]
        channels = [part[-1].conv1.in_channels for part in (network.layer1, *parts[1:])]
    else:
        ends = (0, 3, 4, 6, 8)
        parts = [network.features[a:b] for a, b in itertools.pairwise(ends)]
        channels = [part[-1][-1].out_channels for part in parts]
    return nn.ModuleList(parts).requires_grad_(False), channels


def load(network: nn.Module, path: Path, name: str) -> None:
    """Load the weights of a network from torchvision's file; on the meta device, only compare names and shapes."""
    own = network.state_dict()
    try:
        weights = weights_among(read_state(path), own)
    except (FileNotFoundError, ValueError) as error:
        problem = "is missing" if isinstance(error, FileNotFoundError) else f"holds other weights ({error})"
        raise ValueError(f"weights={path} {problem}: download torchvision's file of {name}, and name it") from None
    if not any(value.is_meta for value in own.values()):
        network.load_state_dict(weights)


def _leave_stages_out(module: nn.Module, state: dict[str, Any], prefix: str, _: Any) -> None:
    for key in [key for key in state if key.startswith(f"{prefix}stages.")]:
        del state[key]


def _miss_no_stages(module: nn.Module, keys: Any) -> None:
    keys.missing_keys[:] = [key for key in keys.missing_keys if not key.startswith("stages.")]
