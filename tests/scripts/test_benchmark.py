"""The benchmark: that contenders do the work which their names say, and end on a page."""

import zipfile

import pytest
from PIL import Image

import benchmark
from benchmarks import feeding, overhead, peers, scaling, section, switches
from benchmarks.section import Section
from ganexp import compose
from ganexp.cli.commands.compare.cases import CASES, trainer_of
from ganexp.compare.intervals import Interval
from ganexp.compare.plain_loops import images_of
from ganexp.compare.racing import Contender
from ganexp.instruments.counting import operations
from tests.data.samples import noise
from tests.data.torchvision_sets import write_idx

TINY = ("dataset=fake", "dataset.image_size=16", "generator.width=2", "discriminator.width=2", "batch_size=4")


@pytest.fixture
def _tiny_cases(monkeypatch):
    tiny = {"mlp": (*TINY[:2], "generator=mlp", "discriminator=mlp"), "dcgan 32": TINY, "dcgan 64": TINY}
    for name, overrides in (tiny | {"began 64": ("experiment=began", "schedule=constant", "strategy=detach", *TINY)}).items():
        monkeypatch.setitem(CASES, name, overrides)


@pytest.mark.parametrize("case", CASES)
def test_every_case_is_trained_by_the_strategy_that_the_page_names(case):
    assert compose(*CASES[case]).strategy.name == "detach"


@pytest.mark.parametrize(
    ("style", "strategy", "redundant"),
    [
        (peers.one_script_per_paper, "g_first", True),
        (peers.step_in_the_network, "resample", True),
        (peers.step_in_the_loss, "resample", True),
        (peers.worker, "resample", False),
    ],
)
def test_a_style_costs_what_the_strategy_that_it_follows_costs(style, strategy, redundant):
    trainer = trainer_of(*TINY)
    twin = trainer_of(*TINY, f"strategy={strategy}", f"redundant_gradients={redundant}")
    made = peers.in_style(style, trainer.gan, images_of(trainer))
    assert operations(made.step) == operations(Contender.of(twin).step)


def test_every_part_can_be_named():
    options = benchmark._parser().parse_args(["--parts", "hours"])
    assert benchmark.parts(options).keys() == {*benchmark.PARTS, *options.parts}


@pytest.mark.parametrize("words", ["", "--quick", "--quick --data-root data --tflops 400 --parts reach hours"])
def test_the_page_names_the_command_that_made_it(words):
    options = benchmark._parser().parse_args(words.split())
    assert benchmark._command(options) == f"python scripts/benchmark.py {words}".strip()


def test_parts_that_are_done_are_kept_when_a_later_one_fails(tmp_path, monkeypatch):
    def fails():
        raise RuntimeError("train.py ended")

    parts = {"overhead": lambda: [Section("Done", "words"), None], "startup": fails}
    monkeypatch.setattr(benchmark, "parts", lambda options: parts)
    with pytest.raises(RuntimeError, match=r"train\.py ended"):
        benchmark.main(["--parts", "overhead", "startup", "--output", str(tmp_path)])
    assert "## Done\n\nwords" in (tmp_path / "benchmarks.md").read_text()


def test_a_folder_without_data_is_refused_before_the_work(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(benchmark, "parts", None)
    with pytest.raises(SystemExit):
        benchmark.main(["--data-root", str(tmp_path / "typo")])
    assert "neither mnist/ nor cifar10-train.zip" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny_cases")
def test_every_part_fills_its_table():
    pace = {"turns": 1, "turn_s": 0.0}
    found = {
        "overhead": overhead.overhead(("mlp", "began 64"), **pace),
        "textbook": overhead.against_the_textbook(**pace),
        "threads": switches.threads(("mlp",), **pace),
        "peers": peers.peers("dcgan 32", **pace),
        "scaling": scaling.scaling(scaling.Axes((2,), (2,), (16,)), **pace),
    }
    rows = {name: sum(line.startswith("|") for line in one.text.splitlines()) for name, one in found.items()}
    assert rows == {"overhead": 6, "textbook": 5, "threads": 3, "peers": 12, "scaling": 9}


@pytest.mark.slow
@pytest.mark.usefixtures("_tiny_cases")
def test_every_switch_can_be_thrown():
    text = switches.switches(("mlp",), turns=1, turn_s=0.0).text
    assert all(name in text for name in switches.ON_CPU)


@pytest.mark.usefixtures("_tiny_cases")
@pytest.mark.slow
def test_feeds_are_timed_on_sets_that_are_there(tmp_path):
    write_idx(tmp_path / "mnist" / "MNIST" / "raw", noise(70, 28, 28))
    with zipfile.ZipFile(tmp_path / "cifar10-train.zip", "w") as archive:
        for i, image in enumerate(noise(66, 32, 32, 3)):
            with archive.open(f"cat/{i}.jpg", "w") as file:
                Image.fromarray(image).save(file, format="JPEG")
    text = feeding.feeding(tmp_path, ("mlp",), turns=1, seconds=0.01).text
    for set_name, ways in {"MNIST, idx files": 3, "CIFAR-10, JPEG files": 4}.items():
        assert text.count(f"| {set_name} |") == ways
    assert "not run" in feeding.feeding(None, ("mlp",), turns=1, seconds=0.01).text


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
