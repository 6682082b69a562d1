"""Checks of a command's options against each other and the file system, before torch is imported."""

import os
import re
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ganexp.cli.arguments import parser
from ganexp.cli.composing import compose
from ganexp.cli.ready import CLASSES, READY
from ganexp.config.defaults import option_files
from ganexp.config.parsing import parse
from ganexp.config.plain import evaluated, plain
from ganexp.config.schema import files_among, unknown_feature
from ganexp.documents import refuse_links_out, refuse_outside, refuse_taken, refuse_unwritable
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder

SAMPLED = ("--grid", "--images", "--film", "--neighbours")
GOES_WITH: dict[str, Sequence[str]] = {
    **dict.fromkeys(("n", "seed", "first", "indices", "label"), SAMPLED),
    "truncation": (*SAMPLED, "--export"),
    **dict.fromkeys(("format", "shard_size"), ("--images",)),
    **dict.fromkeys(("movie", "way", "frames", "tiles", "per_second", "open"), ("--film",)),
    "enlarge": ("--grid", "--film"),
    "batch_size": ("--grid", "--images", "--neighbours", "--latents"),
    "decode": (*SAMPLED, "--save"),
    "nearest": ("--neighbours",),
    **dict.fromkeys(("form", "direction"), ("--export",)),
    "with_discriminator": ("--save",),
    "method": ("--grid", "--images", "--neighbours"),
    "percentile": ("--method rejection",),
    **dict.fromkeys(("steps", "step_size"), ("--method langevin",)),
}
"""Options of `ganexp sample` that only some tasks or methods take; with any other they would have no effect."""
SUFFIXES = {"torchscript": ".ts", "torch_export": ".pt2", "onnx": ".onnx"}
"""The suffix of an exported file, by its form; torch.export.load wants .pt2."""
ASKED = ("features", "feature_weights", "samples", "of", "standing", "against", "device")
OF_PAIRS = ("psnr", "ssim", "lpips")
"""The measures of two folders; the first is taken where none is named."""
PUBLISHED = ("protocol", "features", "samples", "against")
"""What a protocol sets besides the measures."""
LARGEST_SIDE = 4096
"""As for `dataset.image_size`."""
NARROWEST, WIDEST = 1e-6, 0.28
"""Bounds of widths, as for `average.width`."""
POINTS = ("ring", "grid")
"""The data sets that are points; those of unlabelled images are refused when torch is there."""
NO_IMAGES = "dataset={} has no labelled images: choose one that has, such as mnist."


def refuse(options: Namespace) -> None:
    """Refuse a command line whose mistake shows in its options or on the disk; with several processes, the first one checks.

    Raises:
        UserError, OSError: It cannot be done.
    """
    if os.environ.get("RANK", "0") in ("0", "") and options.command in REFUSALS:
        REFUSALS[options.command](options)


def evaluate(options: Namespace) -> None:
    """Refuse results that exist already, settings that the schema refuses, and folders with nothing to measure."""
    if isinstance(options.against, Path):
        _two_folders(options)
    elif options.dataset and (named := [one for one in ",".join(options.measure or []).split(",") if one in OF_PAIRS]):
        remedy = "say --against and the folder of these images in place of --dataset"
        raise UserError(f"--measure {named[0]} compares images with what each of them should be: {remedy}")
    for name in ("evaluation.json", "evaluation.html"):
        refuse_taken(output_of(options) / name, options.overwrite)
    if options.overrides and not options.dataset:
        raise UserError("--set goes with --dataset: a run says itself what its data are")
    if options.dataset and (options.weights != "last" or options.of or options.standing is not None):
        raise UserError("--weights, --of and --standing are for runs, and not for a folder of images")
    if said := unknown_feature(options.features or []):
        raise UserError(said)
    for one in files_among(options.features or []):
        if not Path(one).expanduser().is_file():
            raise UserError(f"--features {one} is no file: name one that is there, or a network")
    asked = asked_of(options)
    if of_folders(options) or any(value is not None for value in asked.values()):
        words = [f"dataset={options.dataset}", *options.overrides] if options.dataset else []
        parse(evaluated(plain(compose(*words, config_dir=options.config_dir)), asked))
    found = options.places
    if not of_folders(options):
        found = [path for place in options.places for path in checkpoints_of(place, options.weights)]
    for place in options.places:
        _refuse_missing(place)
    if not any(path.exists() for path in found):
        _refuse_missing(found[0])


