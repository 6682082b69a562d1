"""One run, with its figures and spectra at several moments, and the file of results."""

import functools
import json
import math
from dataclasses import dataclass, fields
from pathlib import Path

from experiments.training import drawn
from ganexp import Trainer, build, compose
from ganexp.cli.pages.machine import machine
from ganexp.documents import atomic_write
from ganexp.dynamics import spectrum, still
from ganexp.evaluation import Evaluator
from ganexp.facts import UserError
from spectral.plan import EVALUATIONS, PRODUCTS, REFERENCE, RULES, SETTINGS, SPECTRA

Key = tuple[str, str, int]
"""Setting, rule and seed."""


@dataclass(frozen=True)
class Moment:
    """The figures of a run after some iterations.

    Args:
        figure: By the setting's metric; infinite where samples are not finite.
        eigenvalues: One of each conjugate pair, as far as they were found; none where the spectrum was not looked at, or is not
            finite.
    """

    iteration: int
    figure: float
    eigenvalues: tuple[complex, ...] = ()


def train(key: Key, shorter: int = 1) -> list[Moment]:
    """Train once, and return the figures of the run at each of the moments."""
    name, rule, seed = key
    setting = SETTINGS[name]
    trainer = build(compose(*setting.overrides, *RULES[rule], f"optimizer.lr={setting.rate}", f"seed={seed}"))
    found: list[Moment] = []
    length = setting.iterations // shorter
    for number in range(1, EVALUATIONS + 1):
        if found and math.isinf(found[-1].figure):
            found.append(Moment(length * number // EVALUATIONS, math.inf))
            continue
        while trainer.iteration < length * number // EVALUATIONS:
            trainer.step(trainer.reals)
            trainer.iteration += 1
        looks = rule == REFERENCE or number % (EVALUATIONS // SPECTRA) == 0
        found.append(Moment(trainer.iteration, _judged(trainer, name), _looked_at(trainer) if looks else ()))
    return found


def _judged(trainer: Trainer, setting: str) -> float:
    evaluator = _evaluator(setting)
    try:
        return evaluator(drawn(trainer, evaluator.samples).cpu().split(500))[SETTINGS[setting].metric]
    except UserError:  # samples are not finite
        return math.inf


@functools.cache
def _evaluator(setting: str) -> Evaluator:
    return SETTINGS[setting].evaluator()


def _looked_at(trainer: Trainer) -> tuple[complex, ...]:
    x = trainer.reals.last
    try:
        with still(trainer.gan, x, trainer.gan.prior.measured(len(x))) as field:
            found = spectrum(field, products=PRODUCTS).eigenvalues
    except ValueError:  # second derivatives are not finite
        return ()
    return tuple(complex(one) for one in found if one.imag >= 0)


class Results:
    """The file of results: a line on how they were measured, and then CSV, to which whole runs are appended.

    Args:
        path: The file.
        shorter: By which factor runs are shorter than planned; a file made with another factor is refused.

    Raises:
        ValueError: The file was measured with other settings, or has a line that is no result, as after a merge.
    """

    COLUMNS = ("setting", "rule", "seed", *(field.name for field in fields(Moment)))

    def __init__(self, path: Path, shorter: int = 1) -> None:
        self.path = path
        self.runs: dict[Key, list[Moment]] = {}
        plain = {name: [*one.overrides, one.rate, one.iterations // shorter, one.metric] for name, one in SETTINGS.items()}
        plan = json.dumps({"settings": plain, "rules": RULES, "moments": [EVALUATIONS, SPECTRA, PRODUCTS, REFERENCE]})
        self.machine = machine()
        if path.exists():
            whole, _, _ = path.read_text().rpartition("\n")  # a killed process may have left a half written line
            said, measured_on, _, *lines = [*whole.splitlines(), "", "", ""]
            if said != f"# {plan}":
                raise ValueError(f"{path} was measured with other settings: move it away, or name another file with --results")
            self.machine = measured_on.removeprefix("# ")
            self.runs = _read(path, lines)
        path.parent.mkdir(parents=True, exist_ok=True)
        written = "".join(_lines(key, run) for key, run in self.runs.items())
        with atomic_write(path) as file:  # without what a killed process has left half written
            file.write(f"# {plan}\n# {self.machine}\n{','.join(self.COLUMNS)}\n{written}".encode())

    def add(self, key: Key, run: list[Moment]) -> None:
        """Keep a run."""
        self.runs[key] = run
        with self.path.open("a", newline="") as file:
            file.write(_lines(key, run))


def _lines(key: Key, run: list[Moment]) -> str:
    setting, rule, seed = key
    return "".join(
        f"{setting},{rule},{seed},{one.iteration},{one.figure:.5g},{' '.join(f'{value:.4g}' for value in one.eigenvalues)}\n"
        for one in run
    )


def _read(path: Path, lines: list[str]) -> dict[Key, list[Moment]]:
    """Return the runs that are whole; one that two processes have made counts once."""
    found: dict[Key, dict[int, Moment]] = {}
    for line in filter(None, lines):
        try:
            setting, rule, seed, iteration, figure, eigenvalues = line.split(",")
            moment = Moment(int(iteration), float(figure), tuple(map(complex, eigenvalues.split())))
            found.setdefault((setting, rule, int(seed)), {})[moment.iteration] = moment
        except ValueError:
            raise ValueError(
                f"{path} has a line that is no result ({line}): mend it, or name another file with --results"
            ) from None
    return {key: [*moments.values()] for key, moments in found.items() if len(moments) == EVALUATIONS}
