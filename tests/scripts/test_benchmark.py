"""The benchmark: that contenders do the work which their names say, take turns, and end on a page."""

import struct
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

import benchmark
import plain_loops
from benchmarks import feeding, overhead, peers, scaling, section, startup, switches
from benchmarks.section import QUIET, Section, timed
from compare_strategies import compose
from experiments.finding import Interval
from measuring import operations

TINY = (*QUIET, "dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4")
BEGAN = (
    *QUIET,
    "experiment=began",
    "strategy=detach",
    "dataset=fake",
    "dataset.image_size=16",
    "generator.width=2",
    "discriminator.width=2",
)


@pytest.fixture
def _tiny_cases(monkeypatch):
    cases = {"mlp": (*TINY[4:6], "generator=mlp", "discriminator=mlp"), "dcgan 32": TINY[4:], "dcgan 64": TINY[4:]}
    cases["began 64"] = (*BEGAN[4:], "batch_size=4")
    for module in (section, overhead, switches, peers, feeding):
        monkeypatch.setattr(module, "CASES", cases)


@pytest.mark.parametrize(
    ("style", "strategy", "redundant"),
    [
        (peers.one_script_per_paper, "g_first", True),
        (peers.step_in_the_network, "resample", True),
        (peers.step_in_the_loss, "resample", True),
        (peers.worker, "resample", False),
        (plain_loops.textbook, "detach", True),
        (plain_loops.lean, "detach", False),
    ],
)
def test_a_style_costs_what_the_strategy_that_it_follows_costs(style, strategy, redundant):
    trainer = compose(*TINY)
    twin = compose(*TINY, f"strategy={strategy}", f"redundant_gradients={redundant}")
    assert operations(style(trainer.gan, trainer.reals.reals)) == operations(twin.iterate)


def test_the_plain_began_is_began():
    by_hand, framework = (compose(*BEGAN, "loss.lambda_k=0.3", "batch_size=4", "precision=fp64") for _ in range(2))
    latents = framework.gan.prior.generator.clone_state()
    step = plain_loops.began(by_hand.gan, by_hand.reals.reals, lambda_k=0.3)
    with pytest.MonkeyPatch.context() as patch:  # the loop draws from torch's own stream, so give it the framework's latents
        patch.setattr(
            "torch.rand", lambda *size, **kwargs: torch.empty(size, **kwargs).uniform_(-1, 1, generator=latents) / 2 + 0.5
        )
        for _ in range(4):
            step()
            framework.iterate()
    for a, b in zip(by_hand.gan.generator.parameters(), framework.gan.generator.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12)


def test_turns_are_as_long_as_asked(monkeypatch):
    now, calls = [0.0], {"slow": 0, "fast": 0}
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    def step(name, seconds):
        def run():
            calls[name] += 1
            now[0] += seconds

        return run

    steps = {"slow": step("slow", 0.03), "fast": step("fast", 0.01)}
    times = timed(steps, repeats=4, turn_s=0.1, device=torch.device("cpu"))
    assert calls["slow"] == calls["fast"] == 6 + 1 + 2 + 4 * 5  # 0.1 s is five iterations of 0.02 s each on average
    assert times["slow"].median_ms == pytest.approx(30)
    ratio = times["slow"].over(times["fast"])
    assert (ratio.low, ratio.middle, ratio.high) == pytest.approx((3, 3, 3))


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny_cases")
def test_every_part_fills_its_table():
    pace = {"repeats": 1, "turn_s": 0.0}
    found = {
        "overhead": overhead.overhead(("mlp", "began 64"), **pace),
        "textbook": overhead.against_the_textbook(**pace),
        "threads": switches.threads(("mlp",), **pace),
        "peers": peers.peers("dcgan 32", **pace),
        "scaling": scaling.scaling(scaling.Axes((2,), (2,), (16,)), **pace),
    }
    rows = {name: sum(line.startswith("|") for line in one.text.splitlines()) for name, one in found.items()}
    assert rows == {"overhead": 4, "textbook": 5, "threads": 3, "peers": 12, "scaling": 9}


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny_cases")
def test_every_switch_can_be_thrown():
    text = switches.switches(("mlp", "dcgan 32"), repeats=1, turn_s=0.0).text
    assert all(name in text for name in switches.ON_CPU)


@pytest.mark.usefixtures("_tiny_cases")
def test_feeds_are_timed_on_sets_that_are_there(tmp_path):
    raw = tmp_path / "mnist" / "MNIST" / "raw"
    raw.mkdir(parents=True)
    rng = np.random.default_rng(0)
    for part in ("train", "t10k"):
        pixels = rng.integers(0, 256, (70, 28, 28), dtype=np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, 70, 28, 28) + pixels.tobytes())
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, 70) + bytes(70))
    with zipfile.ZipFile(tmp_path / "cifar10-train.zip", "w") as archive:
        for i in range(66):
            with archive.open(f"cat/{i}.jpg", "w") as file:
                Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(file, format="JPEG")
    text = feeding.feeding(tmp_path, ("mlp",), repeats=1, seconds=0.01).text
    for set_name, ways in {"MNIST, idx files": 3, "CIFAR-10, JPEG files": 4}.items():
        assert text.count(f"| {set_name} |") == ways
    assert "not run" in feeding.feeding(None, ("mlp",), repeats=1, seconds=0.01).text


@pytest.mark.slow
def test_start_up_is_timed_until_the_first_row():
    text = startup.startup(repeats=1).text
    assert text.count("| `") == 5


def test_the_page_has_every_section_and_its_pictures(tmp_path):
    figure = section.bars({"a": Interval(0.8, 0.9, 1.0), "b": Interval(1.0, 1.1, 1.2)}, "time")
    sections = [Section("What is it", "| a |\n| --- |\n", {"Bars": figure}), Section("And this", "words")]
    path = benchmark.write(sections, tmp_path, how="python scripts/benchmark.py", minutes=2)
    text = path.read_text()
    assert text.startswith("# Benchmarks\n\n`python scripts/benchmark.py` on ")
    assert [line for line in text.splitlines() if line.startswith("## ")] == ["## What is it", "## And this"]
    with Image.open(tmp_path / "benchmarks" / "what_is_it.png") as picture:
        assert picture.size[0] > 500
    assert "![Bars](benchmarks/what_is_it.png)" in text
