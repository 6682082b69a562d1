"""DINOv2 and CLIP as features, with published weights from a local file.

CLIP's network is torch-fidelity's. Its feature extractors are not used: that of DINOv2 downloads its code by `torch.hub` and
cannot be given a file, and that of CLIP sees images that were scaled without antialiasing. Nothing is downloaded here, and
weights are read as tensors.
"""

import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, interpolate, scaled_dot_product_attention

from ganexp.documents import read_state, weights_among
from ganexp.evaluation.features import Extracted, features_checksum, in_colour, needed, opened
from ganexp.facts import UserError
from ganexp.printable import one_line

AT_ONCE = 50
"""How many images pass through a network together."""
HEAD = 64
"""Channels of an attention head, in all networks here."""
EPS = 1e-6
"""The ε of DINOv2's layer norms."""


@dataclass(frozen=True)
class Architecture:
    """The sizes of a vision transformer, and where its published weights are.

    Args:
        width, depth: Channels and number of the layers.
        patch: Pixels along the side of a patch.
        side: Side of the images that the positions in the weights were learnt for.
        embedding: The size of CLIP's projection; 0 for DINOv2, whose class token is not projected.
        url: Where the published weights are; a file of the same name is looked for.
        sha256: Checksum of that file if it is a TorchScript archive, which is opened only if it is the published one.
    """

    width: int
    depth: int
    patch: int
    side: int
    embedding: int
    url: str
    sha256: str = ""

    @property
    def file(self) -> str:
        """The name of the file of weights."""
        return self.url.rpartition("/")[2]


def _dinov2(width: int, depth: int, size: str) -> Architecture:
    url = f"https://dl.fbaipublicfiles.com/dinov2/dinov2_vit{size}14/dinov2_vit{size}14_pretrain.pth"
    return Architecture(width, depth, 14, 518, 0, url)


def _clip(width: int, depth: int, patch: int, side: int, embedding: int, file: str, sha256: str) -> Architecture:
    url = f"https://openaipublic.azureedge.net/clip/models/{sha256}/{file}.pt"
    return Architecture(width, depth, patch, side, embedding, url, sha256)


class VisionTransformer(nn.Module):
    """A network whose output for an image's class token is the features; its parameters are named as in the published file.

    Images `(B, 3, H, W)` in [-1, 1], or grey ones, are rounded and repeated by `in_colour`. They are scaled to 224 pixels (336
    for `clip_vitl14_336`) by bicubic interpolation with antialiasing, and normalised by the network's own mean and standard
    deviation. The interpolation's overshoot is not clipped, as in EDM2's evaluation (Karras et al. 2024).
    """

    published: ClassVar[Mapping[str, Architecture]]
    """The networks of this kind, by name."""
    layer: ClassVar[str]
    """Which output of the network the features are, in words."""
    within: ClassVar[str]
    """How the published names of its parameters begin."""
    unused: ClassVar[frozenset[str]] = frozenset()
    """Published weights that features do not depend on."""
    mean: ClassVar[tuple[float, float, float]]
    std: ClassVar[tuple[float, float, float]]
    classes = 0

    def __init__(self, name: str, architecture: Architecture, network: nn.Module, *, seen_side: int) -> None:
        super().__init__()
        self.name = f"{name} ({self.layer})"
        self.network, self.seen_side = network, seen_side
        self.size = architecture.embedding or architecture.width
        self.checksum = ""

    @classmethod
    def load(cls, name: str, folder: Path, device: torch.device | str = "cpu") -> "VisionTransformer":
        """Make the named network with its published weights; nothing is downloaded, and no code in the file runs.

        Raises:
            UserError: The file is missing, or does not have the weights of this network.
        """
        architecture = cls.published[name]
        path = folder / architecture.file
        if not path.is_file():
            raise UserError(missing(name, folder))
        with torch.device("meta"):
            made = cls(name, architecture)  # type: ignore[call-arg]
        try:
            read = _tensors(path, architecture.sha256)
            own = {name: value for name, value in read.items() if name.startswith(cls.within) and name not in cls.unused}
            state = {name.removeprefix(cls.within): value for name, value in own.items()}
            like = {name: value for name, value in made.network.state_dict().items() if name in state}
            made.network.load_state_dict(state | weights_among(state, like), assign=True)
        except Exception as error:  # what torch raises for an arbitrary file has no common type
            reason = one_line(error)
            raise UserError(
                f"{path} has not the weights of {name} ({reason}): put the file of {architecture.url} there"
            ) from error
        made.checksum = features_checksum(made)
        return made.to(device).eval().requires_grad_(False)

    def forward(self, samples: Tensor) -> Extracted:
        """Return the features `(B, F)` of a batch, computed in parts, which bounds the memory."""
        return torch.cat([self.network(self.prepared(part)) for part in samples.split(AT_ONCE)]), None

    def prepared(self, samples: Tensor) -> Tensor:
        """Return images as the network sees them: rounded, scaled and normalised, `(B, 3, S, S)`."""
        pixels = in_colour(samples).float().div(255).to(next(self.network.parameters()).dtype)
        if pixels.shape[-2:] != (self.seen_side, self.seen_side):
            pixels = interpolate(pixels, (self.seen_side, self.seen_side), mode="bicubic", antialias=True)
        mean, std = (pixels.new_tensor(one).view(3, 1, 1) for one in (self.mean, self.std))
        return (pixels - mean) / std


class TransformerBlock(nn.Module):
    """Attention and an MLP, each after a layer norm and in a residual branch (Dosovitskiy et al. 2021, eq. 2 and 3).

    Both branches are scaled by a weight for each channel before they are added (Touvron et al. 2021).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=EPS), nn.LayerNorm(width, eps=EPS)
        self.attn = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "proj": nn.Linear(width, width)})
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
        self.ls1, self.ls2 = (nn.ParameterDict({"gamma": nn.Parameter(torch.ones(width))}) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens `(B, T, W)` to `(B, T, W)`."""
        x = x + self.ls1["gamma"] * self.attn["proj"](self._attended(self.norm1(x)))
        return x + self.ls2["gamma"] * self.mlp["fc2"](gelu(self.mlp["fc1"](self.norm2(x))))

    def _attended(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.attn["qkv"](x).view(batch, tokens, 3, width // HEAD, HEAD).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)


class DINOv2Network(nn.Module):
    """Blocks on the patches of an image `(B, 3, S, S)` and a class token, with their positions.

    Positions were learnt for images of 518 pixels. For fewer they are interpolated as the authors' code does: bicubically
    without antialiasing, for 224 by the factor (16 + 0.1) / 37.
    """

    def __init__(self, width: int, depth: int, patch: int, side: int) -> None:
        super().__init__()
        self.cls_token = nn.Parameter(torch.zeros(1, 1, width))
        self.pos_embed = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, width))
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(3, width, patch, stride=patch)})
        self.blocks = nn.ModuleList(TransformerBlock(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width, eps=EPS)

    def forward(self, x: Tensor) -> Tensor:
        """Return the class token after the last norm, `(B, W)`."""
        x = self.patch_embed["proj"](x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), 1, -1), x], 1) + self._positions(math.isqrt(x.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x[:, 0])

    def _positions(self, side: int) -> Tensor:
        """Return the positions of the class token and of `side` × `side` patches, `(1, 1 + side², W)`."""
        learnt = math.isqrt(self.pos_embed.shape[1] - 1)
        if side == learnt:
            return self.pos_embed
        grid = self.pos_embed[:, 1:].unflatten(1, (learnt, learnt)).permute(0, 3, 1, 2)
        factor = (side + 0.1) / learnt
        grid = interpolate(grid, scale_factor=(factor, factor), mode="bicubic")
        return torch.cat([self.pos_embed[:, :1], grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)


class DINOv2(VisionTransformer):
    """DINOv2 without registers (Oquab et al. 2024).

    The features are its class token after the last norm, as in FD_DINOv2 (Stein et al. 2023).
    """

    published: ClassVar = {
        "dinov2_vits14": _dinov2(384, 12, "s"),
        "dinov2_vitb14": _dinov2(768, 12, "b"),
        "dinov2_vitl14": _dinov2(1024, 24, "l"),
    }
    layer = "class token after the last norm"
    within, unused = "", frozenset({"mask_token"})
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(self, name: str, architecture: Architecture) -> None:
        a = architecture
        super().__init__(name, a, DINOv2Network(a.width, a.depth, a.patch, a.side), seen_side=224)


class CLIP(VisionTransformer):
    """The image side of CLIP (Radford et al. 2021): image embeddings after the projection, not normalised.

    Departure: CLIP crops images that are not square; here they are scaled to a square.
    """

    published: ClassVar = {
        "clip_vitb32": _clip(
            768, 12, 32, 224, 512, "ViT-B-32", "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af"
        ),
        "clip_vitb16": _clip(
            768, 12, 16, 224, 512, "ViT-B-16", "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f"
        ),
        "clip_vitl14": _clip(
            1024, 24, 14, 224, 768, "ViT-L-14", "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836"
        ),
        "clip_vitl14_336": _clip(
            1024, 24, 14, 336, 768, "ViT-L-14-336px", "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02"
        ),
    }
    layer = "projected image embedding"
    within = "visual."
    mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

    def __init__(self, name: str, architecture: Architecture) -> None:
        a, clip = architecture, needed("torch_fidelity.feature_extractor_clip")
        network = clip.VisionTransformer(a.side, a.patch, a.width, a.depth, a.width // HEAD, a.embedding)
        super().__init__(name, a, network, seen_side=a.side)


NETWORKS: dict[str, type[VisionTransformer]] = {name: kind for kind in (DINOv2, CLIP) for name in kind.published}
"""The networks of this file, by name."""


def weights_folder(named: str | None) -> Path:
    """Return the folder of weights: the named one, or torch.hub's."""
    return Path(os.path.expanduser(named)) if named else Path(torch.hub.get_dir(), "checkpoints")


def missing(name: str, folder: Path) -> str:
    """Return a sentence, without its full stop, for weights that are missing; empty if they are there."""
    architecture = NETWORKS[name].published[name]
    if (folder / architecture.file).is_file():
        return ""
    return (
        f"{name} needs the file {architecture.file}, which is not in {folder}: put it there from {architecture.url}, or name "
        "the folder that it is in by evaluation.feature_weights"
    )


def _tensors(path: Path, sha256: str) -> Mapping[str, Tensor]:
    """Read the tensors of a file; a TorchScript archive, which also has code, is opened only if it is the published one."""
    if sha256:
        with path.open("rb") as file:
            published = hashlib.file_digest(file, "sha256").hexdigest() == sha256
        if published:
            return opened(path, "cpu").state_dict()
    read: Mapping[str, Tensor] = read_state(path)
    return read
