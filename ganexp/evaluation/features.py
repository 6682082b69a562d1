"""Networks that map images to features `(B, F)`, and some of them to classes too."""

import hashlib
import importlib
import warnings
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ganexp.data.feed import to_pixels
from ganexp.facts import UserError
from ganexp.printable import one_line

Extracted = tuple[Tensor, Tensor | None]
"""Features `(B, F)`, and logits `(B, K)` if there are classes."""


class Features(Protocol):
    """The contract of features. Figures compare only where both name and checksum are the same.

    Features may also have a `note`, which is told with every figure.
    """

    @property
    def name(self) -> str:
        """Their name in the descriptions of figures."""
        ...

    @property
    def checksum(self) -> str:
        """The checksum of the weights; empty if there are none."""
        ...

    @property
    def size(self) -> int:
        """F."""
        ...

    @property
    def classes(self) -> int:
        """K, or 0 without classes."""
        ...

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

    Grey images are repeated to three channels, and all are rounded, by `in_colour`.

    Raises:
        UserError: torch-fidelity is not installed, or the weights are neither on disk nor can they be downloaded.
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
        self.checksum = features_checksum(self.network)

    def __call__(self, samples: Tensor) -> Extracted:
        features, logits = self.network(in_colour(samples))
        return features, logits


class Exported:
    """A file of `torch.export` (`.pt2`) or TorchScript (any other name): maps images to `(B, F)`, or also to logits `(B, K)`.

    Args:
        path: The file; it holds code, which is run.
        shape: Shape of one image.
        device: Where it runs.

    Raises:
        UserError: The file cannot be read, or its network does not return one vector per image.
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
        seen = self.network(samples.float())
        features, *rest = seen if isinstance(seen, (tuple, list)) else (seen,)
        logits = rest[0] if rest else None
        for one in (features, *rest[:1]):
            if one.dim() != 2 or len(one) != len(samples):
                raise UserError(f"it returns {tuple(one.shape)} for {len(samples)} images, and not a vector for each")
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


def in_colour(images: Tensor) -> Tensor:
    """Round images in [-1, 1] to 8 bits, as they would be saved, and repeat grey ones to three channels: `(B, 3, H, W)`, uint8.

    Raises:
        UserError: The images have neither one channel nor three.
    """
    if images.shape[1] not in (1, 3):
        raise UserError(f"these features are of grey images and of colour, and these have {images.shape[1]} channels")
    return to_pixels(images).expand(-1, 3, -1, -1)


def features_checksum(network: nn.Module) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of a network's state, in the order of its `state_dict`.

    Caches and results name features by it, so its bytes stay; exported weights have `sampling.trained.weights_digest`.
    """
    content = hashlib.sha256()
    for name, value in network.state_dict().items():
        content.update(f"{name} {value.dtype} {list(value.shape)}".encode())
        content.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return content.hexdigest()[:16]


def opened(path: Path, device: torch.device | str) -> nn.Module:
    """Load a file of `torch.export` (`.pt2`) or TorchScript (any other name); both hold code.

    Raises:
        OSError: It is no file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path} is no file")  # a pipe would be waited for
    if path.suffix == ".pt2":
        return torch.export.load(path).module().to(device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*torch.jit")  # TorchScript is no longer recommended, but files exist
        return torch.jit.load(path, map_location=device).eval()


def needed(module: str) -> Any:
    """Import a module of a package that only some measures need.

    Raises:
        UserError: The package is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UserError(f"this needs {package}: pip install {package.replace('_', '-')}") from error
