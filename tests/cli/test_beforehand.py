"""What can be known at once is refused before torch is imported: here, importing it is an error."""

import json
import subprocess
import sys

import pytest

CODE = """
import json, sys
sys.modules["torch"] = None
from ganexp.cli import process
from ganexp.cli.main import command
from ganexp.cli.train import train
said = []
for words in json.loads(sys.argv[1]):
    try:
        with process.ending():
            train(words[1:]) if words[0] == "train" else command(words)
        said.append("nothing is refused")
    except SystemExit as ended:
        said.append(str(ended))
    except ImportError as error:
        said.append(f"torch is imported: {error}")
print(json.dumps(said))
"""
TOO_LONG = "does not exist" if sys.version_info >= (3, 14) else "File name too long"
CASES = {
    "train hydra.run.dir=RUN": "holds a run already",
    "train hydra.run.dir=UNDER_A_FILE": "choose another hydra.run.dir",
    "train -m seed=0,1 hydra.sweep.dir=UNDER_A_FILE": "choose another hydra.sweep.dir",
    "train resume=EMPTY": "has no checkpoint",
    "evaluate RUN": "evaluation.json is there already",
    "evaluate RUN --overwrite --measure fidd": "fidd",
    "evaluate RUN --overwrite --measure kid kid.subset=3": "measure.kid.subset",
    "evaluate RUN --overwrite --protocol nobody": "nobody",
    "evaluate RUN --overwrite --samples 1": "evaluation.samples",
    "evaluate RUN --overwrite --device gpu": "device",
    "evaluate RUN --overwrite --features ./none.pt2": "--features ./none.pt2",
    "evaluate RUN --overwrite --features inceptionn": "inceptionn",
    "evaluate RUN --overwrite --set dataset.image_size=8": "--set",
    "evaluate nowhere": "nowhere does not exist",
    "evaluate RUN nowhere --overwrite": "nowhere does not exist",
    "evaluate EMPTY": "holds no run",
    "evaluate RUN --dataset digitz": "digitz",
    "evaluate RUN --dataset digits --set dataset.size=8": "dataset.size",
    "evaluate RUN --dataset digits --standing 3": "--standing",
    "evaluate nowhere --dataset digits": "nowhere does not exist",
    "evaluate EMPTY --dataset digits --measure fid,ssim": "--against",
    "evaluate EMPTY --against nowhere": "there is no folder nowhere",
    "evaluate EMPTY --against EMPTY --samples 3": "--samples does not go with",
    "evaluate nowhere --against EMPTY": "nowhere does not exist",
    "sample RUN": "grid_seed0.png is there already",
    "sample RUN --film": "walk_spherical_seed0.gif is there already",
    "sample RUN --film --seed 1 --n 7": "--tiles 16",
    "sample RUN --film --seed 1 --per-second 51": "--per-second",
    "sample RUN --film --output x.avi": "x.avi",
    "sample RUN --export": "generator.pt2 is there already",
    "sample RUN --save": "generator is there already",
    "sample RUN --images --format tar --indices 1": "--indices",
    "sample RUN --images --output FILE": "is a file",
    "sample RUN --frames 3": "--frames",
    "sample RUN --seed 1 --device tpu": "--device",
    "sample RUN --seed 1 --label 3": "--label chooses a class, and",
    "sample digits --label ten": "--label should be 0 to 9",
    "sample RUN --images --output UNDER_A_FILE": "cannot be written",
    "sample nowhere": "nowhere does not exist",
    "sample EMPTY": "has no checkpoint",
    "sample SWEEP": "is a sweep of 1 runs",
    "sample RUN --output UNDER_A_FILE": "cannot be written",
    "translate nowhere EMPTY --output new": "nowhere does not exist",
    "translate RUN nowhere --output new": "nowhere does not exist",
    "translate RUN EMPTY --output FILE": "is a file",
    "translate RUN EMPTY --output COMPARED": "--overwrite",
    "translate RUN EMPTY --output EMPTY": "--output",
    "translate RUN EMPTY --output new --size 1 2 3": "--size",
    "translate RUN EMPTY --output new --device tpu": "--device",
    "translate RUN EMPTY --output new --label 3": "--label chooses a class, and",
    "translate RUN EMPTY --output new --size 5000": "4096",
    f"translate RUN EMPTY --output {'x' * 256}": "File name too long",
    f"translate RUN {'x' * 256} --output new": TOO_LONG,
    f"sample {'x' * 256}": TOO_LONG,
    "translate EMPTY EMPTY --output new": "has no checkpoint",
    "push nowhere owner/name": "nowhere does not exist",
    "push EMPTY owner/name": "has no checkpoint",
    "push RUN name": "owner/name",
    "average RUN --width 0.3": "--width",
    "average nowhere --width 0.1": "nowhere does not exist",
    "average EMPTY --width 0.1": "has no checkpoint",
    "average RUN --width 0.1": "is there already",
    "average RUN --width 0.2 --iteration 3": "--iteration=3",
    "report nowhere": "nowhere holds no run",
    "report EMPTY": "holds no run",
    "report RUN nowhere": "Error: nowhere holds no run",
    "report RUN --output UNDER_A_FILE": "cannot be written",
    "dynamics EMPTY": "has no checkpoint",
    "dynamics nowhere": "nowhere does not exist",
    "dynamics RUN --rules detached": "detached",
    "compare --losses hing": "hing",
    "compare --output COMPARED": "holds a comparison",
    "features digitz": "digitz",
    "features ring": "dataset=ring has no labelled images",
    "features digits --device gpu": "--device",
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """What each command line is answered, all in one process."""
    place = tmp_path_factory.mktemp("places")
    for name in (
        "run/checkpoints/iteration_000000002.pt",
        "run/averages/width_0.1_iteration_000000002.pt",
        "sweep/0/config.json",
        "sweep/0/checkpoints/last.pt",
        "run/checkpoints/last.pt",
        "run/evaluation/evaluation.json",
        "run/metrics.jsonl",
        "compared/table.md",
        "file",
    ):
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).touch()
    for name in ("grid_seed0.png", "walk_spherical_seed0.gif", "generator.pt2", "generator/x"):
        (place / "run/generated" / name).parent.mkdir(parents=True, exist_ok=True)
        (place / "run/generated" / name).touch()
    (place / "empty").mkdir()
    (place / "run/config.json").write_text(json.dumps({"conditional": False}))
    there = {"RUN": "run", "EMPTY": "empty", "COMPARED": "compared", "FILE": "file", "SWEEP": "sweep", "UNDER_A_FILE": "file/x"}
    placed = {word: str(place / name) for word, name in there.items()}
    parts = [[word.rpartition("=") for word in one.split()] for one in CASES]
    typed = json.dumps([[f"{key}{sign}{placed.get(value, value)}" for key, sign, value in line] for line in parts])
    done = subprocess.run([sys.executable, "-c", CODE, typed], capture_output=True, text=True, check=True, cwd=place)
    return dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.parametrize("line", CASES)
def test_it_is_refused_without_torch(line, answers):
    assert answers[line].startswith("Error: ")
    assert CASES[line] in answers[line]


def test_a_typing_mistake_is_answered_without_numpy_and_pillow():
    blocked = "import sys; sys.modules.update(torch=None, numpy=None, PIL=None); from ganexp.cli.train import main; main()"
    done = subprocess.run([sys.executable, "-c", blocked, "los=hinge"], capture_output=True, text=True, check=False)
    assert done.stderr == "Error: Unknown key los. Did you mean loss?\n"
    assert done.returncode == 1
