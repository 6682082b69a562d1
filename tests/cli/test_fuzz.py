"""Broken command lines end in one sentence that names the key; valid ones, however combined, train."""

import os
import string

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from ganexp import build
from ganexp.cli.composing import refuse_mixed_groups
from ganexp.cli.hydra_errors import composing
from ganexp.config.check import check
from ganexp.config.schema import GROUPS, Config
from ganexp.facts import UserError
from ganexp.printable import printable
from ganexp.strategies.base import as_strategy
from tests.composing import composed, options, suited
from tests.tiny import STRATEGIES

TARGETS = [*(group for group in GROUPS if group != "optimizer"), "optimizer.g", "optimizer.d"]
OFFLINE = ("digits", "fake", "ring", "grid")
INTEGERS = (
    *("batch_size", "iterations", "latent_dim", "d_steps", "g_steps", "log_every", "sample_every", "checkpoint_every", "seed"),
    *("workers", "threads", "keep_checkpoints", "accumulate", "pack", "evaluate_every", "freeze_d"),
    *("evaluation.samples", "dynamics.every"),
)
CHOICES = ("precision", "prior", "device", "on_divergence", "logger.wandb.mode", "feed", "cuda_graph", "channels_last")
NULLABLE = {"g_batch", "moving", "init_from", "minutes"}
"""Keys with tests of their own, of which some of what is tried here is right."""
SWITCHES = {"redundant_gradients", "term_gradients", "deterministic", "compile", "flip", "conditional"}
WORDS = st.text(string.ascii_lowercase + "_", min_size=1, max_size=12)
JUNK = st.text(string.printable.replace("\n", "").replace("\r", ""), min_size=1, max_size=15)
NESTED = (
    "generator.width",
    "discriminator.depth",
    "optimizer.lr",
    "optimizer.d.eps",
    "dataset.image_size",
    "wrapper.lookahead.every",
    "clip_gradients",
)

wrong_type = st.tuples(
    st.sampled_from([*INTEGERS, *NESTED]), st.sampled_from(["abc", "[1,2]", "{a:1}", "null", "true", "''", "1e400"])
)
out_of_range = st.tuples(
    st.sampled_from(INTEGERS), st.one_of(st.integers(-(10**30), -1), st.integers(10**19, 10**30), st.floats(0.1, 0.9))
)
bad_choice = st.tuples(st.sampled_from([*GROUPS, *CHOICES, *SWITCHES]), WORDS)
unknown = st.tuples(st.builds(".".join, st.lists(WORDS, min_size=1, max_size=3)), st.one_of(WORDS, st.integers()))
below = st.tuples(st.builds("{}.{}".format, st.sampled_from(GROUPS), WORDS), st.integers())
extreme = st.tuples(st.sampled_from(NESTED), st.sampled_from(["-1", "0", "inf", "nan", "1e300", str(10**25), "-1e-300"]))
path = st.tuples(
    st.just("dataset=image_folder dataset.path"), st.sampled_from(["/nowhere", "/proc/self/mem", "/etc/hostname", "''"])
)
pair = st.sampled_from(
    [
        ("loss", "began"),
        ("discriminator", "began"),
        ("dataset", "ring"),
        ("dataset.image_size", "20"),
        ("keep_best", "loss/q"),
        ("strategy=one_stage discriminator.batch_norm", "true"),
        ("penalty=gradient_penalty discriminator", "began"),
        ("penalty=gradient_penalty compile", "true"),
        ("generator=mlp discriminator=mlp dataset=ring flip", "true"),
    ]
)
code = st.tuples(
    st.builds("{}._target_".format, st.sampled_from(TARGETS)),
    st.sampled_from(
        ["os.system", "builtins.eval", "subprocess.Popen", "math.pi", "ganexp.losses", "nowhere.at_all", "x", "3", "null"]
    ),
)
bulky = st.tuples(
    st.sampled_from([*GROUPS, *INTEGERS, *NESTED, "+loss.x", "trust", "data_root", "logger.wandb.name"]),
    st.sampled_from(["[[1]]", "[1]", "{a:[{}]}", "1" * 5000, "x" * 5000, "[" * 300 + "]" * 300, "{a:" * 300 + "1" + "}" * 300]),
)
broken = st.one_of(wrong_type, out_of_range, bad_choice, unknown, below, extreme, path, pair, code, bulky)
EXAMPLES = float(os.environ.get("GANEXP_EXAMPLES", "1"))
"""How many times as many command lines are tried; always the same ones."""


def outcome(arguments):
    """Return what `python train.py` says to a command line before it does anything, or None if it would run."""
    try:
        with composing():
            cfg = composed(*arguments)
        refuse_mixed_groups(cfg, dict.fromkeys(GROUPS, 1))
        check(cfg, trust=cfg.trust)
    except UserError as error:
        return f"Error: {printable(error)}"
    return None


