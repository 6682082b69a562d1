"""Evaluate runs, checkpoints and sweeps against their data, or a folder of images against any data set.

    ganexp evaluate run=outputs/latest                              # as the run itself measures
    ganexp evaluate run=outputs/latest --weights best --measure fid kid --samples 50000
    ganexp evaluate outputs/2026-11-21_08-00-00_multirun --features inception
    ganexp evaluate path/to/images --dataset mnist --set dataset.image_size=28
    ganexp evaluate path/to/images --against path/to/targets --measure psnr ssim    # pairs of images with equal names
    torchrun --nproc_per_node=8 -m ganexp evaluate run=outputs/latest --device cuda    # each draws its share of the samples

It prints a table, and writes evaluation.json and evaluation.html, a page that needs no other file, with samples beside the
training images nearest to them. With the same settings and on the same device, the figures equal those in the run's last
row. Several runs are ranked by the first measure, the best first, if their data, features and number of samples are the
same; runs of a sweep are ranked by its sweep.metric, and those that differ only in the seed by their mean.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from ganexp.cli import shared_options as shared
from ganexp.cli.composing import compose
from ganexp.config.parsing import parse, refuse_mistakes
from ganexp.config.plain import evaluated, plain
from ganexp.config.schema import files_among, unknown_feature
from ganexp.documents import refuse_taken
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder

ASKED = ("features", "feature_weights", "samples", "of", "standing", "against", "device")
OF_PAIRS = ("psnr", "ssim", "lpips")
"""The measures of two folders; the first is taken where none is named."""
PUBLISHED = ("protocol", "features", "samples", "against")
"""What a protocol sets besides the measures."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "places",
        nargs="+",
        type=shared.place,
        help="runs, checkpoints, sweeps, or with --dataset or --against folders of images",
    )
    parser.add_argument("--weights", choices=["last", "best"], default="last", help="which checkpoint of a run")
    measured = parser.add_argument_group("how, as keys below evaluation; by default as the run says")
    measured.add_argument(
        "--measure",
        action="extend",
        nargs="+",
        metavar="NAME",
        help="[options of measure]; and settings, as in kid.subsets=50; the run's own by default",
    )
    measured.add_argument(
        "--config-dir", type=Path, help="YAML files of your own, as for training, with further measures; none by default"
    )
    measured.add_argument(
        "--protocol",
        metavar="NAME",
        help="how a publication evaluates, where nothing else is said: [options of evaluation.protocol]; none by default",
    )
    measured.add_argument(
        "--against",
        type=_against,
        metavar="{train,test,FOLDER}",
        help="the real samples that they are compared with, the run's own choice by default; or for folders of images a folder "
        "of what each image should be, under the same name",
    )
    measured.add_argument(
        "--features",
        action="extend",
        nargs="+",
        help="such as classifier, inception, dinov2_vitb14; a file is code and runs; the run's own by default",
    )
    measured.add_argument("--feature-weights", help="the folder with weights of DINOv2 and CLIP; the run's own by default")
    measured.add_argument("--samples", type=int, help="how many; the run's own number, and all of a folder, by default")
    measured.add_argument("--of", choices=["average", "generator"], help="whose samples; the run's own choice by default")
    measured.add_argument(
        "--standing",
        type=int,
        metavar="N",
        help="recompute batch norm's statistics from N batches first (standing statistics); the run's own number by default",
    )
    images = parser.add_argument_group("folders of images")
    images.add_argument("--dataset", help="what they are compared with, such as mnist; without it, the places are runs")
    images.add_argument(
        "--set",
        dest="overrides",
        action="extend",
        nargs="+",
        default=[],
        help="its settings, as in dataset.image_size=64; its own by default",
    )
    parser.add_argument(
        "--decode",
        help="decoder for runs on latents: a run, or a .pt2 file, which is code that is run; the run's own by default",
    )
    parser.add_argument(
        "--nearest", choices=["features", "pixels"], help="where distances to training images are measured; features by default"
    )
    parser.add_argument("--device", help="cpu, cuda or cuda:N; the run's own by default")
    shared.add(parser, "--trust")
    parser.add_argument(
        "--output",
        type=Path,
        help="the folder of the results; by default evaluation in the first run or sweep, or beside a lone checkpoint",
    )
    shared.add(parser, "--overwrite")


def _against(typed: str) -> Path | str:
    return typed if typed in ("train", "test") else Path(typed)


def refuse(options: Namespace) -> None:
    """Refuse results that exist already, settings that the schema refuses, and folders with nothing to measure."""
    if isinstance(options.against, Path):
        _two_folders(options)
    elif options.dataset and (of_pairs := {*",".join(options.measure or []).split(",")} & {*OF_PAIRS}):
        remedy = "say --against and the folder of these images in place of --dataset"
        raise UserError(f"--measure {min(of_pairs)} compares images with what each of them should be: {remedy}")
    for name in ("evaluation.json", "evaluation.html"):
        refuse_taken(output_of(options) / name, options.overwrite)
    if options.overrides and not options.dataset:
        raise UserError("--set goes with --dataset: a run says itself what its data are")
    if options.dataset and (options.weights != "last" or options.of or options.standing is not None):
        raise UserError("--weights, --of and --standing are for runs, and not for a folder of images")
    if options.features:
        if sentence := unknown_feature(options.features):
            raise UserError(sentence)
        for file in files_among(options.features):
            if not Path(file).expanduser().is_file():
                raise UserError(f"--features {file} is no file: name one that is there, or a network")
    asked = asked_of(options)
    if options.dataset:
        words = [f"dataset={options.dataset}", *options.overrides]
        parse(evaluated(plain(compose(*words, config_dir=options.config_dir)), asked))
    else:
        refuse_mistakes(evaluated({}, asked))
    for place in options.places:
        shared.refuse_missing(place)
    if not of_folders(options):
        checkpoints = [path for place in options.places for path in checkpoints_of(place, options.weights)]
        if not any(path.exists() for path in checkpoints):
            shared.refuse_missing(checkpoints[0])


def _two_folders(options: Namespace) -> None:
    """Refuse a second folder that is not there, and options that are for data sets and runs."""
    if not options.against.exists():
        raise UserError(f"--against should be train, test, or a folder of images, and there is no folder {options.against}")
    untouched = shared.defaults_of(add_arguments, "FOLDER")
    for key in ("dataset", "overrides", "weights", "protocol", "nearest", "decode", *ASKED):
        if key not in ("against", "device") and getattr(options, key) != untouched[key]:
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
    return shared.inside(first, "evaluation")


def asked_of(options: Namespace) -> dict[str, Any]:
    """Return the settings of the evaluation that replace a run's own; a setting of None keeps the run's."""
    asked = {key: getattr(options, key) for key in ASKED}
    if isinstance(options.against, Path):
        asked["against"] = None
    if not options.measure and not options.protocol:
        return asked
    names, settings = ([word for word in options.measure or () if ("=" in word) is sets] for sets in (False, True))
    words = [f"evaluation.protocol={options.protocol}"] if options.protocol else []
    words += [f"measure=[{','.join(names)}]"] if names or not options.protocol else []
    composed = plain(compose(*words, *(f"measure.{setting}" for setting in settings), config_dir=options.config_dir))
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