def _two_folders(options: Namespace) -> None:
    """Refuse a second folder that is not there, and options that are for data sets and runs."""
    if not options.against.exists():
        raise UserError(f"--against should be train, test, or a folder of images, and there is no folder {options.against}")
    untouched = parser().parse_args(["evaluate", "FOLDER"])
    for key in ("dataset", "overrides", "weights", "protocol", "nearest", "decode", *ASKED):
        if key not in ("against", "device") and getattr(options, key) != getattr(untouched, key):
            option = {"overrides": "set"}.get(key, key).replace("_", "-")
            raise UserError(f"--{option} does not go with --against and a folder: its images are compared by their names")


def of_folders(options: Namespace) -> bool:
    """Return whether folders of images are evaluated, and not runs."""
    return bool(options.dataset) or isinstance(options.against, Path)


def output_of(options: Namespace) -> Path:
    """Return the folder of an evaluation's results."""
    first: Path = options.places[0]
    if options.output:
        folder: Path = options.output
        return folder
    if of_folders(options):
        return first.resolve().parent / f"{first.resolve().name}_evaluation"
    return _inside(first, "evaluation")


def asked_of(options: Namespace) -> dict[str, Any]:
    """Return the settings of the evaluation that replace a run's own; a setting of None keeps the run's."""
    asked = {key: getattr(options, key) for key in ASKED}
    if isinstance(options.against, Path):
        asked["against"] = None
    if not options.measure and not options.protocol:
        return asked
    names, settings = ([one for one in options.measure or () if ("=" in one) is such] for such in (False, True))
    words = [f"evaluation.protocol={options.protocol}"] if options.protocol else []
    words += [f"measure=[{','.join(names)}]"] if names or not options.protocol else []
    composed = plain(compose(*words, *(f"measure.{one}" for one in settings), config_dir=options.config_dir))
    published = {key: composed["evaluation"][key] for key in PUBLISHED} if options.protocol else {}
    typed = {key: value for key, value in asked.items() if value is not None}
    return {**asked, **published, **typed, "measure": composed["measure"]}


def checkpoints_of(place: Path, weights: str) -> list[Path]:
    """Return the checkpoints of a run or of a sweep's runs, whether or not they exist; a file is returned as it is."""
    if not place.is_dir():
        return [place]
    runs = reading.find(place)
    if not runs and not RunFolder(place).last.exists():
        raise UserError(f"{place} holds no run; name a run, a checkpoint or a sweep, or say --dataset for a folder of images")
    return [getattr(RunFolder(run), weights) for run in runs or [place]]


