"""What makes images of latents, and latents of images: autoencoders of ganexp, and files of torch.export."""

import hashlib
import logging
import os
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from ganexp.config.loading import load
from ganexp.config.parsing import check_type, shown
from ganexp.config.schema import is_code, is_remote
from ganexp.config.targets import Trust
from ganexp.data import Dataset, Latents
from ganexp.data.latents import AT_ONCE, Scale
from ganexp.evaluation.features import opened
from ganexp.facts import Misfit, UserError
from ganexp.printable import one_line, printable
from ganexp.sampling import Trained

log = logging.getLogger(__name__)
OfData = TypeVar("OfData", bound=Dataset)


class NetworkDecoder:
    """A network that maps latents to images, tried on latents of 0.

    Args:
        network: Maps `(B, C, H, W)` to images `(B, 1 or 3, H', W')` in [-1, 1].
        shape: Of a latent.
        device: Where it runs.
        digest: As in `Decoder`.

    Raises:
        ValueError: It does not.
    """

    def __init__(self, network: Any, shape: tuple[int, ...], device: torch.device, digest: str) -> None:
        self.network, self.digest = network, digest
        try:
            images = self(torch.zeros(2, *shape, device=device))
        except Exception as error:  # what a network raises for a strange shape has no common type
            shape_text = "×".join(map(str, shape))
            raise ValueError(f"makes no images of latents of shape {shape_text} ({one_line(error)})") from None
        if images.dim() != 4 or images.shape[0] != 2 or images.shape[1] not in (1, 3):
            raise ValueError(f"makes {tuple(images.shape)} of two latents, and not two images of 1 or 3 channels")
        self.shape = tuple(images.shape[1:])

    @torch.no_grad()
    def __call__(self, latents: Tensor) -> Tensor:
        """Map latents to images in [-1, 1], in single precision."""
        images: Tensor = self.network(latents.float())
        return images.to(latents.dtype).clamp(-1, 1)


def with_decoder(dataset: OfData, device: torch.device) -> OfData:
    """Return a data set with the decoder that it names, if it names one."""
    if isinstance(dataset, Latents) and dataset.decode:
        dataset.decoder = decoder_at(dataset.decode, dataset.shape, device)
    return dataset


def decoder_at(place: str, shape: tuple[int, ...], device: torch.device, trust: Trust = ()) -> NetworkDecoder:
    """Return the decoder of latents of a shape: a `.pt2` file of torch.export, whose code runs, or an autoencoder of ganexp.

    Raises:
        Misfit: There is none, or it is of other latents.
    """
    try:
        if not is_code(place):
            trained = autoencoder(place, device, trust=trust)
            network, digest = trained.network.images, trained.digest
        else:
            path = Path(os.path.expanduser(place))
            network, digest = opened(path, device), hashlib.sha256(path.read_bytes()).hexdigest()
    except Exception as error:  # what torch raises for an arbitrary file has no common type
        raise Misfit(f"has decode={printable(place)}, which cannot be used ({one_line(error)})", decode=None) from None
    try:
        return NetworkDecoder(network, shape, device, digest)
    except ValueError as error:
        raise Misfit(f"has decode={printable(place)}, which {error}", decode=None) from None


def show_pictures(trained: Trained, place: str | None, trust: Trust = ()) -> None:
    """Have a generator of latents show pictures of them, by a decoder that is named, or else by the run that its data name.

    What only the generator names may be anyone's: a file of torch.export is not opened then, and nothing is fetched.
    """
    node = trained.origin.dataset
    recorded = node.get("decode")
    if place is None and (not isinstance(recorded, str) or is_code(recorded) or is_remote(recorded)):
        if recorded is not None:
            log.warning("Its latents are decoded by %s, which only you may name: say --decode for pictures.", shown(recorded))
        elif str(node.get("_target_")).endswith(".Latents"):
            log.warning("It makes latents, and does not say what decodes them: say --decode for pictures.")
        return
    scale = node.get("scale", 1.0)
    check_type("dataset.scale", scale, Scale)
    try:
        decoder = decoder_at(str(place or recorded), trained.shape, trained.device, trust)
    except Misfit as error:
        raise UserError(
            f"samples are decoded for pictures, and the generator {error.reason}: say where a decoder is with --decode"
        ) from None
    trained.decode = lambda samples: torch.cat([decoder(part / scale) for part in samples.split(AT_ONCE)])
    trained.picture_shape = decoder.shape


def autoencoder(place: str | Path, device: torch.device | str, **how: Any) -> Trained:
    """Load a generator that is an autoencoder, with the methods `latents` and `images`."""
    trained = load(os.path.expanduser(str(place)), device=device, **how)
    refuse_other_than_autoencoders(trained, place)
    trained.network.to(device, torch.float32)
    return trained


def refuse_other_than_autoencoders(trained: Trained, place: str | Path) -> None:
    """Refuse a generator without the methods `latents` and `images`."""
    if not hasattr(trained.network, "images") or not hasattr(trained.network, "latents"):
        raise UserError(f"{place} holds no autoencoder: name a run with generator=vae or vq")
