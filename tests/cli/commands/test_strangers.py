"""A stranger's run folder, checkpoint or saved generator: every command that takes one, with everything hostile in it.

Commands are found as `ganexp` finds them, so that a new one cannot be forgotten. Nothing runs, nothing outside the
folder is read or written, and what is refused is one sentence.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from optuna.distributions import CategoricalDistribution, IntDistribution
from optuna.trial import TrialState, create_trial
from torchvision.datasets import MNIST

import ganexp
from ganexp.cli import commands, shared_options
from ganexp.cli.commands.push import run as pushing
from ganexp.cli.commands.sample import _generator
from ganexp.cli.main import parser_of
from ganexp.config.loading import load_discriminator, load_pair, set_of
from ganexp.config.schema import GROUPS, LISTS
from ganexp.evaluation import features
from ganexp.facts import UserError
from ganexp.training import CheckpointError
from tests import forked
from tests.calling import call, said_by_train
from tests.cli.studies import study_in
from tests.composing import composed
from tests.thinned import thinned

SMALL = ["dataset=fake", "dataset.image_size=8", "dataset.n=40", "dataset.channels=1", "generator=mlp", "discriminator=mlp"]
SMALL += [
    "generator.width=8",
    "discriminator.width=8",
    "batch_size=8",
    "latent_dim=3",
    "logger=[]",
    "device=cpu",
    "iterations=2",
]
SMALL += ["average=power", "average.beside=[0.05]", "checkpoint_every=1", "sample_every=1", "measure=[precision_recall]"]
SMALL += ["evaluate_every=2", "evaluation.features=raw", "evaluation.samples=50"]

CALLS = {
    "evaluate": [[], ["--measure", "sliced_wasserstein"]],
    "sample": [
        [],
        ["--images", "--n", "2"],
        ["--film", "--n", "2", "--tiles", "1", "--frames", "2"],
        ["--neighbours", "--n", "1", "--nearest", "1"],
        ["--method", "rejection", "--n", "1"],
        ["--export", "--form", "torchscript"],
        ["--save", "--with-discriminator"],
    ],
    "push": [["owner/name", "--with-discriminator"]],
    "average": [["--width", "0.07"]],
    "translate": [[str(Path(__file__).parents[3] / "docs"), "--output", "never-written"]],
    "report": [[]],
    "info": [[]],
    "dynamics": [["--rules", "joint"], ["--path", "--rules", "joint"]],
}
"""How each command is called with a folder: whatever else it takes."""
CASES = [(name, further) for name, ways in CALLS.items() for further in ways]
ALIKE = {"--images", "--film", "--export", "--path"}
"""Where the configuration is read as by another way."""


def loaded_with_its_data(place):
    set_of(ganexp.load(place))


def built(place):
    """Build what a checkpoint says, as a user does who looks at somebody's run: with loggers, and features."""
    ganexp.build(torch.load(place / "checkpoints" / "last.pt", weights_only=True)["config"], place.parent / "new").fit()


def resumed(place):
    state = torch.load(place / "checkpoints" / "last.pt", weights_only=True)
    ganexp.build(state["config"] | {"iterations": 3}, place, checkpoint=place / "checkpoints" / "last.pt").fit()


LIBRARY = [loaded_with_its_data, load_discriminator, load_pair, built, resumed]


def takes_a_place(action):
    kinds = (Path, shared_options.place, shared_options.place_or_repository, _generator)
    return not action.option_strings and action.type in kinds


def test_every_command_that_takes_a_folder_or_a_checkpoint_is_tried():
    taking = {name for name in commands.places() if any(map(takes_a_place, parser_of(name)._actions))}
    assert taking - {"watch"} == CALLS.keys()  # which runs the script that it is given


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    folder = tmp_path_factory.mktemp("genuine") / "run"
    ganexp.build(composed(*SMALL), folder).fit()
    return folder


WATCHED = []
"""While a list is in it, that list is told which files are opened, and which processes and connections are begun."""


def _told(event, given):
    if WATCHED and event in (
        "open",
        "os.mkdir",
        "subprocess.Popen",
        "os.system",
        "os.posix_spawn",
        "socket.connect",
        "os.exec",
    ):
        WATCHED[-1].append((event, str(given[0])))