def sample(options: Namespace) -> None:
    """Refuse options that exclude each other, films that cannot be made, and results that exist already."""
    _refuse_device(options.device, "cpu")
    _refuse_without_checkpoint(options.run)
    _refuse_label(options.run, options.label)
    untouched, chosen = parser().parse_args(["sample", "RUN"]), {f"--{options.task}", f"--method {options.method}"}
    for option, needed in GOES_WITH.items():
        if getattr(options, option) != getattr(untouched, option) and chosen.isdisjoint(needed):
            raise UserError(f"--{option.replace('_', '-')} goes with {' or '.join(needed)}")
    if options.indices and (options.n or options.first):
        raise UserError("--indices says which samples are drawn: leave out --n and --first")
    if options.indices and (options.task, options.format) == ("images", "tar"):
        raise UserError("--indices does not go with --format tar: choose png or npz")
    if options.task == "film":
        _film(options)
    place, is_folder = result_of(options)
    suffix = {"grid": ".png", "neighbours": ".png", "images": ".npz", "latents": ".safetensors"}.get(options.task)
    if not is_folder:
        refuse_taken(place, options.overwrite)
        if suffix and place.suffix != suffix:
            raise UserError(f"--output {place} should end in {suffix}, which is what is written")
    elif place.exists() and not place.is_dir():
        raise UserError(f"{place} is a file: name a folder with --output")
    elif options.task == "save" and place.exists() and not options.overwrite:
        raise UserError(f"{place} is there already: add --overwrite to write there, or name another place with --output")
    else:
        refuse_unwritable(place / "sample.png")


def _film(options: Namespace) -> None:
    stops, (path, _) = len(indices_of(options)), result_of(options)
    if stops < 2 * options.tiles or stops % options.tiles:
        raise UserError(f"a walk of --tiles {options.tiles} needs 2 or more samples for each of them, not {stops} in all")
    if options.per_second > 50:
        raise UserError(f"--per-second should be 1 to 50, not {options.per_second}")
    if path.suffix not in (".gif", ".mp4"):
        raise UserError(f"{path.name} should end in .gif or .mp4")
    if path.suffix == ".mp4" and find_spec("av") is None:
        raise UserError("an .mp4 needs PyAV, which is not installed: pip install av, or write a .gif")


def indices_of(options: Namespace) -> Sequence[int]:
    """Return the indices of the samples that a task draws; of a grid, as if it had eight columns."""
    n = {"images": 1000, "film": 4 * options.tiles, "neighbours": 8}.get(options.task, 64)
    return options.indices or range(options.first, options.first + (options.n or n))


def result_of(options: Namespace) -> tuple[Path, bool]:
    """Return where the result of `ganexp sample` lies, and whether it is a folder."""
    place = Path("generated") if isinstance(options.run, str) else _inside(options.run, "generated")
    if options.task == "latents":
        return options.output or place / "latents.safetensors", False
    if options.task in ("export", "save"):
        truncated = "" if options.truncation is None else f"_truncation{options.truncation}"
        named = "generator" + (f"{truncated}{SUFFIXES[options.form]}" if options.task == "export" else "")
        return options.output or place / named, options.task == "save"
    name, suffix = options.task, ".png"
    if options.task == "film":
        name, suffix = f"walk_{options.way}", f".{options.movie}"
    elif options.task == "images":
        suffix = ".npz" if options.format == "npz" else ""
        name = "samples" if options.format == "png" else f"samples_{options.format}"
        indices = indices_of(options)
        if options.format != "png" and isinstance(indices, range):
            name += f"_{indices.start}-{indices.stop}"
    told = {"": options.method, "seed": options.seed, "label": _in_a_name(options.label), "truncation": options.truncation}
    told["standing"] = options.standing or None
    if options.method == "rejection":
        told["percentile"] = options.percentile
    if options.method == "langevin":
        told |= {"steps": options.steps, "size": options.step_size}
    if options.indices and suffix:
        told["indices"] = "-".join(map(str, options.indices[:8])) + "…" * (len(options.indices) > 8)
    elif options.first and suffix:
        told["first"] = options.first
    named = "_".join([name, *(f"{key}{value}" for key, value in told.items() if value is not None)])
    return options.output or place / f"{named}{suffix}", not suffix


def _in_a_name(label: str | None) -> str | None:
    """Return a label as a part of a file's name."""
    return label and re.sub(r"[^\w.+-]", "_", label)[:100]


def _inside(run: Path, name: str) -> Path:
    """Return a folder for results in a run folder; refuse a link in it that leads out of the run folder."""
    beside = run if run.is_dir() else RunFolder.beside(run)
    refuse_outside(beside / name, beside)
    refuse_links_out(beside / name)
    return beside / name


