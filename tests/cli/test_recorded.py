"""A run folder from anyone is resumed without running code that its overrides or its configuration name."""

import json
import shlex
import sys

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from ganexp.cli.ending import command_to_resume
from ganexp.cli.recorded import recorded_command
from ganexp.cli.resuming import expand_resume
from ganexp.cli.risky import refuse_risky
from ganexp.cli.sweeping import Sweep
from ganexp.config.schema import ConfigError


def run_folder(folder, lines):
    (folder / "checkpoints").mkdir(parents=True)
    (folder / "checkpoints" / "last.pt").touch()
    (folder / "command.json").write_text(json.dumps({"overrides": lines, "options": []}))
    return folder


RISKY = [
    "hydra.callbacks.x._target_=os.system",
    "+hydra.callbacks.x={_target_:os.system,command:'touch witness'}",
    "hydra={callbacks:{}}",
    "hydra.job_logging.handlers.file.class=evil.Handler",
    "hydra/launcher=../../evil",
    "hydra.launcher.setup=['touch witness']",
    "hydra.launcher._target_=os.system",
    "hydra.searchpath=[file:///evil]",
    "hydra.run.dir=/elsewhere",
    "experiment=../../evil",
    "+experiment=[hinge,../../evil]",
    "evaluation.features=evil.pt2",
    "evaluation.features=auto,evil.pt",
    "++evaluation={samples:9,features:'evil.pt'}",
    "+../../evil@x=y",
    "+loss@hydra.callbacks.x=hinge",
    "loss@_global_.hydra.callbacks.x=hinge",
    "--config-dir=/evil",
    "--multirun",
    "-cd=/evil",
    "",
    "no override",
    "a\nb",
]


@pytest.mark.parametrize("line", RISKY)
def test_an_override_that_could_run_code_is_refused_in_one_sentence(line):
    with pytest.raises(ConfigError, match=r"\Aresume=x: [^\n]*, which it has recorded, (could run code|is not an override)"):
        refuse_risky(["loss=hinge", line], "resume=x")


INTERPOLATED = [
    "+experiment=${oc.env:SECRET}",
    "dataset.path=${oc.env:SECRET}",
    "logger.wandb.notes='a ${oc.env:SECRET} b'",
    "logger.wandb.notes=$\\{oc.env:SECRET\\}",
    "logger.wandb.tags=[a,'${oc.env:SECRET}']",
    "+dataset.x={a:{b:${oc.env:SECRET}}}",
    "logger.wandb.name=a,${oc.env:SECRET}",
    "logger.wandb.name=choice(a,'${oc.env:SECRET}')",
]


@pytest.mark.parametrize("line", INTERPOLATED)
def test_what_is_recorded_is_not_interpolated(line):
    with pytest.raises(ConfigError, match=r"\Aresume=x: [^\n]*, which it has recorded, could read what it should not, by"):
        refuse_risky([line], "resume=x")


TEXTS = st.text("$\\{}:a'\", ", min_size=1)


@settings(deadline=None)
@given(TEXTS | TEXTS.map(lambda text: "'" + text.replace("'", "\\'") + "'"))  # few are valid without quotes
@example("$\\{oc.env:HOME}")
def test_what_is_not_refused_stays_as_it_was_written(text):
    """OmegaConf is the judge: it makes the same of the value with and without resolving it."""
    try:
        (parsed,) = OverridesParser.create().parse_overrides([f"logger.wandb.notes={text}"])
        refuse_risky([f"logger.wandb.notes={text}"], "resume=x")
    except (HydraException, ConfigError):
        reject()
    made = OmegaConf.create({"notes": repr(parsed.value()) if parsed.is_sweep_override() else parsed.value()})
    assert OmegaConf.to_container(made, resolve=True) == OmegaConf.to_container(made, resolve=False)


