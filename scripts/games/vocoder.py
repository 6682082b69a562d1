"""A vocoder of synthetic tones, in the manner of HiFi-GAN (Kong et al. 2020), much smaller: audio from its mel spectrogram."""

import itertools
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import avg_pool1d, l1_loss, leaky_relu

import ganexp

RATE, LENGTH, HOP, MELS = 4096, 1024, 64, 20


def tones(seed: int, batch_size: int = 8, dtype: torch.dtype = torch.float32) -> Tensor:
    """Return audio of two partials with a decay each, `(B, 1, LENGTH)`."""
    rng = torch.Generator().manual_seed(seed)
    f, phase, decay, weight = torch.rand(4, batch_size, 2, 1, generator=rng, dtype=dtype)
    t = torch.arange(LENGTH, dtype=dtype) / RATE
    partials = torch.sin(2 * math.pi * ((100 + 500 * f) * t + phase)) * torch.exp(-8 * decay * t) * (0.2 + 0.8 * weight)
    return partials.mean(1, keepdim=True)


def mel(audio: Tensor) -> Tensor:
    """Return the logarithm of the mel spectrogram, `(B, MELS, LENGTH / HOP)`."""
    window = torch.hann_window(4 * HOP, dtype=audio.dtype)
    power = torch.stft(audio.squeeze(1), 4 * HOP, HOP, window=window, return_complex=True)[..., :-1].abs().square()
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, MELS + 2, dtype=audio.dtype) / 2595) - 1)
    f = torch.linspace(0, RATE / 2, power.shape[1], dtype=audio.dtype)
    rising = (f - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - f) / (edges[2:] - edges[1:-1])[:, None]
    return (torch.minimum(rising, falling).clamp(min=0) @ power + 1e-3).log()


class Upsampler(nn.Sequential):
    """G: from a mel spectrogram to audio, by two transposed convolutions."""

    def __init__(self) -> None:
        layers: list[nn.Module] = [nn.Conv1d(MELS, 32, 7, padding=3)]
        for inner, outer in ((32, 16), (16, 8)):
            layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(inner, outer, 16, 8, 4)]
        super().__init__(*layers, nn.LeakyReLU(0.1), nn.Conv1d(8, 1, 7, padding=3), nn.Tanh())


class ByPeriod(nn.Module):
    """A discriminator that sees every `period`-th sample as a column."""

    def __init__(self, period: int) -> None:
        super().__init__()
        self.period = period
        sizes = (1, 8, 16, 1)
        self.layers = nn.ModuleList(nn.Conv2d(a, b, (5, 1), (3, 1), (2, 0)) for a, b in itertools.pairwise(sizes))

    def forward(self, audio: Tensor) -> Any:
        """Return the scores, behind the features of every layer before."""
        x = audio[..., : LENGTH // self.period * self.period].unflatten(-1, (-1, self.period))
        features = []
        for layer in self.layers:
            features.append(layer(x))
            x = leaky_relu(features[-1], 0.1)
        return features


class ByScale(nn.Module):
    """A discriminator that sees the audio at a lower rate."""

    def __init__(self, factor: int) -> None:
        super().__init__()
        self.factor = factor
        self.layers = nn.ModuleList(nn.Conv1d(a, b, 9, 4, 4) for a, b in itertools.pairwise((1, 8, 16, 1)))

    def forward(self, audio: Tensor) -> Any:
        """Return the scores, behind the features of every layer before."""
        x, features = avg_pool1d(audio, self.factor), []
        for layer in self.layers:
            features.append(layer(x))
            x = leaky_relu(features[-1], 0.1)
        return features


class Vocoder:
    """Networks, optimisers and losses, as a trainer has them already."""

    rule = "detach"

    def __init__(self, seed: int = 0, dtype: torch.dtype = torch.float32) -> None:
        torch.manual_seed(seed)
        self.seed, self.dtype = seed, dtype
        self.G = Upsampler().to(dtype)
        self.mpd = nn.ModuleList(map(ByPeriod, (2, 3))).to(dtype)
        self.msd = nn.ModuleList(map(ByScale, (1, 2))).to(dtype)
        self.opt_g = torch.optim.AdamW(self.G.parameters(), 2e-3, betas=(0.8, 0.99))
        self.opt_d = torch.optim.AdamW([*self.mpd.parameters(), *self.msd.parameters()], 2e-3, betas=(0.8, 0.99))

    def batches(self) -> Iterator[Any]:
        """Yield batches for ever."""
        for number in itertools.count(1000 * self.seed):
            audio = tones(number, dtype=self.dtype)
            yield {"audio": audio, "mel": mel(audio)}

    def generate(self, batch: Any) -> Any:
        """Return what the discriminators are shown."""
        return self.G(batch["mel"])

    def d_loss(self, batch: Any, fake: Any) -> Any:
        """Return the discriminators' objective, by least squares."""
        pairs = [(D(batch["audio"])[-1], D(fake)[-1]) for D in (*self.mpd, *self.msd)]
        return sum(((real - 1) ** 2).mean() + (made**2).mean() for real, made in pairs)

    def g_loss(self, batch: Any, fake: Any) -> Any:
        """Return G's objective: least squares, feature matching and the distance of mel spectrograms."""
        loss = 45 * l1_loss(mel(fake), batch["mel"])
        for D in (*self.mpd, *self.msd):
            made, real = D(fake), D(batch["audio"])
            loss = loss + ((made[-1] - 1) ** 2).mean()
            loss = loss + 2 * sum(l1_loss(a, b.detach()) for a, b in zip(made[:-1], real[:-1], strict=True))
        return loss

    def game(self) -> ganexp.Game:
        """Return the same as a game."""
        return ganexp.Game(
            generator=self.G,
            discriminator=[self.mpd, self.msd],
            optimizer_g=self.opt_g,
            optimizer_d=self.opt_d,
            generate=self.generate,
            d_loss=self.d_loss,
            g_loss=self.g_loss,
        )

    def loop(self, batches: Iterator[Any], iterations: int) -> None:
        """Train by a plain loop."""
        for batch in itertools.islice(batches, iterations):
            fake = self.generate(batch)
            self.opt_d.zero_grad()
            self.d_loss(batch, fake.detach()).backward()
            self.opt_d.step()
            self.opt_g.zero_grad()
            self.g_loss(batch, fake).backward()
            self.opt_g.step()

    @torch.no_grad()
    def distance(self) -> float:
        """Return the mean distance of log mel spectrograms on tones that it does not learn from."""
        audio = tones(999_999, 64, self.dtype)
        return l1_loss(mel(self.G(mel(audio))), mel(audio)).item()
