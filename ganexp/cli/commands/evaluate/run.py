"""`ganexp evaluate`: measure generated samples, print a table, and write it as JSON and as a page."""

import argparse
import json
import re
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from ganexp.cli.commands.evaluate import ASKED, OF_PAIRS, asked_of, checkpoints_of, of_folders, output_of, tables
from ganexp.cli.commands.evaluate.page import NearestImages, page
from ganexp.cli.commands.evaluate.tables import Entry, Order
from ganexp.cli.composing import compose
from ganexp.cli.launching import is_distributed, joined
from ganexp.cli.pages import headings
from ganexp.cli.sweeping import Results, Sweep
from ganexp.config.after_training import config_of, data_to_evaluate, evaluate_checkpoint, evaluate_images, evaluate_pairs
from ganexp.config.assemble import dataset_of
from ganexp.config.choices import choose
from ganexp.config.parsing import parse
from ganexp.config.plain import evaluated, flat, plain
from ganexp.config.run_data import RunData
from ganexp.config.schema import Config
from ganexp.data.unscaled import images_in
from ganexp.distributed.group import FailedElsewhere
from ganexp.distributed.processes import Processes
from ganexp.documents import write_text
from ganexp.evaluation.nearest import COMPARED, as_yardstick, nearest
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder

PICTURED = 24
"""The page has pictures of at most this many sets of samples."""
ROWS, NEAREST = 8, 6
"""How many samples are shown beside their nearest training images, and how many of these images each sample has."""


def run(options: argparse.Namespace) -> Path:
    """Measure, print a table, and write two files; return the path of the page."""
    output = output_of(options)
    with joined() if is_distributed() else nullcontext(Processes()) as processes:
        folders = of_folders(options)
        if processes.count > 1 and folders:
            raise UserError("folders of images are evaluated by one process: start it without torchrun")
        entries = _of_images(options) if folders else _of_runs(options, processes)
        processes.close()
    if not processes.is_main:
        return output / "evaluation.html"
    if not any(entry.result for entry in entries):
        several = f"none of {len(entries)} can be evaluated; {entries[0].name}: " if len(entries) > 1 else ""
        raise UserError(several + entries[0].problem)
    order = Order(entries)
    if len(entries) > 1:
        sweep = Sweep.find(options.places[0]) if len(options.places) == 1 else None
        order = tables.ranked(entries, *((sweep.metric, sweep.direction) if sweep else ()))
    print(tables.terminal(order, shutil.get_terminal_size((80, 24)).columns), end="\n\n")
    runs = [] if folders else [reading.read(RunFolder.of_checkpoint(entry.path.resolve()).path) for entry in entries]
    place = options.places[0].resolve().name if len(options.places) == 1 else f"{len(entries)} evaluations"
    title = headings.heading(runs, place) if runs else place
    written = page(title, order, _nearest_to(order.entries, options.nearest), headings.section(runs))
    document = {"date": f"{datetime.now():%Y-%m-%d %H:%M:%S}", **tables.document(order)}
    for name, text in {"json": json.dumps(document, indent=2, allow_nan=False), "html": written}.items():
        write_text(output / f"evaluation.{name}", text)
    print(f"Written to {output / 'evaluation.html'} and evaluation.json")
    return output / "evaluation.html"


def _of_runs(options: argparse.Namespace, processes: Processes) -> list[Entry]:
    """Evaluate checkpoints, runs and sweeps; data and features that several runs share are loaded once.

    Several processes evaluate each checkpoint together, and a failure in one is a failure in all.
    """
    checkpoints = [path for place in options.places for path in checkpoints_of(place, options.weights)]
    alone = len(options.places) == 1
    jobs = {path: job for place in options.places if Sweep.is_in(place) for path, job in _jobs(place, alone=alone).items()}
    of_sweeps = [jobs.get(RunFolder.of_checkpoint(path).path, ("", "")) for path in checkpoints]
    asked = asked_of(options)
    loaded: dict[str, RunData] = {}
    entries = []
    for path, name, (combination, seed) in zip(checkpoints, _names(checkpoints, of_sweeps), of_sweeps, strict=True):
        entry = Entry(name, path, combination=combination, seed=seed)
        try:
            config, state = processes.together(partial(config_of, path, asked, trust=options.trust, decode=options.decode))
            data = [config.dataset, config.conditional, _seed_of_data(config)]
            how = [config.measure, config.evaluation.model_dump(), config.precision, config.device]
            shared = json.dumps([data, how])
            if shared not in loaded:
                loaded[shared] = processes.together(partial(data_to_evaluate, config, processes))
            entry.data = loaded[shared]
            shown = partial(tqdm, desc=name, unit="batch", delay=2, mininterval=2, disable=not processes.is_main)
            entry.result = evaluate_checkpoint(entry.data, path, config, state, trust=options.trust, shown=shown)
        except (UserError, FailedElsewhere) as error:
            entry.problem = _as_options(error)
        entries.append(entry)
    return entries


def _seed_of_data(config: Config) -> int | None:
    """Return the seed that data may have been drawn with; None for ganexp's own data sets, which draw with their own."""
    targets = [str(value) for key, value in flat({"dataset": config.dataset}) if key.endswith("_target_")]
    return None if all(target.startswith("ganexp.") for target in targets) else config.seed


