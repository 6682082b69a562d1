"""The training steps of other projects, rewritten as plain loops from their published descriptions.

The networks, the loss, the batch and the device are the same in all of them; what differs is the step's style: who moves
first, how often fakes are made, which gradients are computed and thrown away, how often the host waits for a number,
and where data and random numbers come from. Each loop is a style, not a project: its networks, its extras and its own
optimisations are left out.
"""

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits as bce
from torch.nn.functional import softplus
from torch.optim import Adam
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as MapStyle
from torchvision import transforms

from benchmarks.section import Section, bars
from ganexp import GAN
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender, race_for
from measuring.markdown import table

Style = Callable[[GAN, Iterator[Tensor], Adam, Adam], None]
"""One step, given a GAN for its networks and its prior, real images, and the optimisers of G and D."""


def one_script_per_paper(gan: GAN, images: Iterator[Tensor], opt_g: Adam, opt_d: Adam) -> None:
    """PyTorch-GAN: G first; latents from NumPy; labels as tensors; both losses read for a line of print at every batch."""
    G, D, device, x = gan.generator, gan.discriminator, gan.prior.device, next(images)
    valid, fake_label = torch.ones(len(x), device=device), torch.zeros(len(x), device=device)
    real_images = x.to(device)
    opt_g.zero_grad()
    z = torch.from_numpy(np.random.default_rng().normal(0, 1, (len(x), gan.prior.latent_dim))).float().to(device)
    fakes = G(z)
    g_loss = bce(D(fakes), valid)
    g_loss.backward()
    opt_g.step()
    opt_d.zero_grad()
    d_loss = (bce(D(real_images), valid) + bce(D(fakes.detach()), fake_label)) / 2
    d_loss.backward()
    opt_d.step()
    str((d_loss.item(), g_loss.item()))


def step_in_the_network(gan: GAN, images: Iterator[Tensor], opt_g: Adam, opt_d: Adam) -> None:
    """Mimicry: the networks own their steps; fakes are made again for G; every loss and mean score is read at every step."""
    G, D, x = gan.generator, gan.discriminator, next(images).to(gan.prior.device)
    opt_d.zero_grad()
    real, fake = D(x), D(G(_noise(gan, len(x))).detach())
    d_loss = bce(fake, torch.zeros_like(fake)) + bce(real, torch.ones_like(real))
    d_loss.backward()
    opt_d.step()
    log = [d_loss.item(), torch.sigmoid(real).mean().item(), torch.sigmoid(fake).mean().item()]
    opt_g.zero_grad()
    fake = D(G(_noise(gan, len(x))))
    g_loss = bce(fake, torch.ones_like(fake))
    g_loss.backward()
    opt_g.step()
    str([*log, g_loss.item()])


def step_in_the_loss(gan: GAN, images: Iterator[Tensor], opt_g: Adam, opt_d: Adam) -> None:
    """Torchgan: each loss runs its own training step, on fakes of its own, and returns its value as a number."""
    G, D, x = gan.generator, gan.discriminator, next(images).to(gan.prior.device)

    def d_step() -> float:
        z = _noise(gan, len(x))
        opt_d.zero_grad()
        real, fake = D(x), D(G(z).detach())
        loss = 0.5 * (bce(real, torch.ones_like(real)) + bce(fake, torch.zeros_like(fake)))
        loss.backward()
        opt_d.step()
        return loss.item()

    def g_step() -> float:
        z = _noise(gan, len(x))
        opt_g.zero_grad()
        fake = D(G(z))
        loss = bce(fake, torch.ones_like(fake))
        loss.backward()
        opt_g.step()
        return loss.item()

    str((d_step(), g_step()))


def worker(gan: GAN, images: Iterator[Tensor], opt_g: Adam, opt_d: Adam) -> None:
    """StudioGAN: gradients of the resting network are switched off; fakes are made again for G; numbers are read rarely."""
    G, D = gan.generator.requires_grad_(False), gan.discriminator.requires_grad_(True)
    x = next(images).to(gan.prior.device, non_blocking=True)
    opt_d.zero_grad()
    real, fake = D(x), D(G(_noise(gan, len(x))).detach())
    (softplus(-real).mean() + softplus(fake).mean()).backward()
    opt_d.step()
    G.requires_grad_(True)
    D.requires_grad_(False)
    opt_g.zero_grad()
    fake = D(G(_noise(gan, len(x))))
    softplus(-fake).mean().backward()
    opt_g.step()
    D.requires_grad_(True)


STYLES: dict[str, Style] = {
    "PyTorch-GAN": one_script_per_paper,
    "mimicry": step_in_the_network,
    "torchgan": step_in_the_loss,
    "StudioGAN": worker,
}


def in_style(style: Style, gan: GAN, images: Iterator[Tensor]) -> Contender:
    """Return a contender that trains the networks of a GAN in a style."""
    return Contender(partial(style, gan, images, *_adams(gan)))


