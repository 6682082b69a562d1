"""`ganexp sample`: draw samples from a trained generator, or export it."""

import argparse
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tqdm import tqdm

from ganexp.batch import Batch
from ganexp.cli.commands.sample import READY, indices_of, result_of
from ganexp.cli.commands.sample.held_out import translated
from ganexp.cli.commands.sample.playing import ready
from ganexp.cli.launching import joined
from ganexp.cli.naming import short
from ganexp.cli.shared_options import refuse_absent
from ganexp.config.decoders import refuse_other_than_autoencoders, show_pictures
from ganexp.config.evaluation import labels_of
from ganexp.config.loading import load, load_discriminator, load_pair, set_of
from ganexp.data.feed import to_range
from ganexp.distributed.processes import Processes
from ganexp.documents import atomic_write
from ganexp.evaluation.evaluator import real_batches
from ganexp.evaluation.nearest import COMPARED, as_yardstick, nearest
from ganexp.facts import UserError
from ganexp.logging import reading
from ganexp.logging.layout import RunFolder
from ganexp.logging.pictures import MOST_ROWS, beside_the_nearest, classes_in_rows, image_grid, scatter, translations
from ganexp.printable import printable
from ganexp.sampling import Langevin, Rejection, Trained, exporting, saved
from ganexp.sampling.files import Series, write_npz, write_pngs, write_shards, write_tensors
from ganexp.sampling.films import frames_of, write_film
from ganexp.sampling.hub import is_on_hub


def run(options: argparse.Namespace) -> Path:
    """Draw, film, compare, export or save, as the options say, and return where the result lies."""
    with joined() as processes:
        options.processes = processes
        refuse_absent(options.device)
        if processes.count > 1 and options.task != "images":
            raise UserError("only --images is shared among several processes: start anything else without torchrun")
        if processes.count > 1 and ":" in options.device:
            raise UserError(f"--device {options.device} is one GPU, and processes have one each: say --device cuda")
        torch.backends.cudnn.allow_tf32 = False  # an index gives the same image everywhere, up to the last digits
        if options.enlarge is None:
            options.enlarge = 4 if options.run in READY else 1
        path, _ = result_of(options)  # before a generator to play with has its place in the cache folder
        if options.run in READY:
            options.run = processes.first(lambda: ready(options.run))
        generator = processes.together(lambda: _loaded(options))
        if generator.source_shape:
            _refuse_latents(options)
        TASKS[options.task](generator, options, path)
        processes.close()
        if processes.is_main:
            if isinstance(options.run, Path):
                print(_which_weights(options, generator))
            print(f"Written to {path}")
        return path


