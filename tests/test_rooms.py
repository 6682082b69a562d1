"""The house is laid out as its plan says: imports between rooms point one way."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ganexp"

FRAMEWORK = {"torch", "numpy"}
ALLOWED = {
    # room: (rooms of ganexp, packages from outside) that it may import
    "streams": (set(), FRAMEWORK),
    "prior": ({"streams"}, FRAMEWORK),
    "meter": (set(), FRAMEWORK),
    "losses": (set(), FRAMEWORK),
    "penalties": ({"streams"}, FRAMEWORK),
    "networks": (set(), FRAMEWORK),
    "optimizers": (set(), FRAMEWORK),
    "gan": ({"losses", "meter", "optimizers", "penalties", "prior"}, FRAMEWORK),
    "strategies": ({"gan", "losses", "streams"}, FRAMEWORK),
    "data": ({"streams"}, FRAMEWORK | {"torchvision", "PIL", "filelock", "sklearn", "psutil", "tqdm"}),
    "logbook": (set(), FRAMEWORK | {"torchvision", "PIL", "filelock", "wandb", "tqdm", "matplotlib", "psutil"}),
    "training": ({"gan", "logbook", "prior", "streams"}, FRAMEWORK),
    "elsewhere": (set(), set()),
    "config": ({"elsewhere"}, {"pydantic"}),
    "targets": ({"config", "losses", "penalties"}, FRAMEWORK),
    "demands": (set(), FRAMEWORK),
    "checking": (
        {"config", "demands", "logbook", "losses", "penalties", "strategies", "streams", "targets", "training"},
        FRAMEWORK | {"omegaconf"},
    ),
    "build": (
        {"checking", "config", "data", "demands", "gan", "logbook", "prior", "provenance", "targets", "training"},
        FRAMEWORK,
    ),
    "loading": ({"checking", "config", "prior", "streams", "targets", "training"}, FRAMEWORK),
    "provenance": (set(), {"psutil", "torch"}),
    "sweeping": ({"config", "logbook"}, {"filelock"}),
    "sentences": ({"config"}, {"hydra", "omegaconf"}),
    "naming": (set(), {"omegaconf"}),
    "command_line": (
        {"build", "config", "logbook", "naming", "resuming", "sentences", "sweeping", "training"},
        {"hydra", "omegaconf", "psutil", "torch"},
    ),
    "composing": ({"command_line", "config", "sentences"}, {"hydra", "omegaconf"}),
    "recorded": ({"config"}, {"hydra", "yaml"}),
    "resuming": ({"config", "logbook", "naming", "recorded", "sweeping", "training"}, set()),
    "callbacks": (
        {"build", "checking", "command_line", "config", "logbook", "naming", "resuming", "sweeping"},
        {"hydra", "omegaconf"},
    ),
    "__init__": ({"build", "composing", "gan", "loading", "prior", "training"}, set()),
}
STANDARD = set(__import__("sys").stdlib_module_names)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield node.module


def rooms():
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).parts[0].removesuffix(".py"), path


def test_imports_point_one_way():
    for room, path in rooms():
        inside, outside = ALLOWED[room]
        for name in imports(path):
            head, *rest = name.split(".")
            if head == "ganexp":
                assert rest, f"{path} imports the package as a whole"
                assert rest[0] in inside | {room}, f"{path} may not import {name}"
            else:
                assert head in outside | STANDARD, f"{path} may not import {name}"


def test_every_room_is_on_the_plan():
    assert {room for room, _ in rooms()} == set(ALLOWED)


def test_train_py_is_a_few_lines_that_know_only_hydra_and_ganexp():
    path = ROOT / "train.py"
    assert {name.split(".")[0] for name in imports(path)} <= STANDARD | {"hydra", "omegaconf", "psutil", "ganexp"}
    assert len(path.read_text().splitlines()) < 50
