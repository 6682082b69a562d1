"""Transformers of patches: DiT's (Peebles & Xie 2023), as in two families of GANs on latents.

A sample is split into patches, each of which becomes a token. Blocks of attention and of a perceptron follow, of two kinds:

- `dit`: layer norm, GELU; shifts, scales and gates are functions of a vector, and start at 0 (adaLN-zero), as does the last
  layer of G: DiT, and both networks of adversarial flow models (AFM: Lin et al. 2025).
- `gat`: RMS norm, also of queries and keys, and SwiGLU; scales and gates are functions of a vector, and start small. In D they
  do not depend on a vector, and gates are learnt, from 0.1: the code of "Scalable GANs with transformers" (GAT: Hyun et al.
  2025).

`depth`, `width` and `heads` of the published sizes: S 12, 384, 6; B 12, 768, 12; L 24, 1024, 16; XL 28, 1152, 16.

Departures from DiT: z replaces the time step and enters by a mapping network; or z is the image that G starts from, and the
vector is that of the label alone. Without labels there is one class.
Departures from GAT: G forms samples after its last block, not after every quarter of them, and D sees them without noise; the
mapping network is StyleGAN2's with two layers; D's class vectors are as long as a token, and D has no head that predicts
another network's features.
"""

import math
from collections.abc import Iterator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from ganexp.facts import Misfit
from ganexp.networks.sizes import Depth, Width, sides
from ganexp.networks.stylegan2 import Mapping
from ganexp.ranges import checked

Kind = Literal["dit", "gat"]
Positions = Literal["rope", "learned", "fixed"]
"""The encoding of positions. `fixed`: sines and cosines are added; `learned`: they are trained; `rope`: queries and keys are
also rotated by their row and column (Su et al. 2021)."""
BASE = 10_000.0
"""The ratio of the highest frequency, 1, to the lowest (Vaswani et al. 2017)."""
SPREAD = 0.02
"""Initial standard deviation of class vectors, and of the token that D reads."""
SMALL = 0.1
"""Initial gain of modulation layers, and initial gates, in blocks of kind `gat`."""


