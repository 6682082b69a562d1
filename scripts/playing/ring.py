"""Four strategies trained on the ring of eight Gaussians from the same start: samples, and D's scores on the plane."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from ganexp import Trainer, build, compose
from ganexp.data import Ring
from ganexp.data.modes import Gaussians
from ganexp.documents import atomic_write
from ganexp.training.callbacks.drawing import samples_of, unchanged

Course = dict[str, np.ndarray[Any, Any]]
"""One strategy's training: `points` (frames, samples, 2), uint16; `field` (frames, cells, cells), uint8, rows from the bottom;
and, by frame, `iterations`, `modes` covered and the share of samples `near` a mode."""

STRATEGIES = {
    "joint": ("strategy=joint",),
    "detach": ("strategy=detach",),
    "extragradient": ("strategy=extragradient",),
    "lookahead around detach": ("strategy=detach", "wrapper=[lookahead]"),
}
"""Overrides by the title of the picture, whose first word is the strategy that gives the colour."""
STD = 0.02
SETTINGS = (
    "experiment=ring",
    "generator.width=64",
    "discriminator.width=64",
    "optimizer.lr=2e-3",
    "optimizer.betas=[0.5,0.999]",
    f"dataset.std={STD}",
    "logger=[]",
    "device=cpu",
    "seed=0",
)
ITERATIONS = 3000
FRAMES = 72
SAMPLES = 320
JUDGED = 2500
"""How many samples are looked at for modes, as by Srivastava et al. 2017."""
REACH = 1.7
"""Pictures show the plane up to here in each direction."""
CELLS = 32
"""The number of points per side of the grid of D's scores."""


def courses(kept: Path, iterations: int = ITERATIONS, frames: int = FRAMES) -> dict[str, Course]:
    """Train by each strategy that a file does not have yet with these settings, and add the course to the file.

    Args:
        kept: An `.npz` file.
        iterations: How many each training has.
        frames: How many times a training is looked at, more often at the beginning; the first time is before training.
    """
    how = json.dumps([SETTINGS, STRATEGIES, iterations, frames, SAMPLES, JUDGED, REACH, CELLS])
    found = read(kept, how) if kept.exists() else {}
    for name, overrides in tqdm(STRATEGIES.items(), desc="ring of Gaussians", disable=None, unit="run"):
        if name not in found:
            found[name] = train((*SETTINGS, *overrides), iterations, frames)
            flat = {f"{name}/{key}": values for name, course in found.items() for key, values in course.items()}
            with atomic_write(kept) as file:
                np.savez_compressed(file, how=np.array(how), **flat)  # type: ignore[arg-type]
    return found


def read(kept: Path, how: str) -> dict[str, Course]:
    """Return the courses that a file has, if they were made with these settings."""
    with np.load(kept, allow_pickle=False) as file:
        if str(file["how"]) != how:
            return {}
        return {name: {key: file[f"{name}/{key}"] for key in KEYS} for name in STRATEGIES if f"{name}/points" in file}


def train(overrides: tuple[str, ...], iterations: int, frames: int) -> Course:
    """Train once, and look at the run `frames` times."""
    trainer = build(compose(*overrides))
    seen: dict[str, list[Any]] = {key: [] for key in KEYS}
    moments = {round(iterations * (i / (frames - 1)) ** 1.5) for i in range(frames)}
    for iteration in range(iterations + 1):
        if iteration in moments:
            look(trainer, iteration, seen)
        trainer.step(trainer.reals)
    return {key: np.array(values) for key, values in seen.items()}


KEYS = ("points", "field", "iterations", "modes", "near")


def look(trainer: Trainer, iteration: int, seen: dict[str, list[Any]]) -> None:
    """Add what can be seen now, of the generator itself and not of its average."""
    gan = trainer.gan
    ticks = torch.linspace(-REACH, REACH, CELLS)
    places = torch.cartesian_prod(ticks, ticks).flip(1)
    with unchanged(gan.prior, gan.generator, gan.discriminator):
        points = samples_of(gan.generator, gan.prior.fixed(SAMPLES))
        of_modes = Gaussians(Ring(n=1).centers, STD).of(samples_of(gan.generator, gan.prior.measured(JUDGED)))
        field = gan.discriminator(places).sigmoid().view(CELLS, CELLS)
    seen["points"].append(quantised(points / REACH / 2 + 0.5, 65535).astype(np.uint16))
    seen["field"].append(quantised(field, 255).astype(np.uint8))
    seen["iterations"].append(iteration)
    seen["modes"].append(len(of_modes[of_modes >= 0].unique()))
    seen["near"].append((of_modes >= 0).double().mean().item())


def quantised(values: Tensor, top: int) -> np.ndarray[Any, Any]:
    """Return values of [0, 1] as whole numbers up to `top`; what lies outside is put on the edge."""
    return (values.clamp(0, 1) * top).round().numpy()


def for_page(found: dict[str, Course]) -> dict[str, Any]:
    """Return the courses as JSON takes them: `points` and `field` as base64 of little-endian numbers, the rest as lists."""
    packed = {
        name.split()[0]: {
            "title": name,
            "points": base64.b64encode(course["points"].astype("<u2").tobytes()).decode(),
            "field": base64.b64encode(course["field"].tobytes()).decode(),
            "modes": course["modes"].tolist(),
            "near": [round(float(share), 4) for share in course["near"]],
        }
        for name, course in found.items()
    }
    iterations = next(iter(found.values()))["iterations"].tolist()
    return {
        "iterations": iterations,
        "samples": SAMPLES,
        "cells": CELLS,
        "reach": REACH,
        "std": STD,
        "judged": JUDGED,
        "words": f"three hidden layers of 64, nonsaturating loss, Adam at 2e-3, batches of 128, {iterations[-1]} iterations",
        "runs": packed,
    }
