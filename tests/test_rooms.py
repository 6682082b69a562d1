"""The house is laid out as its plan says: imports between rooms point one way, without a circle."""

import ast
import graphlib
import sys
from collections import Counter
from pathlib import Path

from tests.processes import run

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "ganexp"

FRAMEWORK = {"torch", "numpy"}
SUBJECT = {
    "augmentations",
    "batch",
    "gan",
    "losses",
    "networks",
    "optimizers",
    "penalties",
    "prior",
    "schedules",
    "sources",
    "strategies",
    "streams",
    "terms",
    "wrappers",
}
SPOKEN = {"facts", "printable"}
"""What any room outside the subject may use to say what is wrong; they import nothing of ganexp."""
ALLOWED = {
    # room: (rooms of ganexp, packages from outside) that it may import
    "batch": (set(), FRAMEWORK),
    "facts": (set(), set()),
    "streams": (set(), FRAMEWORK),
    "ranges": (set(), {"annotated_types"}),
    "printable": (set(), set()),
    "documents": ({"printable"}, {"torch"}),
    "distributed": (SPOKEN | {"batch"}, FRAMEWORK),
    "instruments": ({"batch"}, FRAMEWORK),
    "losses": ({"facts", "batch", "instruments", "ranges"}, FRAMEWORK | {"annotated_types"}),
    "networks": (
        {"facts", "batch", "distributed", "documents", "instruments", "ranges", "streams"},
        FRAMEWORK | {"annotated_types", "torchvision"},
    ),
    "optimizers": ({"ranges"}, FRAMEWORK | {"annotated_types"}),
    "schedules": ({"facts", "optimizers", "ranges"}, FRAMEWORK | {"annotated_types"}),
    "penalties": ({"augmentations", "facts", "batch", "distributed", "ranges", "streams"}, FRAMEWORK | {"annotated_types"}),
    "augmentations": ({"facts", "batch", "instruments", "distributed", "ranges", "streams"}, FRAMEWORK | {"annotated_types"}),
    "sources": ({"batch", "prior"}, FRAMEWORK),
    "terms": ({"facts", "batch", "distributed", "instruments", "ranges"}, FRAMEWORK | {"annotated_types"}),
    "prior": ({"batch", "ranges", "streams"}, FRAMEWORK | {"annotated_types"}),
    "gan": (SUBJECT - {"gan", "strategies", "wrappers"} | {"instruments", "distributed"}, FRAMEWORK),
    "strategies": ({"facts", "batch", "gan", "losses", "networks", "ranges", "streams"}, FRAMEWORK | {"annotated_types"}),
    "wrappers": ({"facts", "batch", "gan", "losses", "ranges", "strategies", "streams"}, FRAMEWORK | {"annotated_types"}),
    "dynamics": (
        {"augmentations", "batch", "gan", "instruments", "losses", "networks", "prior", "streams"},
        FRAMEWORK | {"scipy"},
    ),
    "data": (
        SPOKEN | {"batch", "documents", "distributed", "ranges", "streams"},
        FRAMEWORK
        | {
            "annotated_types",
            "torchvision",
            "PIL",
            "filelock",
            "datasets",
            "huggingface_hub",
            "pyarrow",
            "safetensors",
            "sklearn",
            "psutil",
            "tqdm",
        },
    ),
    "evaluation": (
        SPOKEN | {"batch", "data", "documents", "instruments", "ranges", "streams"},
        FRAMEWORK | {"annotated_types", "filelock", "tqdm"},
    ),
    "logging": (
        SPOKEN | {"data", "documents", "instruments", "ranges"},
        FRAMEWORK
        | {
            "annotated_types",
            "torchvision",
            "PIL",
            "filelock",
            "wandb",
            "tensorboard",
            "trackio",
            "tqdm",
            "matplotlib",
            "psutil",
        },
    ),
    "training": (
        SUBJECT - {"losses", "wrappers"}
        | SPOKEN
        | {"documents", "dynamics", "evaluation", "instruments", "distributed", "logging", "ranges"},
        FRAMEWORK | {"annotated_types", "psutil"},
    ),
    "sampling": (
        SPOKEN | {"batch", "data", "documents", "evaluation", "distributed", "logging", "ranges", "streams"},
        FRAMEWORK | {"PIL", "annotated_types", "av", "huggingface_hub", "onnx", "onnxruntime", "onnxscript", "safetensors"},
    ),
    "config": (
        SUBJECT | SPOKEN | {"data", "documents", "evaluation", "instruments", "distributed", "logging", "sampling", "training"},
        FRAMEWORK | {"pydantic", "omegaconf"},
    ),
    "watching": ({"batch", "gan", "instruments", "losses", "prior", "strategies"}, FRAMEWORK),
    "compare": (
        {"batch", "config", "facts", "gan", "instruments", "losses", "networks", "prior", "logging", "training"},
        FRAMEWORK | {"scipy"},
    ),
    "cli": (
        SPOKEN | {"compare", "config", "data", "documents", "distributed", "logging", "training"},
        {"hydra", "omegaconf", "optuna", "pydantic", "psutil", "sqlalchemy", "torch", "filelock", "yaml"},
    ),
    "cli.commands": (
        SPOKEN
        | {"batch", "cli", "compare", "config", "data", "distributed", "dynamics", "evaluation", "instruments", "logging"}
        | {"augmentations", "documents", "gan", "penalties", "sampling", "strategies", "training", "watching"},
        FRAMEWORK | {"filelock", "torchvision", "PIL", "matplotlib", "omegaconf", "plotly", "tqdm", "wandb_workspaces"},
    ),
    "cli.pages": (
        {"cli", "compare", "config", "instruments", "logging"},
        {"torch", "torchvision", "PIL", "matplotlib"},
    ),
    "__init__": ({"batch", "cli", "config", "facts", "gan", "prior", "training", "watching"}, set()),
    "__main__": ({"cli"}, set()),
}
STANDARD = set(sys.stdlib_module_names)
LOOSE_MODULES = 8


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            yield node.module


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        place = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
        yield max((room for room in ALLOWED if f"{place}.".startswith(f"{room}.")), key=len, default=place), path


