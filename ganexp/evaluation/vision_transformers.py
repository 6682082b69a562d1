"""DINOv2 and CLIP as features: vision transformers in plain torch, with published weights from a local file.

torch-fidelity has both in its registry of feature extractors, and neither is used: its DINOv2 downloads its code by `torch.hub`
and cannot be given a file, and its CLIP sees images that were scaled without antialiasing. This module runs only its own code,
downloads nothing, and reads weights as tensors.
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

from ganexp.evaluation.errors import EvaluationError
from ganexp.evaluation.features import Extracted, checksum_of, in_colour, opened

AT_ONCE = 50
"""How many images pass through a network together."""
HEAD = 64
"""Channels of an attention head, in all networks here."""


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


class Block(nn.Module):
    """Attention and an MLP, each after a layer norm and in a residual branch (Dosovitskiy et al. 2021, eq. 2 and 3).

    DINOv2 scales both by a weight for each channel before they are added (Touvron et al. 2021), and uses the exact GELU. CLIP
    uses x · sigmoid(1.702 x) instead.
    """

    def __init__(self, width: int, *, eps: float, scaled: bool) -> None:
        super().__init__()
        self.scaled = scaled
        self.norm1, self.norm2 = nn.LayerNorm(width, eps=eps), nn.LayerNorm(width, eps=eps)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        if scaled:
            self.scale1, self.scale2 = nn.Parameter(torch.ones(width)), nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Map tokens `(B, T, W)` to `(B, T, W)`."""
        attended = self.out(self._attended(self.norm1(x)))
        x = x + (self.scale1 * attended if self.scaled else attended)
        hidden = self.fc1(self.norm2(x))
        seen = self.fc2(gelu(hidden) if self.scaled else hidden * torch.sigmoid(1.702 * hidden))
        return x + (self.scale2 * seen if self.scaled else seen)

    def _attended(self, x: Tensor) -> Tensor:
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, width // HEAD, HEAD).permute(2, 0, 3, 1, 4)
        return scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)


class VisionTransformer(nn.Module):
    """Blocks on the patches of an image and a class token, with their positions; the class token's output is the features.

    Images `(B, 3, H, W)` in [-1, 1], or grey ones, are rounded and repeated by `in_colour`. They are scaled to 224 pixels (336
    for `clip_vitl14_336`) by bicubic interpolation with antialiasing, and normalised by the network's own mean and standard
    deviation. The interpolation's overshoot is not clipped, as in EDM2's evaluation (Karras et al. 2024).
    """

    published: ClassVar[Mapping[str, Architecture]]
    """The networks of this kind, by name."""
    layer: ClassVar[str]
    """Which output of the network the features are, in words."""
    mean: ClassVar[tuple[float, float, float]]
    std: ClassVar[tuple[float, float, float]]
    classes = 0

    def __init__(self, name: str, architecture: Architecture, *, seen_side: int, eps: float, is_clip: bool) -> None:
        super().__init__()
        self.name = f"{name} ({self.layer})"
        self.architecture, self.seen_side = architecture, seen_side
        width, tokens = architecture.width, (architecture.side // architecture.patch) ** 2 + 1
        self.size = architecture.embedding or width
        self.patches = nn.Conv2d(3, width, architecture.patch, stride=architecture.patch, bias=not is_clip)
        self.token, self.positions = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(tokens, width))
        blocks = (Block(width, eps=eps, scaled=not is_clip) for _ in range(architecture.depth))
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(width, eps=eps)
        self.checksum = ""

    @classmethod
    def load(cls, name: str, folder: Path, device: torch.device | str = "cpu") -> "VisionTransformer":
        """Make the named network with its published weights; nothing is downloaded, and no code in the file runs.

        Raises:
            EvaluationError: The file is missing, or does not have the weights of this network.
        """
        architecture = cls.published[name]
        path = folder / architecture.file
        if not path.is_file():
            raise EvaluationError(missing(name, folder))
        with torch.device("meta"):
            network = cls(name, architecture)  # type: ignore[call-arg]
        try:
            state = {own: value.float() for own, value in cls.renamed(_tensors(path, architecture.sha256)).items()}
            network.load_state_dict(state, assign=True)
        except Exception as error:  # what torch raises for an arbitrary file has no common type
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(":. ")[:200]
            raise EvaluationError(
                f"{path} has not the weights of {name} ({reason}): put the file of {architecture.url} there"
            ) from error
        network.checksum = checksum_of(network)
        return network.to(device).eval().requires_grad_(False)

    @staticmethod
    def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return published weights under this module's names; those that features do not depend on are left out."""
        raise NotImplementedError

    def forward(self, samples: Tensor) -> Extracted:
        """Return the features `(B, F)` of a batch, computed in parts, which bounds the memory."""
        return torch.cat([self._features(part) for part in samples.split(AT_ONCE)]), None

    def _features(self, samples: Tensor) -> Tensor:
        x = self.patches(self.prepared(samples)).flatten(2).transpose(1, 2)
        token = self.token.expand(len(x), 1, -1)
        x = self.before(torch.cat([token, x], 1) + self.positions_at(math.isqrt(x.shape[1])))
        for block in self.blocks:
            x = block(x)
        return self.after(self.norm(x[:, 0]))

    def prepared(self, samples: Tensor) -> Tensor:
        """Return images as the network sees them: rounded, scaled and normalised, `(B, 3, S, S)`."""
        pixels = in_colour(samples).float().div(255).to(self.token.dtype)
        if pixels.shape[-2:] != (self.seen_side, self.seen_side):
            pixels = interpolate(pixels, (self.seen_side, self.seen_side), mode="bicubic", antialias=True)
        mean, std = (pixels.new_tensor(one).view(3, 1, 1) for one in (self.mean, self.std))
        return (pixels - mean) / std

    def positions_at(self, side: int) -> Tensor:
        """Return the positions of the class token and of `side` × `side` patches, `(1 + side², W)`."""
        return self.positions

    def before(self, x: Tensor) -> Tensor:
        """Return what the first block sees."""
        return x

    def after(self, token: Tensor) -> Tensor:
        """Return the features of a class token that left the last norm."""
        return token


