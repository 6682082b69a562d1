"""The keys that the rows of every run may have. A loss declares the further keys that it logs."""

from collections.abc import Mapping
from typing import Any

from ganexp.instruments.scalar import Scalar

LEARNING = {
    "loss/d": Scalar("mean over the interval, without the penalty", label="D", best="lowest"),
    "loss/g": Scalar(
        "mean over the interval, without penalty and terms, times the weight of the balance", label="G", best="lowest"
    ),
    "loss/penalty": Scalar("mean over the interval of what penalties add to D's loss"),
    "loss/g_penalty": Scalar("mean over the interval of what penalties add to G's loss"),
    "score/real": Scalar("mean score of real images in D's updates"),
    "score/fake": Scalar("mean score of generated images in D's updates"),
    "grad_norm/d": Scalar("norm of D's whole gradient in the interval's last iteration, before clipping", "last,max"),
    "grad_norm/g": Scalar("norm of G's whole gradient in the interval's last iteration, before clipping", "last,max"),
    "lr/d": Scalar("D's learning rate in the interval's last iteration, if there is a schedule"),
    "lr/g": Scalar("G's learning rate in the interval's last iteration, if there is a schedule"),
}
DIAGNOSTICS = {
    "diversity/distance": Scalar("mean distance of two samples, of latents that stay the same"),
    "diversity/relative": Scalar("diversity/distance over that of the last real batch, which is near 1 for varied samples"),
    "diversity/near_duplicates": Scalar(
        "share of generated images with a neighbour nearer than half of what is usual among real ones", best="lowest"
    ),
    "accuracy/real": Scalar("share of the last real batch that D takes for real"),
    "accuracy/fake": Scalar("share of generated samples that D takes for generated"),
    "accuracy/held_out": Scalar("share of held-out real samples that D takes for real"),
}
"""Diagnostics of collapse and over-fitting, in the rows that have a grid of samples."""
SPECTRUM = {
    "dynamics/smallest_real": Scalar(
        "smallest real part of the eigenvalues of the game's Jacobian, if its search found any; below 0, this point repels"
    ),
    "dynamics/rotation": Scalar("imaginary part of the eigenvalue of largest modulus, over its modulus"),
    "dynamics/d_smallest": Scalar("smallest eigenvalue of the Hessian of D's loss with respect to D's weights"),
    "dynamics/d_largest": Scalar("largest eigenvalue of the Hessian of D's loss with respect to D's weights"),
    "dynamics/g_smallest": Scalar("smallest eigenvalue of the Hessian of G's loss with respect to G's weights"),
    "dynamics/g_largest": Scalar("largest eigenvalue of the Hessian of G's loss with respect to G's weights"),
}
"""In runs with `dynamics.every`, which also log the eigenvalues: `dynamics/real_1`, `dynamics/imag_1` and so on."""


def eigenvalues_in(row: Mapping[str, Any]) -> list[complex]:
    """Return the eigenvalues of a row that has the spectrum, with the complex conjugates that rows leave out."""
    numbers = [key.rpartition("_")[2] for key in row if key.startswith("dynamics/real_")]
    upper = [complex(row[f"dynamics/real_{n}"], row[f"dynamics/imag_{n}"]) for n in numbers]
    return [*upper, *(eigenvalue.conjugate() for eigenvalue in upper if eigenvalue.imag)]


COST = {
    "time/iteration_ms": Scalar("time of one iteration", "mean,last", best="lowest"),
    "time/data_ms": Scalar("time of an iteration that is spent waiting for data", "mean,last", best="lowest"),
    "time/d_ms": Scalar("time of an iteration that is spent on D", "mean,last", best="lowest"),
    "time/g_ms": Scalar("time of an iteration that is spent on G, every generation included", "mean,last", best="lowest"),
    "speed/images_per_s": Scalar("real images per second", "mean,last", best="highest"),
    "memory/peak_mib": Scalar("peak of memory so far", "max", best="lowest"),
    "progress/iteration": Scalar("iterations done"),
    "progress/real_images": Scalar("real images seen"),
    "progress/d_updates": Scalar("updates of D"),
    "progress/g_updates": Scalar("updates of G"),
    "progress/wall_s": Scalar("seconds since training began"),
}
KEYS = LEARNING | DIAGNOSTICS | SPECTRUM | COST

STEPS = ("progress/iteration", "progress/real_images", "progress/wall_s")
"""The keys that a chart can have as its x-axis."""


def known(measures: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the keys of a run, in the order in which they are shown, given what its parts measure."""
    return {**LEARNING, **measures, **DIAGNOSTICS, **SPECTRUM, **COST}
