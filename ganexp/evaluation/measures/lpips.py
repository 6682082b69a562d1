"""The learned perceptual distance."""

import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ganexp.documents import read_state, weights_among
from ganexp.evaluation.base import low
from ganexp.evaluation.features import features_checksum, in_colour, needed
from ganexp.evaluation.measures.pairs import PairMeasure
from ganexp.facts import Facts, Misfit, UserError
from ganexp.printable import one_line
from ganexp.ranges import checked

FILES = {"alex": "alexnet-owt-7be5be79.pth", "vgg": "vgg16-397923af.pth"}
"""What torchvision calls the weights of the networks, at https://download.pytorch.org/models/."""
LEAST_SIDE = {"alex": 31, "vgg": 16}


class LPIPS(PairMeasure):
    """Learned perceptual image patch similarity (Zhang et al. 2018), version 0.1, as torchmetrics computes it.

    Distances of the features of a network that was trained on ImageNet, weighted as the authors have learnt it. torchmetrics
    brings these weights along; those of the network are in a file, and are not downloaded. Grey images are repeated to three
    channels.

    Args:
        network: `alex` for AlexNet, which the authors recommend for measuring; or `vgg` for VGG-16.
        weights: torchvision's file of the network's weights; by default that in the folder to which torchvision downloads.
    """

    keys: ClassVar = {"eval/lpips": low("learned perceptual distance of samples from their targets")}
    library = "torchmetrics"

    @checked
    def __init__(self, *, network: Literal["alex", "vgg"] = "alex", weights: str | None = None) -> None:
        self.network = network
        self.least_side = LEAST_SIDE[network]
        folder = Path(torch.hub.get_dir(), "checkpoints")
        self._weights = Path(os.path.expanduser(weights)) if weights else folder / FILES[network]

    @property
    def settings(self) -> str:
        return f"network {self.network}"

    def check(self, run: Facts) -> None:
        super().check(run)
        if not self._weights.is_file():
            reason = f"needs the weights {FILES[self.network]} of torchvision, and {self._weights} is no file"
            raise Misfit(reason, weights=f"/path/to/{FILES[self.network]}")
        if run.shape[0] not in (1, 3):
            raise Misfit(f"sees images of 1 or 3 channels, and these have {run.shape[0]}")

    def basis(self, features: object, modes: object) -> str:
        return f"features: {self.network} {features_checksum(self._distance.state_dict())}"

    def figures(self, samples: Tensor, targets: Tensor) -> Tensor:
        x, y = (in_colour(images).float() / 127.5 - 1 for images in (samples, targets))
        return self._distance.to(x.device)(x, y).flatten()

    def differentiable(self, device: torch.device) -> Callable[[Tensor, Tensor], Tensor]:
        """Return the distance of images `(B, C, H, W)` in [-1, 1], not rounded to 8 bits, as a function to train on, `(B,)`."""
        network = self._distance.to(device).requires_grad_(False)

        def distance(samples: Tensor, targets: Tensor) -> Tensor:
            x, y = (images.float().expand(-1, 3, -1, -1) for images in (samples, targets))
            return network(x, y).flatten().to(samples.dtype)

        return distance

    @functools.cached_property
    def _distance(self) -> Any:
        """The network, with the learnt weights of its layers."""
        distance = needed("torchmetrics.functional.image.lpips")._LPIPS(net=self.network, pnet_rand=True)
        slices = distance.net.state_dict()  # its layers have torchvision's numbers, behind a number of their own
        try:
            theirs = {f"features.{name.partition('.')[2]}": value for name, value in slices.items()}
            weights = weights_among(read_state(self._weights), theirs)
        except (OSError, ValueError) as error:
            raise UserError(f"{self._weights} has no weights of torchvision's {self.network}: {one_line(error)}") from error
        distance.net.load_state_dict(dict(zip(slices, weights.values(), strict=True)))
        return distance