def _of_images(options: argparse.Namespace) -> list[Entry]:
    """Evaluate folders of images, each against the same data set, or against the images of its names in another folder."""
    words = [f"dataset={options.dataset}", *options.overrides] if options.dataset else [f"measure=[{OF_PAIRS[0]}]"]
    values = plain(compose(*words, config_dir=options.config_dir))
    asked = asked_of(options)
    entries = [Entry(str(place), place) for place in options.places]
    if not options.dataset:
        config = parse(evaluated(values, asked))
        for entry in entries:
            try:
                entry.result = evaluate_pairs(config, entry.path, options.against)
            except UserError as error:
                entry.problem = str(error).rstrip(".")
        return entries
    config = parse(values)
    dataset = dataset_of(choose("dataset", config.dataset), config.seed)
    if not dataset.bounded:
        raise UserError(f"--dataset {options.dataset} has latents, and folders hold images: name the set of the images")
    shape = dataset.shape
    for entry in entries:
        try:
            try:
                images: Any = images_in(entry.path, shape, options.samples, dataset)
            except (ValueError, OSError) as error:
                raise UserError(str(error).removeprefix("path should be ")) from None
            config = parse(evaluated(values, asked | {"samples": len(images)}))
            entry.data = data_to_evaluate(config, dataset=dataset)
            entry.result = evaluate_images(entry.data, config, images)
        except UserError as error:
            entry.problem = _as_options(error)
    return entries


def _as_options(error: Exception) -> str:
    """Return what an error says, with settings of `evaluation` as options of this command."""
    options = {key: f"--{key.replace('_', '-')}" for key in ASKED}
    setting = re.compile(r"\bevaluation\.(\w+)=")
    return setting.sub(lambda match: f"{options[match[1]]} " if match[1] in options else match[0], str(error)).rstrip(".")


def _jobs(place: Path, *, alone: bool) -> dict[Path, tuple[str, str]]:
    """Return the combination and the seed of each job of a sweep, by its folder; empty if its record is broken.

    Beside other places, a combination is one of its sweep: equal names in two sweeps need not be equal settings.
    """
    if not Sweep.find(place):
        return {}
    results = Results.read(place)
    return {
        run.folder: (name if alone else f"{place}: {name}", results.settings(run).get("seed", ""))
        for run, name in zip(results.jobs.values(), results.combinations, strict=True)
        if run.state != "missing"
    }


def _names(checkpoints: Sequence[Path], of_sweeps: Sequence[tuple[str, str]]) -> list[str]:
    """Return the shortest names that tell the runs apart: what differs in a sweep, the names of folders, or those of files."""
    differing = [f"{combination} seed={seed}" if seed else combination for combination, seed in of_sweeps]
    runs = [RunFolder.of_checkpoint(path.resolve()).path.name for path in checkpoints]
    with_files = [f"{run}/{path.stem}" for run, path in zip(runs, checkpoints, strict=True)]
    of_one_run = [path.stem for path in checkpoints] if len({*runs}) == 1 else []
    widths = [name.partition("_iteration_")[0] for name in of_one_run]  # of averages at the same iteration
    for names in (differing, runs, widths, of_one_run, with_files):
        if names and all(names) and len({*names}) == len(names):
            return names
    return [f"{number}: {path}" for number, path in enumerate(checkpoints)]


def _nearest_to(entries: Sequence[Entry], space: str | None) -> list[NearestImages | None]:
    """Find the real samples that are shown beside each entry's samples; data that several entries share are read once."""
    pictured = [entry for entry in entries if entry.result][:PICTURED]
    by_name: dict[str, NearestImages] = {}
    for data in {id(entry.data): entry.data for entry in pictured if entry.data}.values():
        own = [entry for entry in pictured if entry.data is data]
        if len(data.dataset.shape) != 3:
            by_name |= {entry.name: NearestImages(next(data.pictured()).cpu()) for entry in own}
        else:
            by_name |= _nearest_images(own, data, space)
    return [by_name.get(entry.name) for entry in entries]


def _nearest_images(entries: Sequence[Entry], data: RunData, space: str | None) -> dict[str, NearestImages]:
    assert data.evaluation
    samples = [entry.result.samples[:ROWS] for entry in entries if entry.result]
    features = data.evaluation.evaluator.features

    def mapped(images: Tensor) -> Tensor:
        return images.flatten(1) if space == "pixels" else features(images)[0]

    named = f"features of {features.name} {features.checksum}".strip()
    in_pixels = space == "pixels" or features.name == "raw"
    pixel = samples[0][0].numel() ** 0.5 if in_pixels else 1
    where = "pixels (root mean square, of a range of 2)" if in_pixels else named
    reals = next(data.pictured())[:COMPARED].to(samples[0])
    distances, images = nearest(torch.cat([*samples, reals]), data.pictured(), mapped, NEAREST)
    counts = [*map(len, samples), len(reals)]
    *apart, among = (distances / pixel).split(counts)
    parts = zip(entries, apart, images.split(counts)[:-1], strict=True)
    return {entry.name: NearestImages(own, near, where, as_yardstick(among)) for entry, near, own in parts}
