"""The settings of the study, and the rules that are compared in each."""

from collections.abc import Callable
from dataclasses import dataclass

from experiments.evaluators import of_digits, of_ring
from ganexp.evaluation import Evaluator

EVALUATIONS = 4
"""How many times every run is judged, evenly over its iterations."""
SPECTRA = 1
"""At how many of these moments the spectrum is looked at, the last one included; for the reference, at all of them."""
PRODUCTS = 60
"""About how many products with the Jacobian each of the four searches of a spectrum may take."""
REFERENCE = "detach"
"""The rule whose runs give the spectra that all rules are predicted from."""
SEEDS = 5
FIRST_SEED = 1
"""Seed 0 served to choose rates: of 0.03, 0.05, 0.1 and a higher one, the one at which the reference got furthest."""


@dataclass(frozen=True)
class Setting:
    """A data set with networks for it, trained by plain descent at one rate, which is what predictions are about.

    Args:
        overrides: As for `train.py`.
        iterations: How long a run is.
        rate: The learning rate of both networks, for every rule.
        evaluator: Makes the evaluator that judges the samples.
        metric: The figure that runs are compared by; the lowest is best.
        unit: What the figure is called.
    """

    overrides: tuple[str, ...]
    iterations: int
    rate: float
    evaluator: Callable[[], Evaluator]
    metric: str
    unit: str


# The loss is zero-sum, as competitive requires. Samples come from the generator itself, since it is the rule that is judged.
_DESCENT = ("optimizer=sgd", "loss=minimax", "average=none", "threads=1", "device=cpu", "logger=[]")
_RING = ("experiment=ring", "generator.width=64", "discriminator.width=64", *_DESCENT)
_DIGITS = ("dataset=digits", "dataset.image_size=16", "generator.width=8", "discriminator.width=8", "latent_dim=16", *_DESCENT)

SETTINGS = {
    "ring": Setting(_RING, 500, 0.1, of_ring, "eval/sliced_wasserstein", "sliced Wasserstein distance"),
    "digits": Setting(_DIGITS, 150, 0.1, lambda: of_digits(16), "eval/fid", "Fréchet distance in a classifier's features"),
}

RULES = {
    **{
        name: (f"strategy={name}",)
        for name in (
            "joint",
            "detach",
            "resample",
            "alex_gda",
            "extragradient",
            "past_extragradient",
            "runge_kutta",
            "drift",
            "lead",
            "jare",
            "consensus",
            "symplectic",
            "hamiltonian",
        )
    },
    "competitive": ("strategy=competitive", "strategy.steps=3"),
    "follow_the_ridge": ("strategy=follow_the_ridge", "strategy.steps=2"),
    "unrolled": ("strategy=unrolled", "strategy.k=2", "strategy.rate=0.1"),
    "lookahead": ("strategy=joint", "wrapper=[lookahead]"),
    "nested lookahead": ("strategy=joint", "wrapper=[outer_lookahead,lookahead]"),
    "anchoring": ("strategy=extragradient", "wrapper=[anchoring]"),
}
"""Rules with their own settings, except that the costliest three take fewer inner steps. Rules that make the updates of another
one, as one_stage does, are left out."""