def translate(options: Namespace) -> None:
    """Refuse a run or pictures that do not exist, and a folder of results that holds something or lies among the pictures."""
    _refuse_device(options.device, "cpu")
    _refuse_without_checkpoint(options.run)
    _refuse_label(options.run, options.label)
    source, output = options.folder, options.output
    if not source.exists():
        raise UserError(f"{source} does not exist: name a folder of images")
    if len(options.size or ()) > 2:
        raise UserError("--size is one number, or height and width")
    if max(options.size or [0]) > LARGEST_SIDE:
        raise UserError(f"--size should be at most {LARGEST_SIDE}, as for training, not {max(options.size)}")
    if options.range and not options.range[0] < options.range[1]:
        raise UserError("--range is black and then white, which is the greater of the two")
    if output.exists() and not output.is_dir():
        raise UserError(f"{output} is a file: name a folder with --output")
    if output.resolve().is_relative_to(source.resolve()):
        raise UserError(f"--output {output} lies in {source}, whose images are read: name a folder outside of it")
    if output.exists() and any(output.iterdir()) and not options.overwrite:
        raise UserError(
            f"{output} holds something already: add --overwrite to write there, or name another folder with --output"
        )
    refuse_unwritable(output / "picture.png")


def push(options: Namespace) -> None:
    """Refuse a run without a checkpoint, and a repository that is not `owner/name`."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", options.repo.removeprefix("hf://")):
        raise UserError(f"{options.repo} should be owner/name, as the hub calls a repository")
    _refuse_without_checkpoint(options.run)


def average(options: Namespace) -> None:
    """Refuse widths outside the range of averages, averages that are there already, and a run that has none to make."""
    for width in options.width:
        if not NARROWEST <= width < WIDEST:
            raise UserError(f"--width should be at least {NARROWEST:g} and below {WIDEST:g}, not {width:g}")
    _refuse_missing(options.run)
    reading.checkpoint_at(options.run)  # which refuses sweeps
    for width in options.width:
        *_, place = average_of(options, width)
        if place.exists() and not options.overwrite:
            raise UserError(f"{place} is there already: add --overwrite to replace it")


def average_of(options: Namespace, width: float) -> tuple[list[Path], int, Path]:
    """Return the checkpoints that an average of a width is made from, its last iteration, and the place where it is written."""
    folder = RunFolder(options.run)
    paths = [one for one in folder.numbered if options.iteration is None or iteration_of(one) <= options.iteration]
    if not paths:
        upto = "" if options.iteration is None else f" at or before iteration {options.iteration}"
        raise UserError(f"{folder.path} has no checkpoint{upto}: train with a keep_checkpoints that keeps all of them")
    iteration = options.iteration or iteration_of(paths[-1])
    if iteration > (end := iteration_of(folder.numbered[-1])):
        raise UserError(f"--iteration={iteration} lies beyond the run's last checkpoint, at {end}: lower it")
    refuse_outside(folder.averages, folder.path)
    return paths, iteration, folder.averages / f"width_{width:g}_iteration_{iteration:09d}.pt"


def iteration_of(checkpoint: Path) -> int:
    """Return the iteration that the name of a numbered checkpoint tells."""
    return int(checkpoint.stem.removeprefix("iteration_"))


def report(options: Namespace) -> None:
    """Refuse folders that are not there, or of which none holds a run, and a page that cannot be written."""
    missing = [folder for folder in options.folders if not folder.exists()]
    if missing or not any(reading.find(Path(os.path.realpath(folder))) for folder in options.folders):
        named = ", ".join(map(str, missing or options.folders))
        raise UserError(f"{named} holds no run; name a run's folder or a sweep's below outputs/.")
    refuse_unwritable(options.output or options.folders[0] / "report.html")


def dynamics(options: Namespace) -> None:
    """Refuse a run that has nothing to look at, unknown strategies, and a page that cannot be written."""
    _refuse_missing(options.run)
    reading.checkpoint_at(options.run)  # which refuses sweeps
    _refuse_unknown("--rules", options.rules, "strategy")
    if not RunFolder(options.run).numbered and not any(map(has_spectrum, reading.read(options.run).rows)):
        raise UserError(f"{options.run} has no checkpoint: name a run that has, or train with dynamics.every=500")
    refuse_unwritable(options.output or options.run.resolve() / "dynamics.html")


def has_spectrum(row: Mapping[str, Any]) -> bool:
    """Return whether a row of a run has the eigenvalues of its game."""
    return "dynamics/real_1" in row


def compare(options: Namespace) -> None:
    """Refuse unknown losses, and a folder that already holds a comparison."""
    _refuse_unknown("--losses", options.losses or [], "loss")
    for key, option in (("loss", "--losses"), ("strategy", "--strategies")):
        if any(word.lstrip("+").startswith(f"{key}=") for word in options.overrides or []):
            raise UserError(f"{option} says what is compared, and --overrides has {key}=: leave that out")
    if options.output:
        if (options.output / "table.md").exists():
            raise UserError(f"--output={options.output} holds a comparison already: choose another folder.")
        refuse_unwritable(options.output / "table.md")


def features(options: Namespace) -> None:
    """Refuse an invalid device, and settings that the data set does not have."""
    _refuse_device(options.device, "auto, cpu")
    if options.dataset in POINTS:
        raise UserError(NO_IMAGES.format(options.dataset))
    compose(f"dataset={options.dataset}", *options.overrides)


def watch(options: Namespace) -> None:
    """Refuse a script that is not there, and a picture that cannot be written."""
    if not options.script.is_file():
        raise UserError(f"{options.script} is no file: name a Python script that trains")
    if options.picture:
        if options.picture.suffix != ".png":
            raise UserError(f"--picture {options.picture} should end in .png")
        refuse_unwritable(options.picture)


def _refuse_missing(place: Path | str) -> None:
    if isinstance(place, Path) and not place.exists():
        raise UserError(f"{place} does not exist: name a run folder below outputs/, or a checkpoint")


def _refuse_without_checkpoint(place: Path | str) -> None:
    """Refuse a place that holds neither a checkpoint nor a saved generator; those of the hub are asked for later."""
    _refuse_missing(place)
    if isinstance(place, Path) and not reading.is_saved(place) and not reading.checkpoint_at(place).exists():
        raise UserError(f"{place} has no checkpoint: name a run that has, its file, or a saved generator")


def _refuse_label(place: Path | str, label: str | None) -> None:
    """Refuse a class of a run without classes, and one that is no digit before digits are trained; others are asked later."""
    if label is None:
        return
    if place in READY and label not in map(str, range(CLASSES)):
        raise UserError(f"--label should be 0 to {CLASSES - 1}, the digit to draw, not {label}")
    if isinstance(place, Path) and reading.read_document(RunFolder(place).config).get("conditional") is False:
        raise UserError(f"--label chooses a class, and {place} has none: leave it out, or train with conditional=true")


def _refuse_unknown(option: str, names: Sequence[str], group: str) -> None:
    """Refuse names of which a group has no file; names from plugins are checked later, when Hydra composes."""
    known = option_files(group)
    for name in names:
        if name not in known:
            raise UserError(f"{option} {name} is unknown: choose from {', '.join(sorted(known))}")


def _refuse_device(device: str, others: str) -> None:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device) and device not in others.split(", "):
        raise UserError(f"--device should be {others}, cuda or cuda:N, not {device}")


REFUSALS: dict[str, Callable[[Namespace], None]] = {
    one.__name__: one for one in (evaluate, sample, translate, push, average, report, dynamics, compare, features, watch)
}