class Transformer(nn.Module):
    """The blocks and positions of both networks.

    Args:
        shape: `(C, H, W)`, whose sides `patch` divides.
        patch: Side of a patch.
        depth: Number of blocks.
        width: Length of a token, a multiple of 4.
        heads: Number of attention heads. It divides `width`; with `rope`, 4 divides the length of a head.
        block: The kind of block.
        positions: As in `Positions`.
        fused: Whether to use torch's fused attention, which takes less time and memory, and has no second derivatives.
        modulated: Whether the blocks depend on a vector.
        extra: Number of tokens before those of patches.
    """

    positions: Tensor
    angles: Tensor | None

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        patch: int,
        depth: int,
        width: int,
        heads: int,
        block: Kind,
        positions: Positions,
        fused: bool,
        modulated: bool = True,
        extra: int = 0,
    ) -> None:
        super().__init__()
        refuse_sizes(shape, patch, width, heads, rotated=positions == "rope")
        self.patch, self.grid = patch, (shape[1] // patch, shape[2] // patch)
        self.differentiable_once = "fused" if fused else ""
        places = sines(self.grid, width).to(torch.get_default_dtype())
        if positions == "learned":
            self.positions = nn.Parameter(places)
        else:
            self.register_buffer("positions", places, persistent=False)
        angles = None
        if positions == "rope":
            angles = turns(self.grid, width // heads).to(torch.get_default_dtype())
            angles = torch.cat([angles.new_zeros(extra, angles.shape[1]), angles])
        self.register_buffer("angles", angles, persistent=False)
        self.blocks = nn.ModuleList(TokenBlock(width, heads, block, modulated=modulated, fused=fused) for _ in range(depth))

    def passed(self, tokens: Tensor, *vector: Tensor) -> Iterator[Tensor]:
        """Yield tokens `(B, T, width)` after each block, under vectors `(B, width)`."""
        for block in self.blocks:
            tokens = block(tokens, self.angles, *vector)
            yield tokens


class DiTGenerator(Transformer):
    """Tokens, blocks, and a linear layer to the pixels of each patch; the output is not bounded.

    Args:
        latent_dim: Length of a latent vector; 64 in GAT.
        shape, patch, depth, width, heads, block, positions, fused: As in `Transformer`.
        z: Where latents enter: in the `blocks`, as vectors after a mapping network, with tokens that start as positions alone;
            or as `tokens`, noise of a sample's own shape, so that `latent_dim` is C · H · W (AFM).
        classes: The mapping network also reads a learnt vector of the class; with `tokens`, that vector enters the blocks.
    """

    @checked
    def __init__(
        self,
        latent_dim: int,
        shape: tuple[int, ...],
        *,
        patch: Width = 2,
        depth: Depth = 12,
        width: Width = 384,
        heads: Width = 6,
        block: Kind = "dit",
        positions: Positions = "rope",
        z: Literal["blocks", "tokens"] = "blocks",
        fused: bool = False,
        classes: int = 0,
    ) -> None:
        super().__init__(
            shape, patch=patch, depth=depth, width=width, heads=heads, block=block, positions=positions, fused=fused
        )
        pixels, self.shape = shape[0] * patch**2, tuple(shape)
        if z == "tokens" and latent_dim != math.prod(shape):
            reason = f"starts from noise of a sample's shape, {'×'.join(map(str, shape))}, and has latent_dim={latent_dim}"
            raise Misfit(reason, z="blocks", latent_dim=math.prod(shape))
        self.first = linear(pixels, width) if z == "tokens" else None
        self.vectors = ClassVectors(classes, width) if z == "tokens" else Mapping(latent_dim, width, 2, classes)
        self.last = ToPatches(pixels, width, block)

    def forward(self, z: Tensor, *labels: Tensor) -> Tensor:
        tokens, vector = self.positions.expand(z.shape[0], -1, -1), self.vectors(z, *labels)
        if self.first is not None:
            tokens = tokens + self.first(patches(z.unflatten(1, self.shape), self.patch))
        *_, tokens = self.passed(tokens, vector)
        return joined(self.last(tokens, vector), self.grid, self.patch)


class DiTDiscriminator(Transformer):
    """A learnt token before those of patches; blocks; a norm and a linear layer on that token.

    Args:
        shape, patch, depth, width, heads, block, positions, fused: As in `Transformer`.
        classes: With `dit` the class enters each block; with `gat` the linear layer has `width` outputs, and the logit is their
            inner product with a mapping network's vector of the label, divided by the square root of the width.
    """

    output = "logit"

    @checked
    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        patch: Width = 2,
        depth: Depth = 12,
        width: Width = 384,
        heads: Width = 6,
        block: Kind = "dit",
        positions: Positions = "rope",
        fused: bool = False,
        classes: int = 0,
    ) -> None:
        modulated = block == "dit"
        super().__init__(
            shape,
            patch=patch,
            depth=depth,
            width=width,
            heads=heads,
            block=block,
            positions=positions,
            fused=fused,
            modulated=modulated,
            extra=1,
        )
        self.token = nn.Parameter(SPREAD * torch.randn(width))
        self.first = linear(shape[0] * patch**2, width)
        self.vectors = ClassVectors(classes, width) if modulated else None
        self.mapping = Mapping(0, width, 2, classes) if classes and not modulated else None
        self.norm = norm(width, block, weights=not modulated)
        self.linear = linear(width, width if classes and not modulated else 1, bias=not modulated)

    def features(self, x: Tensor, *labels: Tensor) -> list[Tensor]:
        """Return the tokens after each block, `(B, 1 + T, width)`, for the arguments of `forward`."""
        tokens = self.first(patches(x, self.patch)) + self.positions
        tokens = torch.cat([self.token.expand(x.shape[0], 1, -1), tokens], 1)
        return [*self.passed(tokens, *([] if self.vectors is None else [self.vectors(x, *labels)]))]

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        outputs = self.linear(self.norm(self.features(x, *labels)[-1][:, 0]))
        if self.mapping is None:
            return outputs.flatten(0)
        return (outputs * self.mapping(x.flatten(1)[:, :0], *labels)).sum(1) / math.sqrt(outputs.shape[1])


class TokenBlock(nn.Module):
    """x + gate · attention(norm(x)), then the same with a perceptron in place of attention; norms are scaled and shifted.

    Args:
        width, heads, fused: As in `Transformer`.
        kind: `dit` has a perceptron of one hidden layer, 4 · width long; `gat` SwiGLU, 8/3 · width long.
        modulated: Whether gates, scales and shifts depend on a vector; otherwise gates are learnt, and norms have weights.
    """

    def __init__(self, width: int, heads: int, kind: Kind, *, modulated: bool, fused: bool) -> None:
        super().__init__()
        self.modulation = Modulation(width, kind) if modulated else Gates(width)
        self.norm_1, self.norm_2 = (norm(width, kind, weights=not modulated) for _ in range(2))
        self.attention = Attention(width, heads, normalized=kind == "gat", fused=fused)
        hidden = [linear(width, 4 * width), nn.GELU("tanh"), linear(4 * width, width)]
        self.perceptron = SwiGLU(width, 8 * width // 3) if kind == "gat" else nn.Sequential(*hidden)

    def forward(self, x: Tensor, angles: Tensor | None, *vector: Tensor) -> Tensor:
        """Map tokens `(B, T, width)` to the same shape, under vectors `(B, width)` if it is modulated."""
        (shift_1, scale_1, gate_1), (shift_2, scale_2, gate_2) = self.modulation(*vector)
        x = x + gate_1 * self.attention(self.norm_1(x) * (1 + scale_1) + shift_1, angles)
        return x + gate_2 * self.perceptron(self.norm_2(x) * (1 + scale_2) + shift_2)


class Modulation(nn.Module):
    """Shift, scale and gate of a block's two parts, a linear function of SiLU(vector); of kind `gat` without shifts."""

    def __init__(self, width: int, kind: Kind) -> None:
        super().__init__()
        self.shifts = kind == "dit"
        self.linear = linear(width, 6 * width) if self.shifts else linear(width, 4 * width, gain=SMALL)
        if self.shifts:
            nn.init.zeros_(self.linear.weight)

    def forward(self, vector: Tensor) -> Any:
        """Map `(B, width)` to `(shift, scale, gate)` of each part, `(B, 1, width)`."""
        modulation = self.linear(silu(vector))[:, None]
        if self.shifts:
            return [part.chunk(3, -1) for part in modulation.chunk(2, -1)]
        return [(0.0, *part.chunk(2, -1)) for part in modulation.chunk(2, -1)]


class Gates(nn.Module):
    """The learnt gates of a block that does not depend on a vector."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gates = nn.Parameter(torch.full((2, width), SMALL))

    def forward(self) -> Any:
        """Return gates as `Modulation` does, without shifts and scales."""
        return [(0.0, 0.0, gate) for gate in self.gates]


class Attention(nn.Module):
    """Attention of all tokens to all, in heads (Vaswani et al. 2017, section 3.2).

    Args:
        width, heads, fused: As in `Transformer`.
        normalized: Whether queries and keys pass an RMS norm, the same for all heads.
    """

    def __init__(self, width: int, heads: int, *, normalized: bool, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.to_all, self.out = linear(width, 3 * width), linear(width, width)
        self.of_queries, self.of_keys = (norm(width // heads, "gat") if normalized else nn.Identity() for _ in range(2))

    def forward(self, x: Tensor, angles: Tensor | None = None) -> Tensor:
        """Map `(B, T, width)` to the same shape; queries and keys are rotated by angles `(T, width / heads / 2)`, if any."""
        queries, keys, values = self.to_all(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        queries, keys = self.of_queries(queries), self.of_keys(keys)
        if angles is not None:
            queries, keys = rotated(queries, angles), rotated(keys, angles)
        if self.fused:
            attended = scaled_dot_product_attention(queries, keys, values)
        else:
            attended = (queries @ keys.mT * queries.shape[-1] ** -0.5).softmax(-1) @ values
        return self.out(attended.transpose(1, 2).flatten(2))


class SwiGLU(nn.Module):
    """A perceptron whose hidden layer is a product, SiLU(a) · b (Shazeer 2020)."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.first, self.second = linear(width, 2 * hidden), linear(hidden, width)

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.first(x).chunk(2, -1)
        return self.second(silu(gate) * value)


class ToPatches(nn.Module):
    """A norm that is scaled, and with kind `dit` shifted, by a vector; a linear layer to the pixels of a patch."""

    def __init__(self, pixels: int, width: int, kind: Kind) -> None:
        super().__init__()
        dit = kind == "dit"
        self.norm = norm(width, kind, weights=False)
        self.modulation = linear(width, (1 + dit) * width, gain=SMALL)
        self.linear = linear(width, pixels)
        if dit:
            nn.init.zeros_(self.modulation.weight)
            nn.init.zeros_(self.linear.weight)

    def forward(self, x: Tensor, vector: Tensor) -> Tensor:
        """Map tokens `(B, T, width)` under vectors `(B, width)` to `(B, T, pixels)`."""
        modulation, width = self.modulation(silu(vector))[:, None], x.shape[2]
        x = self.norm(x) * (1 + modulation[..., :width])
        return self.linear(x + modulation[..., width:] if modulation.shape[2] > width else x)


class ClassVectors(nn.Module):
    """A learnt vector of each class; without classes, one for all samples."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(max(1, classes), width)
        nn.init.normal_(self.embedding.weight, std=SPREAD)

    def forward(self, x: Tensor, *labels: Tensor) -> Tensor:
        """Return the vectors of a batch's labels `(B,)`, `(B, width)`."""
        chosen: Tensor = self.embedding(*(labels or [x.new_zeros(x.shape[0], dtype=torch.long)]))
        return chosen


def norm(width: int, kind: Kind, *, weights: bool = True) -> nn.Module:
    """Return the norm of a kind of block."""
    layer = nn.LayerNorm if kind == "dit" else nn.RMSNorm
    return layer(width, eps=1e-6, elementwise_affine=weights)


def linear(before: int, after: int, *, bias: bool = True, gain: float = 1.0) -> nn.Linear:
    """Return a linear layer with weights from Xavier's uniform distribution, and biases of 0."""
    layer = nn.Linear(before, after, bias=bias)
    nn.init.xavier_uniform_(layer.weight, gain)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def patches(x: Tensor, side: int) -> Tensor:
    """Cut `(B, C, H, W)` into patches, row by row: `(B, T, C · side²)`."""
    cut = x.unflatten(3, (-1, side)).unflatten(2, (-1, side))  # (B, C, rows, side, columns, side)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def joined(tokens: Tensor, grid: tuple[int, int], side: int) -> Tensor:
    """Undo `patches`, given the numbers of rows and columns."""
    cut = tokens.unflatten(2, (-1, side, side)).unflatten(1, grid)
    return cut.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)


def waves(grid: tuple[int, int], frequencies: int) -> tuple[Tensor, Tensor]:
    """Return row · ω and column · ω of each place, `(T, frequencies)` each, in float64; ω decreases from 1."""
    falling = BASE ** (-torch.arange(frequencies, dtype=torch.float64) / frequencies)
    rows, columns = torch.meshgrid(*(torch.arange(side, dtype=torch.float64) for side in grid), indexing="ij")
    return rows.reshape(-1, 1) * falling, columns.reshape(-1, 1) * falling


def sines(grid: tuple[int, int], width: int) -> Tensor:
    """Return a vector for each place, `(T, width)`: a quarter each are sines and cosines of its row, and of its column."""
    rows, columns = waves(grid, width // 4)
    return torch.cat([rows.sin(), rows.cos(), columns.sin(), columns.cos()], 1)


def turns(grid: tuple[int, int], length: int) -> Tensor:
    """Return the angles of each place, `(T, length / 2)`: one half of a vector turns by the row, the other by the column."""
    return torch.cat(waves(grid, length // 4), 1)


def rotated(x: Tensor, angles: Tensor) -> Tensor:
    """Rotate each pair of neighbouring coordinates of `(…, T, length)` by its angle, `(T, length / 2)`."""
    (first, second), cosines, sines_ = x.unflatten(-1, (-1, 2)).unbind(-1), angles.cos(), angles.sin()
    return torch.stack([first * cosines - second * sines_, first * sines_ + second * cosines], -1).flatten(-2)


def refuse_sizes(shape: tuple[int, ...], patch: int, width: int, heads: int, *, rotated: bool) -> None:
    """Refuse sizes that do not fit each other."""
    if any(side % patch for side in sides(shape)):
        fitting = math.gcd(*shape[1:], patch)
        raise Misfit(f"has patch={patch}, which should divide the sides, {shape[1]}×{shape[2]}", patch=fitting)
    unit = math.lcm(4, 4 * heads if rotated else heads)
    if width % unit:
        why = f"heads={heads} and positions=rope" if rotated else f"heads={heads}"
        raise Misfit(f"has width={width}, which should be a multiple of {unit}, for {why}", width=unit * -(-width // unit))
