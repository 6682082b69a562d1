"""Numbers of parts that move: every one of them is, to the last bit, a run in which somebody sets it at each iteration."""

import copy
import math

import pytest
import torch

from ganexp import build
from ganexp.config.assemble import parts_of
from ganexp.config.check import check
from ganexp.config.choices import chosen_by
from ganexp.config.moving import movables
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.facts import UserError
from ganexp.penalties import Sum
from ganexp.training.cuda_graph import Recorded, reason_against
from tests.composing import composed, discriminator_for, options, suited
from tests.small_runs import CONVOLUTIONAL, NARROW, SMALL, assert_resumes, rows
from tests.tiny import iterate, state
from tests.training.tape import Tapes

N = 4
BEGAN = [*CONVOLUTIONAL, "generator=began", "discriminator=began"]
LABELS = [*NARROW, "device=cpu", "conditional=true", "loss=acgan", "discriminator.conditioning=classifier"]
LOOKAHEAD = ["wrapper=[lookahead]", "wrapper.lookahead.every=2"]
FIXED = {"wrapper.topk.gamma", "loss.k_0", "average.width", "penalty.cr.shift", "penalty.bcr.shift"}
FIXED |= {f"penalty.approx_{one}.share" for one in ("r1", "r2", "r1r2")}


def cosine(t, start, to):
    return to + (start - to) * (1 + math.cos(math.pi * t / N)) / 2


def by_hand(trainer, key, value):
    """Write a number where its part keeps it."""
    *path, name = key.split(".")
    if path[0] == "optimizer":
        last = int(name) if name.isdigit() else None
        path, name = (path[:-1], path[-1]) if last is not None else (path, name)
        for side in path[1:] or ("d", "g"):
            for group in getattr(trainer.gan, f"optimizer_{side}").param_groups:
                if name == "weight_decay" and all(p.dim() < 2 for p in group["params"]):
                    continue  # biases and gains, which adamw leaves alone
                held = group[name] if last is None else group[name][last]
                if isinstance(held, torch.Tensor):
                    held.fill_(value)
                    continue
                pair = [*group[name]] if last is not None else value
                if last is not None:
                    pair[last] = value
                group[name] = tuple(pair) if last is not None else value
        return
    part = trainer.gan if path[0] in ("penalty", "augment", "loss") else trainer.step
    part = getattr(part, "average" if path[0] == "average" else "strategy" if path[0] == "wrapper" else path[0])
    part = part.penalties[path[1]] if isinstance(part, Sum) else part
    if isinstance(getattr(part, name), torch.Tensor):
        getattr(part, name).fill_(value)
    else:
        setattr(part, name, value)


def ends(cfg, ends_at, *, moving):
    """Train, with numbers that move or are written by hand; return weights, averages and buffers."""
    cfg = copy.deepcopy(cfg)
    cfg.iterations, cfg.precision, cfg.moving = N, "fp64", ends_at
    choices = chosen_by(parse(plain(cfg)))
    starts = {key: one.start for key, one in movables(choices, parts_of(choices)).items()}
    cfg.moving = ends_at if moving else starts  # which stay, and so are in tensors where those that move are
    trainer = build(cfg)
    for t in range(N):
        for key, to in ends_at.items() if not moving else ():
            by_hand(trainer, key, cosine(t, starts[key], to))
        iterate(trainer, 1)
    return [*state(trainer.gan), *(p.clone() for p in trainer.step.average.generator.parameters())]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize(
    ("settings", "ends_at"),
    [
        pytest.param(
            [
                *SMALL,
                "penalty=[r1,spectral]",
                "penalty.r1.every=2",
                "augment=ada",
                "augment.p=0",
                "average.decay=0.1",
                *LOOKAHEAD,
            ],
            {"penalty.r1.weight": 0.1, "augment.p": 0.9, "average.decay": 0.05, "optimizer.betas.1": 0.9}
            | {"wrapper.lookahead.alpha": 0.9},
            marks=pytest.mark.slow,
        ),
        (
            [*SMALL, "penalty=weight_clipping", "strategy=consensus", "average.half_life=0"],
            {"penalty.weight_clipping.bound": 0.2, "strategy.gamma": 2.0, "average.half_life": 5.0, "optimizer.d.betas.0": 0.0},
        ),
        ([*SMALL, "optimizer=sgd"], {"optimizer.momentum": 0.9}),
        pytest.param([*BEGAN, "loss=began", "loss.k_0=0.5"], {"loss.lambda_k": 0.5}, marks=pytest.mark.slow),
    ],
)
def test_numbers_that_move_are_written_before_each_iteration(settings, ends_at):
    cfg = composed(*settings)
    moved = ends(cfg, ends_at, moving=True)
    assert same(moved, ends(cfg, ends_at, moving=False))
    for key in ends_at:
        others = {other: to for other, to in ends_at.items() if other != key}
        assert not same(moved, ends(cfg, others, moving=False)), key