def grid(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Draw a grid of samples, with a row for each class if there are few classes; the last column is filled."""
    if generator.source_shape:
        drawn = translations(*translated(generator, **_which(options)), two_way=generator.is_two_way)
        return _save_picture(drawn, path, options.enlarge)
    images, names = len(generator.shape) == 3, generator.origin.class_names
    rows = generator.classes if 1 < generator.classes <= MOST_ROWS and options.label is None and not options.indices else 1
    n = (options.n or 8 * (rows if rows > 1 else 8)) if images else options.n or 1024
    n = rows * math.ceil(n / rows)
    indices = options.indices or range(options.first, options.first + n)
    samples = torch.cat([*generator.batches(indices, options.seed, batch_size=options.batch_size, **_how(options))])
    if not images:
        return _save_picture(scatter(None, samples), path)
    samples = generator.pictures(samples)
    if rows > 1 and names:
        print(f"Rows: {', '.join(printable(names[index % rows]) for index in indices[:rows])}")
    _save_picture(classes_in_rows(samples, rows) if rows > 1 else image_grid(samples), path, options.enlarge)


def images(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Write samples to files."""
    indices = indices_of(options)
    processes: Processes = options.processes
    silent = None if processes.count == 1 else True
    with tqdm(total=len(indices), unit="sample", disable=silent, leave=False) as bar:
        how = {"batch_size": options.batch_size, "advance": bar.update, "processes": processes, **_how(options)}
        series = Series(generator, options.seed, **how)
        if options.format == "npz":
            write_npz(series, indices, path, overwrite=options.overwrite)
            return
        files, whole = "images", len(indices)
        if options.format == "png":
            count = write_pngs(series, indices, path, overwrite=options.overwrite)
        else:
            assert isinstance(indices, range)
            files, whole = "shards", -(-whole // options.shard_size)
            count = write_shards(series, indices, path, shard_size=options.shard_size, overwrite=options.overwrite)
    if processes.is_main:
        print(f"{count} {files} written, {whole - count} were there already")


def film(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Walk from sample to sample through latent space."""
    frames = frames_of(
        generator,
        indices_of(options),
        options.frames,
        tiles=options.tiles,
        way=options.way,
        seed=options.seed,
        closed=not options.open,
        enlarge=options.enlarge,
        **_how(options),
    )
    write_film(tqdm(frames, unit="frame", disable=None, leave=False), path, per_second=options.per_second)


def neighbours(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Draw samples beside the training images that are nearest to them."""
    if len(generator.shape) != 3:
        raise UserError("nearest neighbours are drawn for images only")
    indices = indices_of(options)
    if generator.source_shape:
        samples = translated(generator, **_which(options) | {"indices": indices})[1].cpu()
    else:
        samples = torch.cat([*generator.batches(indices, options.seed, batch_size=options.batch_size, **_how(options))]).cpu()
    dataset, data = set_of(generator, trust=options.trust)
    samples = generator.pictures(samples.to(generator.device)).cpu()
    reals = real_batches(data, generator.device, samples.dtype, derive=dataset.derive)
    pictured = (generator.pictures(batch).cpu() for batch in reals)
    first = next(pictured)
    both = torch.cat([samples, first[:COMPARED]])
    found, images = nearest(both, itertools.chain([first], pictured), lambda batch: batch.flatten(1), max(2, options.nearest))
    distances, among = (found / samples[0].numel() ** 0.5).split([len(samples), len(both) - len(samples)])
    print("index  distance to the nearest, per pixel (root mean square, of a range of 2)")
    for index, distance in zip(indices, distances[:, 0].tolist(), strict=True):
        print(f"{index:5d}  {distance:.4f}")
    print(f"For comparison, training images and the nearest others: {as_yardstick(among)}.")
    _save_picture(beside_the_nearest(samples, images[: len(samples), : options.nearest]), path)


def latents(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Write what an autoencoder makes of the images that its run was trained on, with their labels, for dataset=latents."""
    refuse_other_than_autoencoders(generator, options.run)
    network: Any = generator.network.float()
    dataset, data = set_of(generator, trust=options.trust)
    parts = torch.arange(len(data)).split(options.batch_size)  # type: ignore[arg-type]  # those of `set_of` have a length
    encoded = []
    with torch.no_grad(), tqdm(total=len(parts), unit="batch", disable=None, leave=False) as bar:
        for part in parts:
            images = data[part] if isinstance(data, torch.Tensor) else torch.stack([data[int(i)] for i in part])
            batch = dataset.derive(Batch(to_range(images.to(generator.device), torch.float32)))
            encoded.append(network.latents(batch.values if batch.source is None else batch.source).cpu())
            bar.update()
    stored = {"latents": torch.cat(encoded).contiguous()} | ({"labels": labels_of(dataset)} if dataset.classes else {})
    write_tensors(stored, path)
    scale = 1 / float(stored["latents"].double().std())
    shape = "×".join(map(str, stored["latents"].shape))
    print(f"Latents of shape {shape}, with a standard deviation of {1 / scale:.4g}. To train on them, type:")
    # outputs/latest soon leads elsewhere
    decoder = options.run if is_on_hub(options.run) else short(Path(options.run).resolve())
    print(f"  dataset=latents dataset.path={path} dataset.decode={decoder} dataset.scale={scale:.4g}")


def export(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Write the network as TorchScript, torch.export or ONNX, checked against the generator."""
    if options.truncation is not None:
        generator = generator.truncated(options.truncation)
    if options.direction:
        generator = generator.one_way(options.direction)
    off = exporting.export(generator, options.form, path)
    given = "source" if generator.source_shape else "z"
    shape = ", ".join(map(str, generator.source_shape or (generator.latent_dim,)))
    called = f"network({given}, labels)" if generator.classes else f"network({given})"
    print(f"Called as {called}, {given} of shape (n, {shape}): at most {off:.2g} off the generator's samples")


def save(generator: Trained, options: argparse.Namespace, path: Path) -> None:
    """Write a folder to give away: weights as safetensors, settings as JSON, a model card."""
    how = {"trust": options.trust, "averaged": not options.plain_weights}
    discriminator = load_discriminator(options.run, **how) if options.with_discriminator else None
    saved.save(generator, path, discriminator=discriminator, overwrite=options.overwrite)
    print(f'In Python: ganexp.load("{path}"); choose a licence in {path / saved.CARD}')


def _loaded(options: argparse.Namespace) -> Trained:
    how = {"trust": options.trust, "device": options.device, "averaged": not options.plain_weights}
    how["standing"] = options.standing
    generator: Trained
    try:
        if options.method is None:
            generator = load(options.run, **how)
        elif options.method == "rejection":
            generator = Rejection(*load_pair(options.run, **how), percentile=options.percentile)
        else:
            generator = Langevin(*load_pair(options.run, **how), steps=options.steps, step_size=options.step_size)
    except ValueError as error:
        raise UserError(str(error)) from error
    if options.task not in ("export", "latents"):
        show_pictures(generator, options.decode, options.trust)
    return generator


def _which_weights(options: argparse.Namespace, generator: Trained) -> str:
    """Return a line that says which file was used, and whether its run has another."""
    at = f"iteration {generator.origin.iterations:,}"
    if reading.is_saved(options.run):
        return f"Weights of {options.run}, {at}."
    file = reading.checkpoint_at(options.run)
    best = RunFolder.of_checkpoint(file).best
    other = f"; the best one is {best}" if file.name != best.name and best.exists() else ""
    return f"Weights of {file}, {at}{other}."


def _refuse_latents(options: argparse.Namespace) -> None:
    """Refuse what has no meaning without latents: a translator's samples follow from its sources."""
    if options.task in INSTEAD:
        raise UserError(f"--{options.task} draws latents, and a translator has none: {INSTEAD[options.task]}")
    for option in ("seed", "label", "truncation"):
        if getattr(options, option):
            raise UserError(f"--{option} is about latents, and a translator is given sources: leave it out")


INSTEAD = {
    "images": "ganexp translate RUN FOLDER --output OUT writes what it makes of images",
    "film": "ganexp translate RUN FOLDER --output OUT translates the frames of a film",
}
"""What takes the place of a task, for a translator."""
TASKS = {task.__name__: task for task in (grid, images, film, neighbours, latents, export, save)}


def _how(options: argparse.Namespace) -> dict[str, Any]:
    return {"label": options.label, "truncation": options.truncation}


def _which(options: argparse.Namespace) -> dict[str, Any]:
    """Return which sources are translated, and how many at a time."""
    indices = indices_of(options) if options.indices or options.first or options.n else None
    return {"indices": indices, "trust": options.trust, "batch_size": options.batch_size}


def _save_picture(drawn: np.ndarray, path: Path, times: int = 1) -> None:
    """Write a picture `(H, W, 3)`, with a square of pixels in place of each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        Image.fromarray(drawn.repeat(times, 0).repeat(times, 1)).save(file, "PNG")