def test_imports_point_one_way():
    for room, path in modules():
        inside, outside = ALLOWED[room]
        for name in imports(path):
            head, *rest = name.split(".")
            if head == "ganexp":
                assert rest, f"{path} imports the package as a whole"
                assert rest[0] in inside | {room.split(".")[0]}, f"{path} may not import {name}"
            else:
                assert head in outside | STANDARD, f"{path} may not import {name}"


def test_watching_reaches_the_subject_alone():
    """A stranger's environment has torch alone, with which `test_torch_alone.py` watches a loop."""
    code = "import sys, torch; there = {*sys.modules}; import ganexp.watching; print(*{*sys.modules} - there)"
    imported = run(sys.executable, "-c", code, cwd=ROOT).stdout.split()
    rooms = {name.split(".")[1] for name in imported if name.startswith("ganexp.")}
    assert rooms <= SUBJECT | SPOKEN | {"watching", "instruments", "distributed", "documents", "ranges"}


def test_every_room_is_on_the_plan():
    assert {room for room, _ in modules()} == set(ALLOWED)


def test_no_module_imports_itself_by_way_of_others():
    """Within rooms too; a package's __init__ only gathers names, and is looked through."""
    known = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for _, path in modules()}
    graph = {name: {one for one in imports(path) if one in known} for name, path in known.items()}
    assert [*graphlib.TopologicalSorter(graph).static_order()]


def test_few_modules_are_loose():
    loose = [path.name for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")]
    assert len(loose) <= LOOSE_MODULES


def test_scripts_are_mains_and_no_libraries():
    scripts = ROOT / "scripts"
    mains = {path.stem for path in scripts.glob("*.py") if "__main__" in path.read_text()}
    assert {"bench", "benchmark", "claims"} <= mains
    for path in scripts.rglob("*.py"):
        assert not mains & {name.split(".")[0] for name in imports(path)}, path


def test_train_py_is_a_few_lines():
    path = ROOT / "train.py"
    assert {*imports(path)} == {"ganexp.cli.train"}
    assert len(path.read_text().splitlines()) < 10


def test_no_two_classes_have_one_name():
    found = Counter(
        node.name for _, path in modules() for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []
