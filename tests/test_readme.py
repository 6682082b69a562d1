"""What the README and the pages in docs/ say can be typed can be, and what they link to exists."""

import functools
import inspect
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import torch
import yaml
from hydra.core.override_parser.overrides_parser import OverridesParser
from safetensors.torch import save_file

from ganexp import GAN, strategies
from ganexp.cli.main import parsed
from ganexp.cli.options import options as described
from ganexp.cli.options import primary
from ganexp.config.check import check
from ganexp.config.plain import flat
from ganexp.config.schema import LISTS, Config, keys_of
from tests.composing import CONF, composed, options, settled

ROOT = CONF.parent
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
README = PAGES["README.md"]
GROUPS = primary([CONF]).groups


def blocks(language, page=README):
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def table(page, heading):
    """Return the rows of a table, by the headings of its first columns."""
    (body,) = re.findall(rf"^\| {re.escape(heading)} \|.*\n\| --- .*\n((?:\|.*\n)+)", PAGES[page], re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in body.splitlines()]


def spans(text):
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", text)


def lines(command):
    """Return the lines of shell blocks that contain a command, without their comments."""
    typed = [line for page in PAGES.values() for line in "".join(blocks("bash", page)).splitlines()]
    return [line.split("  #")[0] for line in typed if command in line]


