"""Each optimisation switched on and off."""

from collections.abc import Sequence

import torch

from benchmarks.section import Section
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare.racing import Contender, race_for
from ganexp.training import Trainer
from measuring.markdown import table

ON_CPU = {
    "own gradients only": ("redundant_gradients=true", "redundant_gradients=false"),
    "fused Adam": ("optimizer.g.fused=false optimizer.d.fused=false", ""),
    "channels_last": ("channels_last=false", "channels_last=true"),
    "bf16": ("precision=fp32", "precision=bf16"),
    "compile": ("compile=false", "compile=true"),
    "bf16 and compile": ("precision=fp32 compile=false", "precision=bf16 compile=true"),
    "averaging (ema)": ("average=none", "average=ema average.decay=0.999"),
    "feed: streamed, resident": ("feed=streamed workers=0", "feed=resident"),
}
ON_GPU = ON_CPU | {
    "cuda_graph": ("cuda_graph=false", "cuda_graph=true"),
    "tf32": ("precision=fp32", "precision=tf32"),
    "bf16, graph, channels_last": ("precision=fp32 cuda_graph=false channels_last=false", "precision=bf16 cuda_graph=true"),
}


def switches(cases: Sequence[str], turns: int, turn_s: float) -> Section:
    """Race each pair of settings in a race of its own, since compiled code and layouts need memory."""
    options = ON_GPU if torch.cuda.is_available() else ON_CPU
    rows = []
    for name, pair in options.items():
        row: dict[str, object] = {"switched on": name}
        for case in cases:
            off, on = (_recorded(*CASES[case], *settings.split()) for settings in pair)
            contenders = {"off": Contender.of(off), "on": Contender.of(on)}
            times = race_for(contenders, turns=turns, turn_s=turn_s, device=on.gan.prior.device)
            row[case] = times["on"].over(times["off"])
        rows.append(row)
    return Section(
        "Every optimisation, on and off",
        "Time with it over time without it, all else as by default, for `strategy=detach`: below 1 it pays. "
        "`compile` is timed after compilation.\n\n" + table(rows),
    )


def _recorded(*settings: str) -> Trainer:
    """Return a trainer that has recorded its iteration, if it records: the number format is a switch of the whole process."""
    trainer = trainer_of(*settings)
    for _ in range(6):
        Contender.of(trainer).step()
    return trainer


def threads(cases: Sequence[str], turns: int, turn_s: float) -> Section | None:
    """Time runs on a CPU with other numbers of threads than torch's own; nothing where there is a GPU."""
    if torch.cuda.is_available():
        return None
    most = torch.get_num_threads()
    counts = sorted({1, *(2**i for i in range(1, 12) if 2**i < most), most})
    rows = []
    for case in cases:
        contenders = {str(count): _on(count, Contender.of(trainer_of(*CASES[case], "device=cpu"))) for count in counts}
        times = race_for(contenders, turns=turns, turn_s=turn_s, device=torch.device("cpu"))
        torch.set_num_threads(most)
        rows.append({"case": case, **{f"{n} threads": times[str(n)].over(times[str(most)]) for n in counts}})
    return Section(
        "Threads",
        f"Time over that with torch's own choice here, {most} threads, which `threads=auto` keeps.\n\n" + table(rows),
    )


def _on(count: int, contender: Contender) -> Contender:
    def step() -> None:
        torch.set_num_threads(count)
        contender.step()

    return Contender(step)