def with_every_float(group, option):
    """Return a run with an option, and what each of its settings that is a float is to become, by its key."""
    settings = [*SMALL, f"{group}={option}"]
    settings += ["generator=stylegan2", "generator.depth=1", "dataset.image_size=16"] * (option == "path_length")
    if group == "loss":
        settings = LABELS if option == "acgan" else [*(BEGAN if discriminator_for(option) else SMALL), f"loss={option}"]
        settings += ["loss.pulling_away=0.1", "discriminator.returns_code=true"] * (option == "ebgan")
    if group == "strategy":
        settings += [f"loss={suited(option)}"]
    cfg = composed(*settings)
    nodes = getattr(parse(plain(cfg)), group)
    node, place = (nodes[option], f"{group}.{option}") if group in ("penalty", "wrapper") else (nodes, group)
    floats = {name: value for name, value in node.items() if type(value) is float and name != "lr"}
    return cfg, {f"{place}.{name}": 0.9 * value or 0.01 for name, value in floats.items()}


@pytest.mark.slow
@pytest.mark.parametrize("group", ["penalty", "augment", "loss", "strategy", "wrapper", "optimizer", "average"])
def test_so_is_every_float_of_every_option_but_those_that_say_why_not(group):
    for cfg, ends_at in (with_every_float(group, option) for option in options(group)):
        for key in FIXED & ends_at.keys():
            with pytest.raises(UserError, match=r"cannot move: [a-z_0-9]+ (is|belongs|decides)"):
                check({**plain(cfg), "moving": {key: ends_at.pop(key)}})
        assert not ends_at or same(*(ends(cfg, ends_at, moving=moving) for moving in (True, False)))


def test_along_a_line_after_a_beginning_and_a_cosine_after_a_warm_up(tmp_path):
    moving = "moving={average.decay:{to:0.5,by:linear,begin:3,end:7},optimizer.betas.1:{to:0.9,warm_up:4}}"
    build(composed(*SMALL, "iterations=10", "log_every=1", "average.decay=0.9", moving), tmp_path).fit()
    found = [(row["moving/average.decay"], row["moving/optimizer.betas.1"]) for row in rows(tmp_path) if "loss/d" in row]
    line = [0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.5, 0.5, 0.5]
    half = [0.9 + 0.099 * (1 + math.cos(math.pi * t / 6)) / 2 for t in range(6)]
    warm = [0.999 * share for share in (0.25, 0.5, 0.75, 1)]
    assert [decay for decay, _ in found] == pytest.approx(line, rel=1e-12)
    assert [beta for _, beta in found] == pytest.approx([*warm, *half], rel=1e-12)


OF_STRATEGIES = [
    ("alex_gda", "strategy.gamma:0.5,strategy.delta:0.5"),
    ("competitive", "strategy.rate:0.5,strategy.tolerance:0.1", "strategy.rate=0.1", "loss=minimax"),
    ("consensus", "strategy.gamma:2"),
    ("drift", "strategy.rate:1", "strategy.rate=0.1"),
    ("extragradient", "strategy.ahead:3"),
    ("follow_the_ridge", "strategy.damping:3,strategy.tolerance:0.1"),
    ("jare", "strategy.gamma:2"),
    ("lead", "strategy.alpha:3"),
    ("past_extragradient", "strategy.decay:0.9"),
    ("runge_kutta", "strategy.rate:1", "strategy.rate=0.1"),
    ("symplectic", "strategy.strength:3"),
    ("unrolled", "strategy.rate:0.1"),
]
RISING = ["augment=ada", "augment.images=40", "augment.every=1", "augment.target=-0.9", "optimizer.lr=0.02"]
MANY = ["penalty=r1", "schedule=linear", "schedule.final=0.5", "average.half_life=1"]
MANY += ["moving={penalty.r1.weight:0.1,optimizer.betas.1:0.9,average.half_life:4}"]


def test_a_killed_run_goes_on_where_its_numbers_were(tmp_path):
    assert_resumes(tmp_path, [*SMALL, *MANY], 11, stop_after=5)


def test_numbers_stay_where_the_first_run_was_to_end(tmp_path):
    build(composed(*SMALL, *MANY, "iterations=6"), tmp_path).fit()
    longer = build(composed(*SMALL, *MANY, "iterations=12"), checkpoint=tmp_path / "checkpoints/last.pt")
    iterate(longer, 3)
    assert longer.step.schedule.coefficients() == {"penalty.r1.weight": 0.1, "optimizer.betas.1": 0.9, "average.half_life": 4.0}


