"""How long each rule takes for the budget of images, relative to `detach`."""

import torch

from benching.results import Line
from benching.rules import BASE, RULES
from benching.running import on_noise
from benching.schedule import Plan, machine_line
from benching.space import DIVISIONS
from ganexp.compare.racing import Contender, race_for
from ganexp.facts import UserError

TURNS = 9
DIVISION = DIVISIONS["adam"]


def measure(plan: Plan) -> None:
    """Race the rules' iterations on every workload, interleaved, one thread each, and write down the medians over turns.

    A rule that draws two batches in an iteration needs half as many iterations.
    """
    torch.set_num_threads(1)
    plan.results.append(machine_line())
    for workload in plan.workloads:
        contenders, iterations = {}, {}
        for rule in {rule.name: rule for rule in (RULES[BASE], *plan.rules)}.values():
            settings = rule.at(0, DIVISION.name).settings
            overrides = (*DIVISION.overrides, *rule.overrides)
            try:
                trainer = on_noise(workload, overrides, settings)
            except UserError:  # it does not fit
                continue
            device = trainer.gan.prior.device
            contenders[rule.name] = Contender.of(trainer)
            iterations[rule.name] = plan.cost(workload, DIVISION.name, rule)[1]
        found = race_for(contenders, turns=TURNS, turn_s=0.2, device=device)
        for name, times in found.items():
            ratio = times.over(found[BASE]).middle * iterations[name] / iterations[BASE]
            plan.results.append(Line("time", workload.key, division=DIVISION.name, rule=name, figures=(ratio,)))
