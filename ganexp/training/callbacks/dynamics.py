"""The spectrum of the game along a run."""

import logging
from dataclasses import replace

from ganexp.dynamics import Spectrum, spectrum, still
from ganexp.facts import Facts, Misfit
from ganexp.logging import Row
from ganexp.training.run import Callback, Run

log = logging.getLogger(__name__)


class Dynamics(Callback):
    """Computes eigenvalues of the game's Jacobian at the current weights, on the first samples of the last batch.

    Rows get `dynamics/real_1`, `dynamics/imag_1` and so on: eigenvalues λ of the largest modulus and of the smallest real part,
    without their complex conjugates, the largest modulus first. `dynamics/smallest_real` below 0 says that the game does not
    attract here; `dynamics/rotation` is |Im λ|/|λ| of the first. `dynamics/d_smallest`, `dynamics/d_largest` and the same of G
    are the ends of the spectra of ∂²L_D/∂ψ² and ∂²L_G/∂θ². What was not found within `products` is left out.

    For a run in one process. It takes the memory of about three backward passes, and the time of about 4 · `products` of them.

    Args:
        every: The interval in iterations.
        count: How many eigenvalues of each kind are asked for.
        products: How many products with the Jacobian a search may take.
        samples: How many samples of the batch the objectives are formed on, at most, in full packs; at least one pack.
    """

    def __init__(self, every: int, *, count: int = 6, products: int = 300, samples: int = 64) -> None:
        self.every, self.count, self.products, self.samples = every, count, products, samples

    def check(self, run: Facts) -> None:
        """Refuse several processes, and networks without second derivatives; compiled networks are looked at uncompiled."""
        if run.processes > 1:
            raise Misfit(f"looks at the game of one process, and there are {run.processes}", every=0)
        replace(run, compiled=False).refuse_second_derivatives("generator", "discriminator", every=0)

    def __call__(self, run: Run) -> Row:
        gan, last = run.gan, run.reals.last
        n = min(len(last), max(self.samples, gan.pack))
        n -= n % gan.pack
        try:
            z = gan.prior.measured(n)
            with still(gan, last.split(len(z))[0], z) as field:
                return figures(spectrum(field, count=self.count, products=self.products))
        except ValueError as error:
            log.warning("No spectrum at iteration %d: %s.", run.iteration, error)
            return {}


def figures(game: Spectrum) -> Row:
    """Return a spectrum as part of a row."""
    values = game.eigenvalues
    upper = [value for value in values if value.imag >= 0 or value.conjugate() not in values]  # a search may end within a pair
    row: Row = {}
    for number, value in enumerate(upper, 1):
        row |= {f"dynamics/real_{number}": float(value.real), f"dynamics/imag_{number}": float(abs(value.imag))}
    row |= {"dynamics/smallest_real": game.smallest_real, "dynamics/rotation": game.rotation}
    for network, (smallest, largest) in (("d", game.d), ("g", game.g)):
        row |= {f"dynamics/{network}_smallest": smallest, f"dynamics/{network}_largest": largest}
    return {key: value for key, value in row.items() if value == value}