@pytest.mark.parametrize(
    ("settings", "moving"),
    [
        (
            [*SMALL, "penalty=r1", "average.half_life=0", "augment=ada", "augment.p=0.2"],
            "moving={penalty.r1.weight:0.1,average.half_life:3,augment.p:0.9}",
        ),
        (SMALL, "moving={optimizer.betas.0:0.1,optimizer.d.betas.1:0.9,optimizer.g.eps:0.01}"),
        ([*SMALL, *LOOKAHEAD], "moving={wrapper.lookahead.alpha:0.9}"),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (
                ([*SMALL, *RISING], "moving={augment.target:0.99}"),
                ([*BEGAN, "loss=began", "loss.k_0=0.5"], "moving={loss.gamma:0.1,loss.lambda_k:0.4}"),
                ([*BEGAN, "loss=ebgan"], "moving={loss.margin:0.01}"),
                ([*SMALL, "optimizer=adamw"], "moving={optimizer.weight_decay:0.5}"),
                ([*SMALL, "optimizer=optimistic_adam"], "moving={optimizer.betas.1:0.9}"),
                ([*SMALL, "optimizer=muon"], "moving={optimizer.betas.0:0.1}"),
                ([*SMALL, "wrapper=[latent_step]"], "moving={wrapper.latent_step.alpha:0.1,wrapper.latent_step.beta:1}"),
                (
                    [*SMALL, "penalty=[lecam,dragan,zcr]"],
                    "moving={penalty.lecam.decay:0.1,penalty.dragan.noise:2,penalty.zcr.d_weight:1}",
                ),
            )
        ),
        *(
            pytest.param([*SMALL, f"strategy={name}", *more], f"moving={{{moving}}}", marks=pytest.mark.slow)
            for name, moving, *more in OF_STRATEGIES
        ),
    ],
)
def test_what_is_read_on_the_device_moves_in_a_recorded_iteration_too(settings, moving):
    runs = []
    for recorded in (False, True):
        trainer = build(composed(*settings, moving, "iterations=8", "precision=fp64"))
        if recorded:
            trainer.step = Recorded(trainer.step, Tapes)
        iterate(trainer, 8)
        runs.append([*state(trainer.gan), *(p.clone() for p in trainer.step.average.generator.parameters())])
        assert not recorded or trainer.step.recordings
    assert same(*runs)
    still = build(composed(*settings, "iterations=8", "precision=fp64"))
    iterate(still, 8)
    assert not same(runs[0], [*state(still.gan), *still.step.average.generator.parameters()])


@pytest.mark.parametrize(
    ("part", "moving"),
    [("optimizer=sgd", "optimizer.momentum:0.9"), ("strategy=runge_kutta", "strategy.regulariser:2")],
)
def test_what_is_read_on_the_host_is_not_recorded(part, moving):
    made = build(composed(*SMALL, part, f"moving={{{moving}}}"))
    assert "reads a moving" in reason_against(made.step)


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["moving={penalty.r1.weight:1}"], "moving.penalty.r1.weight"),
        (["moving={optimizer.lr:1e-4}"], "moving.optimizer.lr"),
        (["moving={optimizer.betas:1}"], "moving.optimizer.betas"),
        (["optimizer.d.betas=[0,0.9]", "moving={optimizer.betas.1:0.99}"], "moving.optimizer.betas.1"),
        (["penalty=r1", "moving={penalty.r1.every:2}"], "moving.penalty.r1.every"),
        (["penalty=r1", "moving={penalty.r1.weight:-1}"], "penalty.r1.weight"),
        (["moving={dataset.n:3}"], "moving.dataset.n"),
        (["moving={average.half_life:3}"], "moving.average.half_life"),
        (["moving={average.decay:{to:0.9,end:99}}", "iterations=10"], "moving.average.decay.end"),
        (["moving={average.decay:{to:0.9,begin:2}}"], "moving.average.decay.begin"),
        (["moving={average.decay:{to:0.9,by:steps}}"], "moving.average.decay.by"),
        (["moving={average.decay:{to:0.9,ends:3}}"], "moving.average.decay.ends"),
        (["moving=3"], "moving"),
        (["average=none", "moving={average.decay:0.9}"], "moving.average.decay"),
    ],
)
def test_what_cannot_move_is_refused(overrides, key):
    with pytest.raises(UserError, match=rf"(^|: |Unknown key ){key.replace('.', '[.]')}\b"):
        check(composed(*SMALL, *overrides))
