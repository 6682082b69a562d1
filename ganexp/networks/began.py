"""BEGAN's networks (Berthelot et al. 2017, section 3.5): a decoder, and an autoencoder that scores by its error.

Departures: no vanishing residuals and no skip connections (the paper's optional extras), and the code and the latent
vector may have different lengths.
"""

import torch
from torch import Tensor, nn

from ganexp.networks.sizes import Width, halvings
from ganexp.ranges import checked


class BEGANGenerator(nn.Module):
    """A linear layer to 8×8×`width`, then pairs of 3×3 convolutions with ELU, and nearest-neighbour doubling between them.

    The output is linear, as in the paper: images lie around [-1, 1] and are clamped only to be shown.

    Args:
        shape: `(C, H, W)` with H = W = 16, 32, 64, …
        width: Channels of every convolution.
    """

    @checked
    def __init__(self, latent_dim: int, shape: tuple[int, ...], *, width: Width = 64) -> None:
        super().__init__()
        doublings = halvings(shape) - 1
        layers: list[nn.Module] = [nn.Linear(latent_dim, 64 * width), nn.Unflatten(1, (width, 8, 8))]
        layers += _pair(width, width)
        for _ in range(doublings):
            layers += [nn.Upsample(scale_factor=2, mode="nearest"), *_pair(width, width)]
        self.layers = nn.Sequential(*layers, nn.Conv2d(width, shape[0], 3, padding=1))

    def forward(self, z: Tensor) -> Tensor:
        return self.layers(z)


class BEGANDiscriminator(nn.Module):
    """An autoencoder whose score is each image's mean absolute reconstruction error: an energy, low for real.

    The encoder has pairs of 3×3 convolutions with ELU, whose channels grow by `width` at each halving; the decoder is
    the generator's architecture with weights of its own.

    Args:
        shape: `(C, H, W)` with H = W = 16, 32, 64, …
        width: Channels of the first convolution.
        code_dim: Length of the code between encoder and decoder.
        returns_code: Whether to return the code after each score, for losses that read it; `further` is then `code`.
    """

    output = "energy"

    @checked
    def __init__(self, shape: tuple[int, ...], *, width: Width = 64, code_dim: Width = 64, returns_code: bool = False) -> None:
        super().__init__()
        self.further = "code" if returns_code else ""
        levels = halvings(shape) - 1
        layers: list[nn.Module] = [nn.Conv2d(shape[0], width, 3, padding=1), nn.ELU(), *_pair(width, width)]
        for i in range(1, levels + 1):
            layers += [nn.Conv2d(i * width, (i + 1) * width, 3, stride=2, padding=1), nn.ELU()]
            layers += _pair((i + 1) * width, (i + 1) * width)
        layers += [nn.Flatten(), nn.Linear(64 * (levels + 1) * width, code_dim)]
        self.encoder = nn.Sequential(*layers)
        self.decoder = BEGANGenerator(code_dim, shape, width=width)

    def forward(self, x: Tensor) -> Tensor:
        """Map images `(B, C, H, W)` to energies `(B,)`, or `(B, 1 + code_dim)` with the code.

        The target is the image itself, which gradients flow through too.
        """
        code = self.encoder(x)
        energies = (x - self.decoder(code)).abs().flatten(1).mean(1)
        return torch.cat([energies[:, None], code], 1) if self.further else energies

    def reconstruct(self, x: Tensor) -> Tensor:
        """Encode and decode images, `(B, C, H, W)`."""
        return self.decoder(self.encoder(x))


def _pair(before: int, after: int) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=1), nn.ELU(), nn.Conv2d(after, after, 3, padding=1), nn.ELU()]