def anchors(page):
    """Return what links into a page may end with."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", page, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_an_entrance():
    assert len(README.splitlines()) <= 150
    for name in PAGES:
        assert name == "README.md" or f"({name})" in README, name


def test_the_verbs_that_strategies_use_are_listed_with_their_arguments():
    said = "".join(path.read_text() for path in Path(strategies.__file__).parent.glob("*.py"))
    used = {name for name in re.findall(r"\bgan\.(\w+)\(", said) if inspect.isfunction(getattr(GAN, name, None))}
    listed = [spans(row[0])[0] for row in table("docs/library.md", "verb")]
    assert used <= {verb.partition("(")[0] for verb in listed}
    for verb in listed:
        name, _, arguments = verb.removesuffix(")").partition("(")
        assert ", ".join([*inspect.signature(getattr(GAN, name)).parameters][1:]) == arguments, verb


@functools.cache
def known_keys():
    return frozenset(_known_keys())


def _known_keys():
    yield from Config.model_fields
    yield from (key for key, _ in keys_of())
    yield from ("experiment", "hydra/launcher", "hydra/sweeper")
    yield from (f"hydra.launcher.{key}" for option in described("hydra/launcher", [CONF]) for key, _ in flat(option.node))
    yield from (f"hydra.sweeper.{key}" for option in described("hydra/sweeper", [CONF]) for key, _ in flat(option.node))
    for group in GROUPS:
        yield from (f"{group}.{key}" for option in described(group, [CONF]) for key, _ in flat(option.node))
    yield from (f"dataset.of.{key}" for option in described("dataset", [CONF]) for key, _ in flat(option.node))


@pytest.mark.parametrize("name", [name for name in PAGES if name not in ("docs/claims.md", "docs/development.md")])
def test_settings_in_the_text_have_keys_that_exist(name):
    text = re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL)
    known = known_keys()
    for span in spans(text):
        if re.fullmatch(r"([a-z][\w./]*=[^ =()]*( |$))+", span):
            for setting in span.split():
                key, _, value = setting.partition("=")
                assert key in known, f"{span} in {name}"
                chosen = value.strip("[]").split(",") if key in LISTS else [value]
                assert key not in GROUPS or chosen == [""] or {*chosen} <= {*options(key)}, f"{span} in {name}"


def first_value(override):
    """Return an override with the first value of its list, range or interval."""
    if override.is_interval_sweep():
        return f"{override.get_key_element()}={override.value().start}"
    if override.is_sweep_override():
        return f"{override.get_key_element()}={next(override.sweep_string_iterator())}"
    return override.input_line


def typed():
    """Return each command of `train.py` once, whatever stands before it and however it is spaced; CI tries those of docs/."""
    found = {line.split("train.py ")[1].strip(): line for line in lines("train.py ")}
    kept = [line for line in found.values() if "--config-dir" not in line and "-sc" not in line]
    return [line if line in README else pytest.param(line, marks=pytest.mark.slow) for line in kept]


@pytest.mark.parametrize("line", typed())
def test_every_command_composes_and_fits(line, tmp_path):
    arguments = [
        one
        for one in shlex.split(line.split("train.py ")[1])
        if one not in ("-m", "device=cuda")
        and not one.startswith(("hydra", "sweep.resume=", "resume=", "init_from=", "dataset.decode="))
    ]
    first = [first_value(one) for one in OverridesParser.create().parse_overrides(arguments)]
    for name in ("train-000.tar", "trainA/a.png", "trainB/b.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    save_file({"latents": torch.zeros(20, 4, 8, 8), "labels": torch.arange(20) % 10}, tmp_path / "latents.safetensors")
    first = [one.replace("=latents.safetensors", f"={tmp_path}/latents.safetensors") for one in first]
    if "dataset=stacked_mnist" in first:  # whose modes are counted by a classifier
        first = [argument.replace("[modes]", "[fid]") for argument in first]
    if any("fid" in argument for argument in first):  # in the features of a classifier, which is not trained here
        first.append("evaluation.features=raw")
    place = tmp_path
    if {"evaluation.against=test", "dataset=image_folder"} <= {*first}:
        place = tmp_path / "split"
        for part in ("train", "test"):
            (place / part).mkdir(parents=True)
            (place / part / "a.png").touch()
    check(settled(*[re.sub(r"/path/to/\w+", str(place), argument) for argument in first]))


def test_every_script_has_the_options_it_is_called_with():
    inline = [span for page in PAGES.values() for span in spans(page) if span.startswith("python scripts/")]
    for line in lines("python scripts/") + inline:
        script, *arguments = shlex.split(line.split("python ")[1])
        source = (ROOT / script).read_text()
        for argument in arguments:
            assert not argument.startswith("--") or f'"{argument}"' in source, line


def test_every_command_of_ganexp_takes_what_it_is_called_with():
    inline = [span for page in PAGES.values() for span in spans(page) if re.match(r"ganexp \w+ ", span)]
    called = re.compile(r"(?:torchrun .*-m (?:-- )?)?ganexp (.*)")
    typed = [found[1] for line in lines("ganexp ") + inline if (found := called.match(line))]
    assert len(typed) > 10
    for line in typed:
        if not line.startswith("train "):
            parsed(shlex.split(line))


def test_every_extra_exists():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for page in PAGES.values():
        assert set(re.findall(r'pip install -e "\.\[(\w+)\]"', page)) <= set(extras)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for target in re.findall(r"\]\(([^)]+)\)", PAGES[name]):
        if target.startswith("https://"):
            continue
        path, _, anchor = target.partition("#")
        place = (ROOT / name).parent / path if path else ROOT / name
        assert place.exists(), target
        assert not anchor or anchor in anchors(place.read_text()), target


def test_the_tree_is_the_tree():
    folder, told = Path(), set()
    (tree,) = blocks("text", PAGES["docs/development.md"])
    for line in tree.splitlines():
        name = line.split()[0]
        folder = folder if line.startswith(" ") else Path()
        told.add(str(folder / name))
        assert (ROOT / folder / name).exists(), line
        if line.strip() in ("ganexp/", "scripts/"):
            folder = Path(name)
    for path in (ROOT / "ganexp").iterdir():
        if path.name not in ("__init__.py", "__main__.py", "__pycache__", "conf", "py.typed"):
            assert f"ganexp/{path.name}" in told, path.name
    for path in (ROOT / "scripts").glob("*.py"):
        assert f"scripts/{path.name}" in told, path.name


def test_the_command_of_a_sweep_by_wandb_is_one_that_train_py_takes():
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    (text,) = re.findall(r"```yaml\n(# sweep\.yaml.*?)```", PAGES["docs/sweeps.md"], re.DOTALL)
    sweep = yaml.safe_load(text)
    chosen = {"optimizer.lr": 1e-05, "loss.gamma": 0.3}
    assert chosen.keys() == sweep["parameters"].keys()
    passed = create_sweep_command_args({"args": {key: {"value": value} for key, value in chosen.items()}})["args_no_hyphens"]
    start = sweep["command"].index("${program}") + 1
    assert sweep["command"][:start] == ["${env}", "python", "${program}"]
    words = [word for one in sweep["command"][start:] for word in (passed if one == "${args_no_hyphens}" else [one])]
    cfg = composed(*words)
    assert (cfg.optimizer.lr, cfg.loss.gamma, cfg.loss.name) == (1e-05, 0.3, "began")