sys.addaudithook(_told)


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Return a folder beside the run that nothing may touch, with code to run and a place for sets; fail if something has."""
    place = tmp_path / "outside"
    (place / "modules").mkdir(parents=True)
    (place / "modules" / "evil.py").write_text("raise SystemExit('it has run')")
    for name in ("features.pt", "features.pt2", "target"):
        (place / name).write_bytes(b"as it was")
    monkeypatch.syspath_prepend(str(place / "modules"))
    monkeypatch.setenv("GANEXP_DATA", str(tmp_path / "own"))
    monkeypatch.setattr(features, "opened", lambda *_, **__: pytest.fail("it was run"))
    monkeypatch.setattr(MNIST, "download", lambda self: pytest.fail(self.root) if "outside" in str(self.root) else None)
    monkeypatch.setattr(pushing, "push", lambda *_, **__: "https://hub")
    monkeypatch.setenv("SECRET", "of this machine")
    before, heard = contents(place), []
    WATCHED.append(heard)
    yield place
    WATCHED.pop()
    assert contents(place) == before
    begun = [what for event, what in heard if event not in ("open", "os.mkdir") and what != "git"]  # which says the commit
    touched = [what for event, what in heard if event in ("open", "os.mkdir") and str(place) in what]
    assert begun + [one for one in touched if not one.rstrip("/").endswith("modules")] == []
    assert "evil" not in sys.modules


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def tampered(genuine, folder, key, value):
    """Copy a run into a folder of its own, with another value in its checkpoints and its configuration."""
    shutil.copytree(genuine, folder)
    for path in (folder / "checkpoints").glob("*.pt"):
        state = torch.load(path, weights_only=True)
        put(state["config"], key, value)
        path.unlink()
        torch.save(state, path)
    config = json.loads((folder / "config.json").read_text())
    put(config, key, value)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def put(values, key, value):
    *above, last = key.split(".")
    for one in above:
        values = values.setdefault(one, {})
    values[last] = value


def mnist(root):
    return {"name": "mnist", "_target_": "ganexp.data.MNIST", "root": root, "image_size": 8}


TARGETS = [f"{key}.x._target_" if key in LISTS else f"{key}._target_" for key in GROUPS if key != "optimizer"]
HOSTILE = {
    "features, TorchScript": ("evaluation.features", "{outside}/features.pt"),
    "features, torch.export": ("evaluation.features", ["raw", "{outside}/features.pt2"]),
    "features, through links": ("evaluation.features", ["/proc/self/cwd/../outside/features.pt2"]),
    "protocol": ("evaluation.protocol", "../../outside/evil"),
    "interpolation of a setting": ("dataset.n", "${oc.env:SECRET}"),
    "interpolation in a list": ("logger", {"wandb": {"_target_": "ganexp.logging.WandbLogger", "tags": ["${oc.env:SECRET}"]}}),
    "root": ("dataset", mnist("{outside}/sets")),
    "data_root": ("data_root", "{outside}/sets"),
    "rows": ("logger", {"tensorboard": {"_target_": "ganexp.logging.TensorBoardLogger", "directory": "{outside}/rows"}}),
    "rows of W&B": (
        "logger",
        {"wandb": {"_target_": "ganexp.logging.WandbLogger", "mode": "offline", "directory": "{outside}"}},
    ),
    "trusted by itself": ("trust", ["evil"]),
    "resume": ("resume", "{outside}/run"),
    **{one: (one, "evil.Thing") for one in [*TARGETS, "optimizer.g._target_", "dataset.dataset._target_"]},
}


def named(value, outside):
    """Put the path of the folder outside into a value."""
    return json.loads(json.dumps(value).replace("{outside}", str(outside)))


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nothing_hostile_in_a_configuration_comes_to_pass_by_any_command(hostile, genuine, outside, tmp_path):
    key, value = HOSTILE[hostile]
    for number, (name, further) in enumerate(case for case in CASES if not ALIKE & {*case[1]}):
        folder = tampered(genuine, tmp_path / f"{number}" / "run", key, named(value, outside))
        try:
            call(name, folder, *further)
        except SystemExit as error:
            assert str(error).startswith("Error: ")  # noqa: PT017
            assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nor_by_the_library(hostile, genuine, outside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key, value = HOSTILE[hostile]
    for number, entrance in enumerate(LIBRARY):
        folder = tampered(genuine, tmp_path / f"{number}" / "run", key, named(value, outside))
        try:
            entrance(folder)
        except (UserError, CheckpointError) as error:
            assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize("hostile", HOSTILE)
def test_nor_by_a_saved_generator(hostile, genuine, outside, tmp_path):
    key, value = HOSTILE[hostile]
    call("sample", genuine, "--save", "--with-discriminator", "--output", tmp_path / "saved")
    document = json.loads((tmp_path / "saved" / "generator.json").read_text())
    put(document["settings"], key, named(value, outside))
    (tmp_path / "saved" / "generator.json").write_text(json.dumps(document))
    for name, further in [(name, further) for name, further in CASES if name in ("sample", "push")]:
        try:
            call(
                name, tmp_path / "saved", *further, "--output", tmp_path / "out", *(["--overwrite"] if name == "sample" else [])
            )
        except SystemExit as error:
            assert name == "push" or len(str(error).splitlines()) == 1  # noqa: PT017


LINKS = ["averages", "generated", "evaluation", "samples", "checkpoints/iteration_000000009.pt", "report.html", "dynamics.html"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "further"), CASES)
def test_no_command_writes_through_a_link_out_of_the_folder(name, further, genuine, outside, tmp_path):
    folder = shutil.copytree(genuine, tmp_path / "run")
    for link in LINKS:
        place = folder / link
        shutil.rmtree(place, ignore_errors=True)
        place.symlink_to(outside / ("target" if place.suffix == ".html" else "modules"))
    try:
        call(name, folder, *further)
    except SystemExit as error:
        assert str(error).startswith("Error: ")  # noqa: PT017
        assert len(str(error).splitlines()) == 1  # noqa: PT017


@pytest.mark.slow
@pytest.mark.parametrize(("name", "further"), CASES)
def test_no_command_waits_for_a_pipe(name, further, genuine, outside, tmp_path):
    folder = shutil.copytree(genuine, tmp_path / "run")
    for path in [*folder.glob("*.json*"), *folder.glob("checkpoints/*.pt"), *folder.glob("samples/*")]:
        path.unlink()
        os.mkfifo(path)
    if name != "report":  # which shows what can be read
        with pytest.raises(SystemExit, match=r"\AError: [^\n]+\Z"):
            call(name, folder, *further)
    else:
        call(name, folder, *further)


@pytest.mark.slow
def test_a_run_of_ones_own_goes_through_every_command(genuine, tmp_path, monkeypatch):
    """What is refused is what the test has put there, and not the run itself."""
    monkeypatch.setattr(pushing, "push", lambda *_, **__: "https://hub")
    for name, further in (case for case in CASES if case[0] != "translate"):  # which refuses a generator of latents
        call(name, shutil.copytree(genuine, tmp_path / f"{len(further)}{name}{'-'.join(further[:1])}" / "run"), *further)
    for entrance in LIBRARY:
        entrance(shutil.copytree(genuine, tmp_path / entrance.__name__ / "run"))


@pytest.mark.parametrize("hostile", thinned(HOSTILE, 4))
def test_nor_by_resuming(hostile, genuine, outside, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key, value = HOSTILE[hostile]
    folder = tampered(genuine, tmp_path / "run", key, named(value, outside))
    said = said_by_train([f"resume={folder}", "iterations=4"])
    assert said is None or len(said.splitlines()) == 1


def test_nor_by_a_search_that_goes_on_in_the_study_of_a_stranger(outside, tmp_path):
    """A trial that waits in the database of a study names settings of its own."""
    study = {"storage": f"sqlite:///{tmp_path}/optuna.db", "study_name": "theirs"}
    evil = {key: json.dumps(named(value, outside)) for key, value in HOSTILE.values()}
    evil |= {
        "hydra.run.dir": f"{outside}/run",
        "hydra.sweep.dir": f"{outside}/sweep",
        "hydra.searchpath": f"[file://{outside}]",
    }
    own = {"d_steps": IntDistribution(1, 2)}
    params = own | {key: CategoricalDistribution([value]) for key, value in evil.items()}
    with study_in(**study) as theirs:
        theirs.add_trial(create_trial(state=TrialState.WAITING, params={"d_steps": 2} | evil, distributions=params))
    words = ["d_steps=int(interval(1,2))", "sweep.metric=loss/g", "hydra/sweeper=search", "hydra.sweeper.n_trials=1", *SMALL]
    words += [f"hydra.sweeper.{key}={value}" for key, value in study.items()]
    done = forked.train("-m", *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (summary,) = tmp_path.glob("outputs/*_multirun/*/summary.json")
    (varied,) = {*json.loads(summary.read_text())["overrides"]} - {*SMALL, "sweep.metric=loss/g"}
    assert varied == "d_steps=2"


@pytest.mark.parametrize("link", ["train.log", "samples", "checkpoints", ".hydra", "metrics.jsonl", ".lock"])
def test_resuming_writes_through_no_link(link, genuine, outside, tmp_path):
    folder = shutil.copytree(genuine, tmp_path / "run")
    target = outside / "target" if "." in link else outside / "modules"
    if link == "checkpoints":
        (folder / link / "linked").symlink_to(target)
    else:
        shutil.rmtree(folder / link) if (folder / link).is_dir() else (folder / link).unlink(missing_ok=True)
        (folder / link).symlink_to(target)
    assert "a link there leads out of the folder" in said_by_train([f"resume={folder}", "iterations=4"])