class DINOv2(VisionTransformer):
    """DINOv2 without registers (Oquab et al. 2024): the class token after the last norm, as in FD_DINOv2 (Stein et al. 2023).

    Positions were learnt for images of 518 pixels. For 224 they are interpolated as the authors' code does: bicubically without
    antialiasing, by the factor (16 + 0.1) / 37.
    """

    published: ClassVar = {
        "dinov2_vits14": _dinov2(384, 12, "s"),
        "dinov2_vitb14": _dinov2(768, 12, "b"),
        "dinov2_vitl14": _dinov2(1024, 24, "l"),
    }
    layer = "class token after the last norm"
    mean, std = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

    def __init__(self, name: str, architecture: Architecture) -> None:
        super().__init__(name, architecture, seen_side=224, eps=1e-6, is_clip=False)

    @staticmethod
    def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return published weights under this module's names; the token of masked patches is left out."""
        first = {"cls_token": "token", "pos_embed": "positions"}
        parts = {"patch_embed.proj.": "patches.", ".attn.qkv.": ".qkv.", ".attn.proj.": ".out.", ".mlp.": "."}
        parts |= {".ls1.gamma": ".scale1", ".ls2.gamma": ".scale2"}
        found = {name: value for name, value in published.items() if name != "mask_token"}
        return {first.get(name) or _replaced(name, parts): _squeezed(name, value) for name, value in found.items()}

    def positions_at(self, side: int) -> Tensor:
        """Return the positions, interpolated where there are fewer patches than they were learnt for."""
        learnt = math.isqrt(len(self.positions) - 1)
        if side == learnt:
            return self.positions
        grid = self.positions[1:].view(1, learnt, learnt, -1).permute(0, 3, 1, 2)
        factor = (side + 0.1) / learnt
        grid = interpolate(grid, scale_factor=(factor, factor), mode="bicubic")
        return torch.cat([self.positions[:1], grid.permute(0, 2, 3, 1).flatten(0, 2)])


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
    mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)

    def __init__(self, name: str, architecture: Architecture) -> None:
        super().__init__(name, architecture, seen_side=architecture.side, eps=1e-5, is_clip=True)
        self.norm_before = nn.LayerNorm(architecture.width, eps=1e-5)
        self.projection = nn.Parameter(torch.zeros(architecture.width, architecture.embedding))

    @staticmethod
    def renamed(published: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return published weights under this module's names; those of the text side are left out."""
        first = {"class_embedding": "token", "positional_embedding": "positions", "proj": "projection"}
        parts = {"conv1.": "patches.", "ln_pre.": "norm_before.", "ln_post.": "norm.", "transformer.resblocks.": "blocks."}
        parts |= {".attn.in_proj_": ".qkv.", ".attn.out_proj.": ".out.", ".ln_1.": ".norm1.", ".ln_2.": ".norm2."}
        parts |= {".mlp.c_fc.": ".fc1.", ".mlp.c_proj.": ".fc2."}
        found = {name.removeprefix("visual."): value for name, value in published.items() if name.startswith("visual.")}
        return {first.get(name) or _replaced(name, parts): value for name, value in found.items()}

    def before(self, x: Tensor) -> Tensor:
        return self.norm_before(x)

    def after(self, token: Tensor) -> Tensor:
        return token @ self.projection


NETWORKS: dict[str, type[VisionTransformer]] = {name: kind for kind in (DINOv2, CLIP) for name in kind.published}
"""The networks of this file, by name."""


def weights_folder(named: str | None) -> Path:
    """Return where weights are looked for: in the named folder, or where torch.hub keeps its downloads."""
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
    read: Mapping[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    return read


def _replaced(name: str, parts: Mapping[str, str]) -> str:
    for published, own in parts.items():
        name = name.replace(published, own)
    return name


def _squeezed(name: str, value: Tensor) -> Tensor:
    """Drop the leading dimensions of size 1 from DINOv2's token and positions."""
    return value.flatten(0, -2).squeeze(0) if name in ("cls_token", "pos_embed") else value
