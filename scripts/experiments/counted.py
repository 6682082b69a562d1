"""What follows from the settings of claims alone: operations and peaks of activations, and the paths of the Dirac-GAN."""

from experiments import batch_size, cost, dirac, width_ratio
from ganexp.cli.commands.cases import CASES, settings_of, trainer_of
from ganexp.cli.commands.pages.machine import machine
from ganexp.compare.cost import cost as cost_of
from ganexp.compare.racing import Contender

_ONE = (cost.RACE, (CASES["dcgan 64"],))
RACES: dict[int, tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]] = {
    5: _ONE,
    6: _ONE,
    7: (width_ratio.RACE, tuple(map(width_ratio.sizes, width_ratio.WIDTHS))),
    8: (batch_size.RACE, tuple((*batch_size.BEGAN, f"batch_size={n}") for n in batch_size.BEGAN_BATCHES)),
    9: (batch_size.RACE, tuple((*batch_size.DCGAN, f"batch_size={n}") for n in batch_size.DCGAN_BATCHES)),
    12: _ONE,
}
"""The strategies and the settings of each timed claim."""
CLAIMS = (*RACES, 11)


def rows_of(claim: int, date: str) -> list[dict[str, object]]:
    """Return the rows of a claim: those of the Dirac-GAN for claim 11, and for others those of every strategy and setting."""
    rows = dirac.rows() if claim == 11 else _costs(claim)
    return [row | {"date": date, "machine": machine()} for row in rows]


def _costs(claim: int) -> list[dict[str, object]]:
    """Return what one iteration of every strategy computes and keeps, in each setting of a claim."""
    names, settings = RACES[claim]
    rows: list[dict[str, object]] = []
    for overrides in settings:
        for name in names:
            trainer = trainer_of(*overrides, *settings_of(name))
            gflop, peak_mib = cost_of(Contender.of(trainer), trainer.gan.prior.device)
            rows.append({"settings": " ".join(overrides), "strategy": name, "gflop": gflop, "peak_mib": peak_mib})
    return rows
