"""Features `(B, F)` of samples: networks, the files of their weights, and what of these is missing on this machine.

Nothing but Inception is downloaded. A dataset's own classifier is in `classifier.py`.
"""

import hashlib
import importlib
import math
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from ganexp.data.feed import to_pixels
from ganexp.documents import read_state, weights_among
from ganexp.facts import UserError
from ganexp.printable import one_line

Extracted = tuple[Tensor, Tensor | None]
"""Features `(B, F)`, and logits `(B, K)` if there are classes."""


class Features(Protocol):
    """The contract of features: `size` is F, and `classes` is K, or 0 without classes.

    `name` is their name in the descriptions of figures, and `checksum` that of the weights, empty if there are none. Figures
    compare only where both are the same. Features may also have a `note`, which is shown with every figure.
    """

    @property
    def name(self) -> str: ...

    @property
    def checksum(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def classes(self) -> int: ...

    def __call__(self, samples: Tensor, /) -> Extracted:
        """Return the features of a batch; images are `(B, C, H, W)` in [-1, 1]."""
        ...


class Raw:
    """Samples as they are: for points of the plane, or for pixels."""

    name, checksum, classes = "raw", "", 0

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.size = int(torch.Size(shape).numel())

    def __call__(self, samples: Tensor) -> Extracted:
        return samples.flatten(1), None


class Inception:
    """Inception v3 with the weights of the original FID (Heusel et al. 2017), as torch-fidelity has it; 2048 features.

    Images are rounded, and grey ones repeated to three channels, by `in_colour`.
    """

    name, size, classes = "inception", 2048, 1008

    def __init__(self, device: torch.device | str = "cpu") -> None:
        network = needed("torch_fidelity.feature_extractor_inceptionv3").FeatureExtractorInceptionV3
        try:
            self.network = network("inception-v3-compat", ["2048", "logits_unbiased"]).to(device).eval()
        except (OSError, RuntimeError) as error:
            folder = Path(torch.hub.get_dir(), "checkpoints")
            raise UserError(
                f"the weights of Inception cannot be downloaded ({one_line(error)}): put "
                f"weights-inception-2015-12-05-6726825d.pth into {folder}, or choose other features"
            ) from error
        self.checksum = features_checksum(self.network.state_dict())

    def __call__(self, samples: Tensor) -> Extracted:
        features, logits = self.network(in_colour(samples))
        return features, logits


class Exported:
    """A file of `torch.export` (`.pt2`) or TorchScript (any other name): maps images to `(B, F)`, or also to logits `(B, K)`.

    Args:
        path: The file; it holds code, which is run.
        shape: Shape of one image.
        device: The device of the network.
    """

    def __init__(self, path: Path, shape: tuple[int, ...], device: torch.device | str = "cpu") -> None:
        self.name = path.name
        try:
            self.network = opened(path, device)
            self.checksum = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            with torch.no_grad():
                features, logits = self(torch.zeros(2, *shape, device=device))
        except OSError as error:
            raise UserError(f"{path} cannot be read: {error.strerror or error}") from error
        except Exception as error:  # what torch raises for an arbitrary file has no common type
            reason = one_line(error)
            raise UserError(f"{path} is no network that sees images of shape {shape}: {reason}") from error
        self.size, self.classes = features.shape[1], 0 if logits is None else logits.shape[1]

    def __call__(self, samples: Tensor) -> Extracted:
        outputs = self.network(samples.float())
        features, *rest = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        logits = rest[0] if rest else None
        for output in (features, *rest[:1]):
            if output.dim() != 2 or len(output) != len(samples):
                raise UserError(f"it returns {tuple(output.shape)} for {len(samples)} images, and not a vector for each")
        return features, logits


class PerChannel:
    """Features of each channel on its own, `(B, 3 F)`; the class is the number that the three digits form, red first."""

    def __init__(self, of: Features) -> None:
        self.of = of
        self.name, self.checksum = f"{of.name} per channel", of.checksum
        self.note = getattr(of, "note", "")
        self.size, self.classes = 3 * of.size, of.classes**3

    def __call__(self, samples: Tensor) -> Extracted:
        batch = len(samples)
        features, logits = self.of(samples.reshape(batch * 3, 1, *samples.shape[2:]))
        if logits is None:
            return features.reshape(batch, -1), None
        red, green, blue = logits.log_softmax(1).reshape(batch, 3, -1).unbind(1)
        joint = red[:, :, None, None] + green[:, None, :, None] + blue[:, None, None, :]
        return features.reshape(batch, -1), joint.flatten(1)


@dataclass(frozen=True)
class Published:
    """A published vision transformer, and where its weights are.

    Args:
        model: The name of its network in timm.
        size: F.
        url: Where the weights are; a file of the same name is looked for.
        side: Side of the images that it sees, in pixels.
        sha256: Checksum of the file if it is a TorchScript archive, which is opened only if it is the published one.
    """

    model: str
    size: int
    url: str
    side: int = 224
    sha256: str = ""

    @property
    def file(self) -> str:
        """The name of the file of weights."""
        return self.url.rpartition("/")[2]

    @property
    def is_clip(self) -> bool:
        """Whether it is the image side of CLIP, which projects its class token to the size of the features."""
        return "clip" in self.model


def _dinov2(size: str, letter: str, features: int) -> Published:
    url = f"https://dl.fbaipublicfiles.com/dinov2/dinov2_vit{letter}14/dinov2_vit{letter}14_pretrain.pth"
    return Published(f"vit_{size}_patch14_dinov2", features, url)


def _clip(model: str, features: int, file: str, sha256: str, side: int = 224) -> Published:
    url = f"https://openaipublic.azureedge.net/clip/models/{sha256}/{file}.pt"
    return Published(f"vit_{model}_clip_quickgelu_{side}", features, url, side, sha256)


PUBLISHED = {
    "dinov2_vits14": _dinov2("small", "s", 384),
    "dinov2_vitb14": _dinov2("base", "b", 768),
    "dinov2_vitl14": _dinov2("large", "l", 1024),
    "clip_vitb32": _clip("base_patch32", 512, "ViT-B-32", "40d365715913c9da98579312b702a82c18be219cc2a73407c4526f58eba950af"),
    "clip_vitb16": _clip("base_patch16", 512, "ViT-B-16", "5806e77cd80f8b59890b7e101eabd078d9fb84e6937f9e85e4ecb61988df416f"),
    "clip_vitl14": _clip("large_patch14", 768, "ViT-L-14", "b8cca3fd41ae0c99ba7e8951adf17d267cdb84cd88be6f7c2e0eca1737a03836"),
    "clip_vitl14_336": _clip(
        "large_patch14", 768, "ViT-L-14-336px", "3035c92b350959924f9f00213499208652fc7ea050643e8b385c2dac08641f02", 336
    ),
}
"""The networks of `VisionTransformer`, by name."""
NORMALISED = {
    True: ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    False: ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
}
"""Mean and standard deviation of the colours, of CLIP and of DINOv2."""
AT_ONCE = 50
"""The number of images in a pass of a vision transformer."""


class VisionTransformer(nn.Module):
    """DINOv2 without registers (Oquab et al. 2024) or the image side of CLIP (Radford et al. 2021), as timm has them.

    The features of DINOv2 are its class token after the last norm, as in FD_DINOv2 (Stein et al. 2023); those of CLIP are image
    embeddings after the projection, not normalised.

    Images `(B, 3, H, W)` in [-1, 1], or grey ones, are rounded and repeated by `in_colour`. They are scaled to the network's
    side by bicubic interpolation with antialiasing, and normalised by its mean and standard deviation. The interpolation's
    overshoot is not clipped, as in EDM2's evaluation (Karras et al. 2024).

    Departure: CLIP crops images that are not square; here they are scaled to a square.

    Args:
        name: One of `PUBLISHED`.
        folder: The folder of the published file. No code in it runs, but for the very TorchScript archive of CLIP.
        device: The device of the network.
    """

    classes = 0

    def __init__(self, name: str, folder: Path, device: torch.device | str = "cpu") -> None:
        super().__init__()
        published = PUBLISHED[name]
        layer = "projected image embedding" if published.is_clip else "class token after the last norm"
        self.name, self.size, self.side = f"{name} ({layer})", published.size, published.side
        self.mean, self.std = NORMALISED[published.is_clip]
        path, self.network = folder / published.file, in_timm(published)
        try:
            weights = _tensors(path, published)
            state = _clip_in_timm(weights, self.network) if published.is_clip else dinov2_in_timm(weights, published.side // 14)
            self.network.load_state_dict(state, assign=True)
        except Exception as error:  # what torch raises for an arbitrary file has no common type
            reason = one_line(error)
            raise UserError(
                f"{path} has not the weights of {name} ({reason}): put the file of {published.url} there"
            ) from error
        self.checksum = features_checksum({f"network.{own}": weights[own] for own in sorted(weights, key=_rank)})
        self.to(device).eval().requires_grad_(False)

    def forward(self, samples: Tensor) -> Extracted:
        """Return the features `(B, F)` of a batch, computed in parts, which bounds the memory."""
        return torch.cat([self.network(self.prepared(part)) for part in samples.split(AT_ONCE)]), None

    def prepared(self, samples: Tensor) -> Tensor:
        """Return images as the network sees them: rounded, scaled and normalised, `(B, 3, S, S)`."""
        pixels = in_colour(samples).float().div(255).to(next(self.network.parameters()).dtype)
        if pixels.shape[-2:] != (self.side, self.side):
            pixels = interpolate(pixels, (self.side, self.side), mode="bicubic", antialias=True)
        mean, std = (pixels.new_tensor(values).view(3, 1, 1) for values in (self.mean, self.std))
        return (pixels - mean) / std


def in_timm(published: Published) -> nn.Module:
    """Return timm's network, without weights, on the meta device."""
    create = needed("timm").create_model
    with torch.device("meta"):
        network: nn.Module = create(
            published.model, img_size=published.side, num_classes=published.size if published.is_clip else 0
        )
    return network


def _tensors(path: Path, published: Published) -> dict[str, Tensor]:
    """Read a file's weights of the image network, by the authors' names; float32 and finite.

    A TorchScript archive, which also holds code, is opened only if it is the published one.
    """
    read: Mapping[str, Tensor]
    with path.open("rb") as file:
        is_archive = published.is_clip and hashlib.file_digest(file, "sha256").hexdigest() == published.sha256
    read = opened(path, "cpu").state_dict() if is_archive else read_state(path)
    within = "visual." if published.is_clip else ""
    own = {name.removeprefix(within): value for name, value in read.items() if name.startswith(within) and name != "mask_token"}
    like = {name: torch.empty(value.shape, device="meta") for name, value in own.items()}
    return weights_among(own, like)


def _clip_in_timm(weights: Mapping[str, Tensor], network: nn.Module) -> dict[str, Tensor]:
    """Return CLIP's weights by timm's names, whose projection is a linear layer."""
    of_clip = {f"visual.{name}": value for name, value in weights.items()}
    in_timm: dict[str, Tensor] = needed("timm.models.vision_transformer")._convert_openai_clip(of_clip, network)
    return in_timm


def dinov2_in_timm(weights: Mapping[str, Tensor], side: int) -> dict[str, Tensor]:
    """Return DINOv2's weights with positions for images of `side` × `side` patches.

    They were learnt for 37 × 37, and are interpolated as in the authors' code: bicubically without antialiasing, for 16 × 16
    by the factor (16 + 0.1) / 37. timm's own code would interpolate with antialiasing.
    """
    first, learnt = weights["pos_embed"][:, :1], weights["pos_embed"][:, 1:]
    grid = learnt.unflatten(1, (math.isqrt(learnt.shape[1]),) * 2).permute(0, 3, 1, 2)
    grid = interpolate(grid, scale_factor=((side + 0.1) / grid.shape[-1],) * 2, mode="bicubic")
    return {**weights, "pos_embed": torch.cat([first, grid.permute(0, 2, 3, 1).flatten(1, 2)], 1)}


ORDER = (
    *("cls_token", "class_embedding", "pos_embed", "positional_embedding", "patch_embed", "qkv", "proj", "conv1", "ln_pre"),
    *("blocks", "transformer", "resblocks", "norm1", "norm2", "attn", "in_proj_weight", "in_proj_bias", "out_proj", "ln_1"),
    *("mlp", "c_fc", "c_proj", "ln_2", "fc1", "fc2", "ls1", "ls2", "norm", "ln_post", "weight", "bias", "gamma"),
)
"""The order of weights in a checksum, whatever their order in a file: caches and results name features by it."""


def _rank(name: str) -> list[int]:
    return [int(part) if part.isdecimal() else ORDER.index(part) for part in name.split(".")]


@dataclass(frozen=True)
class FeatureSource:
    """Features before they are loaded."""

    load: Callable[[torch.device], Features]
    """Loads them onto a device."""
    size: int = 1
    """F, or its lower bound."""
    missing: str = ""
    """What is missing on this machine, as in "needs the file …"; empty if nothing is."""


def feature_source(name: str, shape: tuple[int, ...], weights: str | None = None) -> FeatureSource:
    """Find features by name, all but those of a dataset's classifier.

    Args:
        name: `raw`, `inception`, one of `PUBLISHED`, or the path of a file that is exported.
        shape: Shape of one sample.
        weights: The folder of published weights; torch.hub's if it is None.
    """
    if name == "raw":
        return FeatureSource(lambda device: Raw(shape), math.prod(shape))
    if name == "inception":
        return FeatureSource(Inception, Inception.size)
    if name in PUBLISHED:
        published = PUBLISHED[name]
        folder = Path(os.path.expanduser(weights)) if weights else Path(torch.hub.get_dir(), "checkpoints")
        missing = ""
        if find_spec("timm") is None:
            missing = 'needs the package timm, which is missing: pip install "ganexp[features]"'
        elif not (folder / published.file).is_file():
            missing = (
                f"needs the file {published.file}, which is not in {folder}: put it there from {published.url}, or name the "
            )
            missing += "folder that it is in by evaluation.feature_weights"
        return FeatureSource(lambda device: VisionTransformer(name, folder, device), published.size, missing)
    path = Path(os.path.expanduser(name))
    remedy = "choose classifier, inception, raw, or a file that is there"
    missing = "" if path.is_file() else f"needs the file {path}, which does not exist: {remedy}"
    return FeatureSource(lambda device: Exported(path, shape, device), missing=missing)


def in_colour(images: Tensor) -> Tensor:
    """Round images in [-1, 1] to 8 bits, as they would be saved, and repeat grey ones: `(B, 3, H, W)`, uint8."""
    if images.shape[1] not in (1, 3):
        raise UserError(f"these features are of grey images and of colour, and these have {images.shape[1]} channels")
    return to_pixels(images).expand(-1, 3, -1, -1)


def features_checksum(state: Mapping[str, Tensor]) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a network's state, in its order.

    Caches and results name features by it, so its bytes stay; exported weights have `sampling.trained.weights_digest`.
    """
    content = hashlib.sha256()
    for name, value in state.items():
        content.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        content.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return content.hexdigest()[:16]


def opened(path: Path, device: torch.device | str) -> nn.Module:
    """Load a file of `torch.export` (`.pt2`) or TorchScript (any other name), both of which hold code."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file")  # a pipe would be waited for
    if path.suffix == ".pt2":
        return torch.export.load(path).module().to(device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit")  # TorchScript is no longer recommended, but files exist
        return torch.jit.load(path, map_location=device).eval()


def needed(module: str) -> Any:
    """Import a module of a package that only some measures need."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UserError(f"this needs {package}: pip install {package.replace('_', '-')}") from error