@pytest.mark.slow
@settings(max_examples=round(60 * EXAMPLES), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(first=broken, second=st.none() | broken)
@example(first=("optimizer.betas", "[2,2]"), second=None)
@example(first=("average.decay", "2"), second=None)
@example(first=("penalty", "[[1]]"), second=None)
@example(first=("+penalty.mine._target_", "ganexp.losses.Hinge"), second=None)
@example(first=("seed", "1" * 5000), second=None)
@example(first=("dataset=image_folder dataset.path", "a/" * 5000), second=None)
@example(first=("+loss.x", "[" * 3000 + "]" * 3000), second=None)
def test_a_broken_command_line_is_one_sentence_that_names_the_key(first, second):
    pairs = [pair for pair in (first, second) if pair]
    arguments = [part for key, value in pairs for part in f"{key}={value}".split(" ") if part]
    said = outcome(arguments)
    assume(said is not None)  # a random word may be an option, a random value within bounds
    assert said.startswith("Error: ")
    assert len(said.splitlines()) == 1
    assert "Traceback" not in said
    assert len(said) < 2000
    keys = {part.lstrip("+~") for key, _ in pairs for part in key.split(" ")[-1].split(".")} | set(GROUPS)
    assert any(part in said for part in keys), said


@settings(max_examples=round(50 * EXAMPLES), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(junk=JUNK)
def test_junk_is_one_sentence_too(junk):
    said = outcome([junk])
    if said is not None:
        assert said.startswith("Error: ")
        assert len(said.splitlines()) == 1


HEAVY = {"projected", "resnet", "r3gan", "warm_up"}
"""Options that take too long for many combinations; each has tests of its own with every strategy."""
HEAVY |= {"unet", "resnet_translator", "srresnet", "two_way", "vae", "vq", "pretrain"}  # and those of data with sources
SMALL = {"mlp": ["width=4", "depth=1"], "dit": ["width=8", "heads=2", "depth=1"]}
"""Settings of networks that make them small; by default a width of 2."""


SIGNED = ("nonsaturating", "minimax", "hinge")
USUAL = {"generator": "mlp", "discriminator": "mlp", "augment": "none", "schedule": "constant", "penalty": "lecam"}


def misfits(option, choice, dataset):
    """Return whether an option is known to be refused with the others, so that few combinations are tried in vain."""
    return {
        "flip=true": dataset in ("ring", "grid"),
        "dcgan": dataset in ("ring", "grid"),
        **dict.fromkeys(("approx_r1", "approx_r2", "approx_r1r2"), choice["augment"] in ("ada", "diffaugment")),
        "diffaugment": dataset in ("ring", "grid"),
        "ada": dataset in ("ring", "grid") or choice["loss"] not in SIGNED,
        "stalled": choice["loss"] != "began",
        "balanced": choice["loss"] not in (*SIGNED, "lsgan"),
        "replay": as_strategy(STRATEGIES[choice["strategy"]]).learns_through_d_loss,
    }.get(option, False)


@pytest.mark.slow
@settings(max_examples=round(12 * EXAMPLES), deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(
    choice=st.fixed_dictionaries(
        {
            group: st.sampled_from([one for one in options(group) if one not in HEAVY])
            for group in GROUPS
            if group not in ("dataset", "wrapper", "logger", "term", "balance")
        }
    ),
    wrappers=st.lists(st.sampled_from([one for one in options("wrapper") if one not in HEAVY]), unique=True),
    dataset=st.sampled_from(OFFLINE),
    d_steps=st.integers(1, 2),
    g_steps=st.integers(1, 2),
    further=st.lists(
        st.sampled_from(
            [
                "prior=uniform",
                "precision=fp64",
                "precision=bf16",
                "redundant_gradients=true",
                "channels_last=true",
                "feed=streamed",
                "flip=true",
            ]
        ),
        unique=True,
    ),
)
def test_valid_combinations_train(choice, wrappers, dataset, d_steps, g_steps, further):
    if choice["loss"] in ("wgan", "wgan_gp"):
        choice["penalty"] = {"wgan": "weight_clipping", "wgan_gp": "gradient_penalty"}[choice["loss"]]
    choice["loss"] = suited(choice["strategy"], choice["loss"])
    further = [one for one in further if not misfits(one, choice, dataset)]
    wrappers = [one for one in wrappers if not misfits(one, choice, dataset)]
    choice = {group: USUAL[group] if misfits(option, choice, dataset) else option for group, option in choice.items()}
    sides = [f"{side}.{one}" for side in ("generator", "discriminator") for one in SMALL.get(choice[side], ["width=2"])]
    size = ["dataset.image_size=16"] if dataset in ("digits", "fake") else []
    steps = [f"d_steps={d_steps}", f"g_steps={g_steps}", "batch_size=3", "latent_dim=2", "iterations=2", "device=cpu"]
    arguments = [
        f"dataset={dataset}",
        *(f"{group}={option}" for group, option in choice.items()),
        f"wrapper=[{','.join(wrappers)}]",
        *sides,
        *size,
        *steps,
        *further,
    ]
    said = outcome(arguments)
    assume(said is None)
    summary = build(composed(*arguments)).fit()
    assert summary["state"] == "finished"


def test_every_key_of_the_schema_is_tried():
    fields = set(Config.model_fields) - {*GROUPS, *SWITCHES, "resume", "trust", "data_root", "sweep", "keep_best", *NULLABLE}
    tried = {key.partition(".")[0] for key in (*INTEGERS, *CHOICES, *NESTED)}
    assert fields <= tried, fields - tried
