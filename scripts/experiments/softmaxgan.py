"""Claim 10: is it SoftmaxGAN that needs two G steps, or the way its gradients were added up?"""

import functools
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor

from experiments.evaluators import FEATURES, distance_of, of_digits
from experiments.finding import Finding, Verdict
from experiments.training import Course, Job, last_samples, rows_of, train_all
from ganexp import GAN, Batch, Prior
from ganexp.batch import Objective
from ganexp.data import Digits
from ganexp.data.feed import to_range
from measuring.intervals import of_positive_mean, of_share_mean
from measuring.markdown import table

ARMS = {
    "accumulated 1:1": (True, 1),
    "accumulated 1:2": (True, 2),
    "clean 1:1": (False, 1),
    "clean 1:2": (False, 2),
}


BLACK = 0.05
"""A brightness up to which images are called black."""


def accumulated(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """Train SoftmaxGAN as first written: both backward passes fill the gradients of *both* networks, and then both step.

    In the rounds that move both, each network thus descends L_D + L_G. The derivative of that sum with respect to a single
    score is 3/(2B) − 2p for real images and 1/(2B) − 2p for generated ones, p being the image's part of the softmax: G's
    gradient vanishes where each generated image has 1/(4B) and each real one 3/(4B). Rounds of G alone descend L_G alone.
    """
    for i in range(max(d_steps, g_steps)):
        x, fake = next(reals), gan.generate(gan.sample())
        if i < d_steps:
            real, scores = gan.score_real(x), gan.score_fake(fake)
            total = Objective(gan.loss.d_loss(real, scores) + gan.loss.g_loss(real, scores), real, scores)
            gan.update_both(total, total) if i < g_steps else gan.update_d(total)
        else:
            gan.update_g(gan.g_loss(x, fake))


def black_at_one_to_one(
    *, image_size: int = 32, width: int = 32, iterations: int = 2500, seeds: Sequence[int] = (0, 1, 2), times: int = 10
) -> Finding:
    """Train four arms, and look at their samples."""
    images = to_range(Digits(image_size=image_size).load(), torch.float32)
    evaluator = of_digits(image_size)
    distance = distance_of(evaluator)
    black = evaluator([torch.full((evaluator.samples, *images.shape[1:]), -1.0)])[distance]
    batch = 32
    probe = functools.partial(mass_on_reals, x=images[:batch])
    size = (f"dataset.image_size={image_size}", f"generator.width={width}", f"discriminator.width={width}")
    common = (*size, "loss=softmaxgan", "strategy=joint", f"batch_size={batch}", "optimizer.betas=[0.5,0.999]")
    jobs = {}
    for arm, (adds_up, g_steps) in ARMS.items():
        strategy = accumulated if adds_up else None
        each = [(*common, f"g_steps={g_steps}", f"seed={seed}") for seed in seeds]
        jobs[arm] = [Job(overrides, iterations, times, evaluator, strategy, probe) for overrides in each]
    by_arm = train_all(jobs)
    for course in itertools.chain.from_iterable(by_arm.values()):
        course.figures[-1]["brightness"] = _brightness(course.samples)
    last = {arm: of_positive_mean([course.curve(distance)[-1] for course in runs]) for arm, runs in by_arm.items()}
    rows = [
        {
            "arm": arm,
            distance: last[arm],
            "brightness": of_share_mean([course.figures[-1]["brightness"] for course in runs]),
            "mass on the real half": of_share_mean([course.curve("mass")[-1] for course in runs]),
        }
        for arm, runs in by_arm.items()
    ]
    rows.append({"arm": "all-black images", distance: black, "brightness": 0.0, "mass on the real half": ""})
    rows.append({"arm": "real images", distance: 0.0, "brightness": _brightness(images), "mass on the real half": ""})
    works = {arm: runs_all_work([course.curve(distance)[-1] for course in runs], black) for arm, runs in by_arm.items()}
    verdict, reason = verdict_of(works)
    for arm, fine in works.items():
        if not fine:
            brightness = of_share_mean([course.figures[-1]["brightness"] for course in by_arm[arm]]).middle
            reason += f". {arm[0].upper()}{arm[1:]} is{' not' * (brightness > BLACK)} black (brightness {brightness:.3g})"
    reason += f". The data are scikit-learn's digits at {image_size}×{image_size} pixels"
    return Finding(
        "SoftmaxGAN with one D and one G step gives black images; with 1 : 2 it works.",
        verdict,
        f"{reason}. (An arm works if every seed ends nearer to the data than halfway from all-black images.)",
        f"Means over {len(seeds)} seeds. *Accumulated*: both backward passes fill the gradients of both networks, and then "
        "both step; *clean*: each network steps by its own. Brightness is 0 for black, 1 for white; an arm that fails need "
        "not be black. The mass on the real half is what D's softmax gives to a batch of real images beside as many generated "
        "ones: 1/2 if it cannot tell them apart, 1 if it can perfectly, 3/4 where accumulated gradients leave G without any. "
        f"{FEATURES}\n\n{table(rows)}",
        {
            "Samples of the four arms, seed " + str(seeds[0]): last_samples({arm: runs[0] for arm, runs in by_arm.items()}),
            "Over the updates of D, mean and range over seeds": curves(by_arm, distance, black),
        },
        data=rows_of(jobs, by_arm),
    )


def verdict_of(works: dict[str, bool]) -> tuple[Verdict, str]:
    """Return which of the two, gradients or step counts, decides whether the four arms work."""
    working = ", ".join(arm for arm, fine in works.items() if fine) or "none"
    failing = ", ".join(arm for arm, fine in works.items() if not fine) or "none"
    said = f"Works: {working}; fails: {failing}"
    accumulated_as_claimed = not works["accumulated 1:1"] and works["accumulated 1:2"]
    clean_as_claimed = not works["clean 1:1"] and works["clean 1:2"]
    if accumulated_as_claimed and clean_as_claimed:
        return Verdict.CONFIRMED, said
    if accumulated_as_claimed or clean_as_claimed:
        return Verdict.DEPENDS, f"It depends on whether gradients accumulate. {said}"
    return Verdict.REFUTED, said


def runs_all_work(distances: Sequence[float], black: float) -> bool:
    """Return whether every run ends nearer to the data than halfway from black images; NaN does not."""
    return all(distance < black / 2 for distance in distances)


@torch.no_grad()
def mass_on_reals(gan: GAN, x: Tensor) -> dict[str, float]:
    """Return D's softmax mass on a batch of real images, beside as many generated ones."""
    gan.generator.eval()
    fixed = Prior(gan.prior.latent_dim, seed=1, device=gan.prior.device).sample(len(x))
    real, scores = gan.score_real(Batch(x.to(fixed.values))), gan.score_fake(gan.generate(fixed))
    gan.generator.train()
    return {"mass": float((-torch.cat([real, scores])).softmax(0)[: len(x)].sum())}


def _brightness(images: Tensor) -> float:
    return float((images.mean() + 1) / 2)


def curves(by_arm: dict[str, list[Course]], name: str, black: float) -> Figure:
    """Draw quality, and the mass on the real half, over the updates of D."""
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, (arm, runs) in enumerate(by_arm.items()):
        for axes, key in ((left, name), (right, "mass")):
            curves = np.array([course.curve(key) for course in runs])
            style = {"color": f"C{i}", "linestyle": "--" if "accumulated" in arm else "-"}
            axes.plot(runs[0].iterations, curves.mean(0), label=arm, **style)
            axes.fill_between(runs[0].iterations, curves.min(0), curves.max(0), color=f"C{i}", alpha=0.15, linewidth=0)
    left.axhline(black, color="0.25", linestyle=":", label="left: all-black images")
    left.set(yscale="log", xlabel="updates of D", ylabel=name)
    right.axhline(0.75, color="0.25", linestyle="-.", label="right: 3/4, where accumulated G has no gradient")
    right.set(ylim=(0.45, 1.02), xlabel="updates of D", ylabel="softmax mass on the real half")
    lines = {line.get_label(): line for axes in (left, right) for line in axes.get_lines()}
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False)
    return figure
