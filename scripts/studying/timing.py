"""How long an iteration of each strategy takes with a loss, relative to `detach`."""

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from ganexp.cli.commands.cases import trainer_of
from ganexp.compare.racing import Contender, race_for
from studying.plan import SETTINGS, STRATEGIES

TURNS = 9


def ratios(setting: str, loss: str, strategies: Sequence[str], file: Path) -> dict[str, float]:
    """Return the medians over turns of a race on this machine, one thread each; those in the file are not measured again."""
    known: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    if not set(strategies) <= set(known):
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            known = _race(setting, loss, dict.fromkeys(["detach", *strategies, *known]))
        finally:
            torch.set_num_threads(threads)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(known, indent=1))
    return {strategy: known[strategy] for strategy in strategies}


def _race(setting: str, loss: str, strategies: dict[str, None]) -> dict[str, float]:
    common = (*SETTINGS[setting].overrides, f"loss={loss}", "device=cpu")
    contenders = {name: Contender.of(trainer_of(*common, *STRATEGIES[name].overrides)) for name in strategies}
    found = race_for(contenders, turns=TURNS, turn_s=0.2, device=torch.device("cpu"))
    return {name: round(times.over(found["detach"]).middle, 3) for name, times in found.items()}