@pytest.mark.parametrize(
    "line",
    [
        "logger.wandb.directory=/elsewhere",
        "logger={wandb:{directory:/elsewhere}}",
        "+logger.mine.folder=elsewhere",
        "+logger.mine._target_=ganexp.logging.WandbLogger",
        "data_root=../sets",
        "+dataset.root=/elsewhere",
        "data_root=a,b",
    ],
)
def test_where_else_a_run_writes_is_not_taken_from_its_record(line, tmp_path, monkeypatch):
    folder = run_folder(tmp_path / "run", ["loss=hinge", line])
    with pytest.raises(ConfigError, match=r"which it has recorded, could write elsewhere: type it again, beside this"):
        expand_resume([f"resume={folder}"])
    assert line in expand_resume([f"resume={folder}", line])
    Sweep(("seed=0,1", line), ("seed",), (("seed=0",), ("seed=1",))).save(tmp_path)
    with pytest.raises(ConfigError, match=r"which it has recorded, could write elsewhere: type it again, beside this"):
        expand_resume([f"sweep.resume={tmp_path}"])
    assert line in expand_resume([f"sweep.resume={tmp_path}", line])
    Sweep((f"{line}2", "seed=0,1", line), ("seed",), (("seed=0",), ("seed=1",))).save(tmp_path)
    with pytest.raises(ConfigError, match=r"which it has recorded"):  # the other one would be merged with it
        expand_resume([f"sweep.resume={tmp_path}", line])
    monkeypatch.setattr(sys, "argv", ["train.py", "loss=hinge", line, "hydra.run.dir=/x", "evaluation.features=classifier"])
    assert shlex.split(command_to_resume("resume=run"))[2:] == ["resume=run", line]


def test_what_is_recorded_of_ganexps_own_keys_is_kept():
    refuse_risky(
        [
            *("loss=hinge", "+loss.gamma=0.3", "~discriminator.batch_norm", "dataset.path=../images", "seed=3", "average=none"),
            *("optimizer.betas=[0,0.9]", "dataset.path='a, b=c'", "evaluation.features=raw", "loss._target_=mine.Loss"),
            *("hydra/launcher=parallel", "hydra.launcher.n_jobs=-1", "hydra.launcher.partition=gpu"),
            *("seed=range(3)", "optimizer.lr=1e-4,2e-4", "logger.wandb.notes='what, and why'"),
        ],
        "resume=x",
    )


def test_what_is_recorded_for_hydra_is_left_out_and_what_is_typed_again_counts(tmp_path):
    folder = run_folder(tmp_path / "run", ["loss=hinge", "seed=1", "hydra.callbacks.x._target_=os.system", "trust=os"])
    line = expand_resume([f"resume={folder}", "seed=2", "hydra.verbose=true"])
    assert line == ["loss=hinge", "trust=[]", f"resume='{folder}/checkpoints/last.pt'", "seed=2", "hydra.verbose=true"]


def test_only_the_present_command_line_says_what_is_trusted(tmp_path):
    folder = run_folder(tmp_path / "run", ["loss._target_=os.system", "trust=os", "++trust=[os]"])
    assert expand_resume([f"resume={folder}"])[-2:-1] == ["trust=[]"]
    assert [one for one in expand_resume([f"resume={folder}", "trust=mine"]) if "trust" in one] == ["trust=mine"]


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "3",
        "",
        "\x00",
        '{"overrides": ["loss=hinge"]}',
        '{"overrides": "loss=hinge", "options": []}',
        '{"overrides": ["loss=hinge", 3], "options": []}',
        '{"overrides": [["loss=hinge"]], "options": []}',
        '{"overrides": [], "options": {}}',
        "[" * 100_000,
    ],
)
def test_a_broken_record_is_one_sentence(text, tmp_path):
    (tmp_path / "command.json").write_text(text)
    with pytest.raises(ConfigError, match=r"\Aresume=x: its command line is not in [^\n]+command\.json\.\Z"):
        recorded_command(tmp_path, "resume=x")
