"""`ganexp sample`: draw samples from a trained generator, or pass it on."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tqdm import tqdm

from ganexp.cli.arguments import parser
from ganexp.cli.state import state
from ganexp.config.loading import data_of, load, load_discriminator, load_pair
from ganexp.distributed.joining import join
from ganexp.distributed.processes import Processes
from ganexp.documents import atomic_write, refuse_links_out, refuse_outside
from ganexp.evaluation.evaluator import real_batches
from ganexp.evaluation.nearest import nearest
from ganexp.logging.layout import RunFolder
from ganexp.logging.pictures import beside_the_nearest, image_grid, scatter
from ganexp.sampling import Langevin, Rejection, SamplingError, Trained, exporting, saved
from ganexp.sampling.files import Series, refuse_place, write_npz, write_pngs, write_shards
from ganexp.sampling.films import frames_of, write_film

MOST_COLUMNS = 16
SAMPLED = ("--grid", "--images", "--film", "--neighbours")
GOES_WITH: dict[str, Sequence[str]] = {
    **dict.fromkeys(("n", "seed", "first", "indices", "label"), SAMPLED),
    "truncation": (*SAMPLED, "--export"),
    **dict.fromkeys(("format", "shard_size"), ("--images",)),
    **dict.fromkeys(("movie", "way", "frames", "tiles", "per_second", "enlarge", "open"), ("--film",)),
    "batch_size": ("--grid", "--images", "--neighbours"),
    "nearest": ("--neighbours",),
    "form": ("--export",),
    "with_discriminator": ("--save",),
    "method": ("--grid", "--images", "--neighbours"),
    "percentile": ("--method rejection",),
    **dict.fromkeys(("steps", "step_size"), ("--method langevin",)),
}
"""Options that some tasks or methods alone take: with any other they would say nothing."""


def main(options: argparse.Namespace) -> Path:
    """Draw, film, compare, export or save, as the options say, and return where the result lies."""
    processes = state.processes = options.processes = join()
    if not re.fullmatch(r"cpu|cuda(:\d+)?", options.device):
        raise SamplingError(f"--device should be cpu, cuda or cuda:N, not {options.device}")
    if options.device != "cpu" and int(options.device[5:] or 0) >= torch.cuda.device_count():
        raise SamplingError(f"there is no GPU for --device {options.device}")
    if processes.count > 1 and options.task != "images":
        raise SamplingError("only --images is shared among several processes: start anything else without torchrun")
    if processes.count > 1 and ":" in options.device:
        raise SamplingError(f"--device {options.device} is one GPU, and processes have one each: say --device cuda")
    untouched, chosen = parser().parse_args(["sample", "RUN"]), {f"--{options.task}", f"--method {options.method}"}
    for option, needed in GOES_WITH.items():
        if getattr(options, option) != getattr(untouched, option) and chosen.isdisjoint(needed):
            raise SamplingError(f"--{option.replace('_', '-')} goes with {' or '.join(needed)}")
    torch.backends.cudnn.allow_tf32 = False  # an index gives the same image everywhere, up to the last digits
    generator = processes.together(lambda: _loaded(options))
    written = TASKS[options.task](generator, options)
    processes.close()
    if processes.writes:
        print(f"Written to {written}")
    return written


def grid(generator: Trained, options: argparse.Namespace) -> Path:
    """Draw a grid of samples, with one column per class if there are few classes."""
    path = _place(options, "grid", ".png", options.indices)
    columns = generator.classes if 1 < generator.classes <= MOST_COLUMNS else 8
    n = 1024 if len(generator.shape) == 1 else columns * 8
    samples = torch.cat(
        [*generator.batches(_indices(options, n), options.seed, batch_size=options.batch_size, **_how(options))]
    )
    drawn = image_grid(samples, columns=columns) if samples.dim() == 4 else scatter(None, samples)
    return _save_picture(drawn, path)


def images(generator: Trained, options: argparse.Namespace) -> Path:
    """Write samples to files."""
    indices = _indices(options, 1000)
    suffix = ".npz" if options.format == "npz" else ""
    name = "samples" if options.format == "png" else f"samples_{options.format}"
    if options.format != "png" and isinstance(indices, range):
        name += f"_{indices.start}-{indices.stop}"
    path = _place(options, name, suffix, options.indices if suffix else None)
    processes: Processes = options.processes
    silent = None if processes.count == 1 else True
    with tqdm(total=len(indices), unit="sample", disable=silent, leave=False) as bar:
        how = {"batch_size": options.batch_size, "advance": bar.update, "processes": processes, **_how(options)}
        series = Series(generator, options.seed, **how)
        if options.format == "npz":
            write_npz(series, indices, path, overwrite=options.overwrite)
            return path
        files, whole = "images", len(indices)
        if options.format == "png":
            count = write_pngs(series, indices, path, overwrite=options.overwrite)
        elif isinstance(indices, range):
            files, whole = "shards", -(-whole // options.shard_size)
            count = write_shards(series, indices, path, shard_size=options.shard_size, overwrite=options.overwrite)
        else:
            raise SamplingError("--indices does not go with --format tar: choose png or npz")
    if processes.writes:
        print(f"{count} {files} written, {whole - count} were there already")
    return path


def film(generator: Trained, options: argparse.Namespace) -> Path:
    """Walk from sample to sample through latent space."""
    path = _place(options, f"walk_{options.way}", f".{options.movie}", options.indices)
    frames = frames_of(
        generator,
        _indices(options, 4 * options.tiles),
        options.frames,
        tiles=options.tiles,
        way=options.way,
        seed=options.seed,
        closed=not options.open,
        enlarge=options.enlarge,
        **_how(options),
    )
    write_film(tqdm(frames, unit="frame", disable=None, leave=False), path, per_second=options.per_second)
    return path


def neighbours(generator: Trained, options: argparse.Namespace) -> Path:
    """Draw samples beside the training images that are nearest to them."""
    path = _place(options, "neighbours", ".png", options.indices)
    if len(generator.shape) != 3:
        raise SamplingError("nearest neighbours are drawn for images only")
    indices = _indices(options, 8)
    samples = torch.cat([*generator.batches(indices, options.seed, batch_size=options.batch_size, **_how(options))]).cpu()
    reals = real_batches(data_of(generator, trust=options.trust), dtype=samples.dtype)
    distances, found = nearest(samples, reals, lambda images: images.flatten(1), options.nearest)
    pixels = samples[0].numel() ** 0.5
    print("index  distance to the nearest, per pixel (root mean square, of a range of 2)")
    for index, distance in zip(indices, distances[:, 0].tolist(), strict=True):
        print(f"{index:5d}  {distance / pixels:.4f}")
    return _save_picture(beside_the_nearest(samples, found), path)


def export(generator: Trained, options: argparse.Namespace) -> Path:
    """Write the network as TorchScript, torch.export or ONNX, checked against the generator."""
    truncated = "" if options.truncation is None else f"_truncation{options.truncation}"
    path = options.output or _generated(options.run) / f"generator{truncated}{exporting.SUFFIXES[options.form]}"
    refuse_place(path, options.overwrite)
    if options.truncation is not None:
        generator = generator.truncated(options.truncation)
    off = exporting.export(generator, options.form, path)
    called = "network(z, labels)" if generator.classes else "network(z)"
    print(f"Called as {called}, z of shape (n, {generator.latent_dim}): at most {off:.2g} off the generator's samples")
    return path


def save(generator: Trained, options: argparse.Namespace) -> Path:
    """Write a folder to give away: weights as safetensors, settings as JSON, a model card."""
    folder = options.output or _generated(options.run) / "generator"
    if folder.exists() and not options.overwrite:
        raise SamplingError(f"{folder} is there already: add --overwrite to write there, or name another place with --output")
    how = {"trust": options.trust, "averaged": not options.plain_weights}
    discriminator = load_discriminator(options.run, **how) if options.with_discriminator else None
    written = saved.save(generator, folder, discriminator=discriminator, overwrite=options.overwrite)
    print(f'In Python: ganexp.load("{written}"); choose a licence in {written / saved.CARD}')
    return written


def _loaded(options: argparse.Namespace) -> Trained:
    how = {"trust": options.trust, "device": options.device, "averaged": not options.plain_weights}
    how["standing"] = options.standing
    if options.method is None:
        return load(options.run, **how)
    try:
        if options.method == "rejection":
            return Rejection(*load_pair(options.run, **how), percentile=options.percentile)
        return Langevin(*load_pair(options.run, **how), steps=options.steps, step_size=options.step_size)
    except ValueError as error:
        raise SamplingError(str(error)) from error


TASKS = {task.__name__: task for task in (grid, images, film, neighbours, export, save)}


def _indices(options: argparse.Namespace, n: int) -> Sequence[int]:
    return options.indices or range(options.first, options.first + (options.n or n))


def _how(options: argparse.Namespace) -> dict[str, Any]:
    return {"label": options.label, "truncation": options.truncation}


def _place(options: argparse.Namespace, name: str, suffix: str, indices: Sequence[int] | None = None) -> Path:
    """Return the path for a result, and refuse a file that exists unless it may be overwritten."""
    told = {"": options.method, "seed": options.seed, "label": options.label, "truncation": options.truncation}
    told["standing"] = options.standing or None
    if options.method == "rejection":
        told["percentile"] = options.percentile
    if options.method == "langevin":
        told |= {"steps": options.steps, "size": options.step_size}
    if indices:
        told["indices"] = "-".join(map(str, indices[:8])) + "…" * (len(indices) > 8)
    elif options.first and suffix:
        told["first"] = options.first
    named = "_".join([name, *(f"{key}{value}" for key, value in told.items() if value is not None)])
    path: Path = options.output or _generated(options.run) / f"{named}{suffix}"
    if suffix:
        refuse_place(path, options.overwrite)
    return path


def _generated(run: Path | str) -> Path:
    """Return the folder of results: beside the run, or in the current folder for a generator on a hub."""
    if isinstance(run, str):
        return Path("generated")
    own = run if run.is_dir() else RunFolder.beside(run)
    refuse_outside(own / "generated", own)
    refuse_links_out(own / "generated")
    return own / "generated"


def _save_picture(drawn: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        Image.fromarray(drawn).save(file, "PNG")
    return path