SHORT = {"from memory": "from memory", "by torchvision's transforms and a DataLoader": "by a DataLoader"}


def peers(case: str, turns: int, turn_s: float) -> Section:
    """Race the styles against ganexp's default run, fed from memory, and fed as tutorials feed."""
    rows, ratios = [], {}
    for fed in SHORT:
        trainer = trainer_of(*CASES[case])
        contenders = {"ganexp": Contender.of(trainer)}
        for name, style in STYLES.items():
            other = trainer_of(*CASES[case], "channels_last=false")
            memory = fed == "from memory"
            images = images_of(other) if memory else _by_transforms(other.reals.source.data, other.gan.batch_size)
            contenders[name] = in_style(style, other.gan, images)
        times = race_for(contenders, turns=turns, turn_s=turn_s, device=trainer.gan.prior.device)
        rows.append({"step as in": "ganexp", "fed": "from memory", "ms": times["ganexp"].median_ms, "over ganexp": 1.0})
        for name in STYLES:
            ratio = times[name].over(times["ganexp"])
            ratios[f"{name}, fed {SHORT[fed]}"] = ratio
            rows.append({"step as in": name, "fed": fed, "ms": times[name].median_ms, "over ganexp": ratio})
    return Section(
        "How others write a step",
        f"Plain loops in the style of other projects (`scripts/benchmarks/peers.py`), {case}, over ganexp's default run. "
        "Adam is called as each of them calls it, without asking for the fused kernel. On a CPU, reading a number costs "
        "nothing and nothing is copied, so what counts is the discarded gradients, the second generation and the "
        "data.\n\n" + table(rows),
        {"Time per iteration over ganexp's": bars(ratios, "time relative to ganexp, strategy=detach")},
    )


def penalty_factors(turns: int, turn_s: float) -> Section | None:
    """Race WGAN-GP with interpolation factors made on the device against factors made on the CPU.

    On a CPU the two are the same, and nothing is raced.
    """
    if not torch.cuda.is_available():
        return None
    ours = trainer_of(*CASES["dcgan 32"], "loss=wgan_gp")
    trainer = trainer_of(*CASES["dcgan 32"], "loss=wgan_gp", "channels_last=false", "cuda_graph=false")
    gan, (opt_g, opt_d), images = trainer.gan, _adams(trainer.gan), images_of(trainer)

    def step() -> None:
        x = next(images)
        fake = gan.generator(_noise(gan, len(x)))
        opt_d.zero_grad()
        share = torch.from_numpy(np.random.default_rng().random((len(x), 1, 1, 1))).float().to(x.device)
        between = (share * x + (1 - share) * fake.detach()).requires_grad_()
        scores = gan.discriminator(between)
        (derivative,) = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True)
        penalty = 10 * ((derivative.flatten(1).norm(2, dim=1) - 1) ** 2).mean()
        (gan.discriminator(fake.detach()).mean() - gan.discriminator(x).mean() + penalty).backward()
        opt_d.step()
        opt_g.zero_grad()
        (-gan.discriminator(fake).mean()).backward()
        opt_g.step()

    contenders = {"ganexp": Contender.of(ours), "plain": Contender(step)}
    times = race_for(contenders, turns=turns, turn_s=turn_s, device=gan.prior.device)
    return Section(
        "Interpolation factors made on the CPU",
        f"WGAN-GP, dcgan 32: such a plain loop takes {times['plain'].over(times['ganexp'])} times as long as ganexp.\n",
    )


def _noise(gan: GAN, n: int) -> Tensor:
    return torch.randn(n, gan.prior.latent_dim, device=gan.prior.device)


def _adams(gan: GAN) -> tuple[Adam, Adam]:
    g, d = (Adam(net.parameters(), 2e-4, betas=(0.5, 0.999)) for net in (gan.generator, gan.discriminator))
    return g, d


def _by_transforms(data: Tensor, batch_size: int) -> Iterator[Tensor]:
    """Yield batches as tutorials make them: one PIL image after another, through torchvision's transforms."""
    channels = data.shape[1]
    steps = [transforms.Resize(data.shape[-1]), transforms.ToTensor(), transforms.Normalize([0.5] * channels, [0.5] * channels)]
    loader = DataLoader(
        _Pictures(data.cpu(), transforms.Compose(steps)), batch_size, shuffle=True, num_workers=2, drop_last=True
    )
    while True:
        yield from loader


class _Pictures(MapStyle[Tensor]):
    def __init__(self, data: Tensor, transform: Callable[[Image.Image], Tensor]) -> None:
        self.data, self.transform = data, transform

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> Tensor:
        pixels = self.data[index].permute(1, 2, 0).squeeze(-1).numpy()
        return self.transform(Image.fromarray(pixels))
