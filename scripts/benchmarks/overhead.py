"""The overhead of the framework over plain loops of the same algorithms, and savings over the textbook's loop."""

import itertools
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch

from benchmarks.section import Section, bars
from games.vocoder import Vocoder
from ganexp import Step, strategies
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare import plain_loops
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender, race_for
from measuring import loops
from measuring.markdown import table

PIX2PIX = (
    *("dataset=degraded", "dataset@dataset.of=fake", "dataset.of.image_size=64", "dataset.how=edges"),
    *("generator=unet", "discriminator=patch", "term=[l1]", "batch_size=8"),
)
STRATEGIES = ("detach", "joint", "one_stage")


def overhead(cases: Sequence[str], turns: int, turn_s: float) -> Section:
    """Race each case's default run against a loop that does the same updates.

    Both train the very same networks in turn: the times of two copies would differ by some percent, depending on where their
    memory lies.
    """
    rows, ratios = [], {}
    for case in (*cases, "pix2pix 64", "vocoder, by functions"):
        device = torch.device("cpu")
        if case == "vocoder, by functions":
            contenders = vocoder()
        else:
            trainer = trainer_of(*CASES.get(case, PIX2PIX), "cuda_graph=false")
            device = trainer.gan.prior.device
            if case == "pix2pix 64":
                plain = loops.pix2pix(trainer.gan, iter(trainer.reals.source))
            else:
                loop = loops.began if case.startswith("began") else plain_loops.lean
                plain = loop(trainer.gan, images_of(trainer))
            contenders = {"ganexp": Contender.of(trainer), "plain": Contender(plain)}
        times = race_for(contenders, turns=turns, turn_s=turn_s, device=device)
        ratios[case] = times["ganexp"].over(times["plain"])
        rows.append(
            {
                "case": case,
                "plain loop, ms": times["plain"].median_ms,
                "ganexp, ms": times["ganexp"].median_ms,
                "ratio": ratios[case],
            }
        )
    return Section(
        "What the framework costs",
        "`strategy=detach` against a plain PyTorch loop of the same algorithm, in turn on the very same networks, optimisers "
        "and feed. The plain loop switches D's gradients off in G's step, and measures and logs nothing. ganexp also sums "
        "losses and scores and times its phases.\n\n" + table(rows),
        {"Time per iteration over that of a plain loop of the same algorithm": bars(ratios, "time relative to the plain loop")},
    )


def vocoder() -> dict[str, Contender]:
    """Return a vocoder with four discriminators as a `ganexp.Game`, and a plain loop over the same networks; on the CPU."""
    players: Any = Vocoder()
    reals = itertools.cycle([*itertools.islice(players.batches(), 8)])
    of_d = [*players.mpd.parameters(), *players.msd.parameters()]

    def plain() -> None:
        batch = next(reals)
        fake = players.generate(batch)
        players.opt_d.zero_grad()
        players.d_loss(batch, fake.detach()).backward()
        players.opt_d.step()
        for p in of_d:
            p.requires_grad_(False)
        players.opt_g.zero_grad()
        players.g_loss(batch, fake).backward()
        players.opt_g.step()
        for p in of_d:
            p.requires_grad_(True)

    return {"ganexp": Contender(partial(Step(players.game(), strategies.detach), reals)), "plain": Contender(plain)}


def against_the_textbook(turns: int, turn_s: float) -> Section:
    """Race default runs of three strategies against the textbook's loop, for DCGAN 64×64."""
    overrides = CASES["dcgan 64"]
    trainer = trainer_of(*overrides, "channels_last=false")
    contenders = {name: Contender.of(trainer_of(*overrides, f"strategy={name}")) for name in STRATEGIES}
    contenders["textbook"] = Contender(plain_loops.textbook(trainer.gan, images_of(trainer)))
    times = race_for(contenders, turns=turns, turn_s=turn_s, device=trainer.gan.prior.device)
    textbook = times.pop("textbook")
    rows = [
        {"strategy": name, "ms": found.median_ms, "over the textbook's loop": found.over(textbook)}
        for name, found in times.items()
    ]
    return Section(
        "What strategies save",
        "Default runs against the textbook's loop, which computes D's gradients in G's step and throws them away, and has no "
        "channels_last: DCGAN 64×64, "
        f"width 64, batch 32, no batch norm in D. The textbook's loop takes {textbook.median_ms:.0f} ms.\n\n" + table(rows),
    )
