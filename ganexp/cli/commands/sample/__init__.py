"""Draw samples from a trained generator, as a grid, as files or as a film, or export it.

    ganexp sample digits                                            # of a small generator, trained once on first use
    ganexp sample outputs/latest                                    # a grid of 64
    ganexp sample outputs/latest --enlarge 4                        # the same, four times as large
    ganexp sample outputs/latest --images --n 1000 --seed 1         # PNG files; run again, it continues where it ended
    ganexp sample outputs/latest --images --n 50000 --format npz    # or tar, in shards
    torchrun --nproc_per_node=8 -m -- ganexp sample outputs/latest --images --n 50000 --device cuda
    ganexp sample outputs/latest --method rejection --percentile 80  # by what the discriminator takes for real
    ganexp sample outputs/latest --film --tiles 16 --truncation 1
    ganexp sample outputs/latest --neighbours --n 8                 # beside the training images nearest to them
    ganexp sample outputs/autoencoder --latents --output latents.safetensors
    ganexp sample outputs/latest --export --form onnx               # or torchscript, torch_export
    ganexp sample outputs/latest --save --output shared/digits      # weights, settings and a model card
    ganexp sample hf://owner/name --output samples.png              # from the Hugging Face Hub

A run is a run folder, a checkpoint or a saved generator; digits and mnist are generators to play with, trained in one to
three minutes, kept in the cache folder, and shown four times as large. Of a translator, a grid shows held-out sources, what
it makes of them, and targets; ganexp translate gives it images of your own. The same seed and index give the same sample,
however many are drawn. Results are written to generated/ beside the run unless --output names a place; existing files are
replaced only with --overwrite.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_taken, refuse_unwritable
from ganexp.facts import UserError

TASKS = {
    "grid": "draw a grid of samples, with a row for each class if there are few; --n is rounded up to full columns",
    "images": "write samples to files",
    "film": "walk from sample to sample through latent space",
    "neighbours": "draw samples beside the training images that are nearest to them",
    "latents": "write what an autoencoder makes of the images of its run, for dataset=latents",
    "export": "write the network as TorchScript, torch.export or ONNX, checked against the generator",
    "save": "write a folder to give away: weights as safetensors, settings as JSON, a model card",
}
"""What `ganexp sample` does, by the name of the function that does it."""
SMALL = (
    *("dataset.image_size=16", "conditional=true", "generator=mlp", "discriminator=mlp", "penalty=[r1]", "penalty.r1.weight=1"),
    *("batch_size=64", "latent_dim=32", "iterations=6000", "checkpoint_every=6000", "keep_checkpoints=1", "sample_every=0"),
    *("logger=[]", "device=cpu", "threads=1", "log_every=1000"),
)
"""Settings of generators to play with, which are trained once, on first use, and kept in the cache folder."""
CLASSES = 10
READY = {name: (f"dataset={name}", *SMALL) for name in ("digits", "mnist")}
"""The command line that trains each; weights of G take less than a megabyte."""
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


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=_generator,
        help="a run folder, a checkpoint, a saved generator, hf://owner/name, digits or mnist; run=… is the same",
    )
    tasks = parser.add_mutually_exclusive_group()
    for task, meaning in TASKS.items():
        tasks.add_argument(f"--{task}", dest="task", action="store_const", const=task, default="grid", help=meaning)
    which = parser.add_argument_group("which samples")
    which.add_argument(
        "--n",
        type=shared.positive,
        help="how many; by default 64 in a grid, or 8 of each class, 1000 as files, 4 per tile of a film, 8 neighbours",
    )
    which.add_argument("--seed", type=shared.integer, default=0, help="of the latents")
    which.add_argument("--first", type=shared.integer, default=0, help="index of the first one")
    which.add_argument(
        "--indices", type=shared.integer, action="extend", nargs="+", help="these, instead of --n and --first; none by default"
    )
    which.add_argument("--label", help="the class of all, by number or name; classes take turns by default")
    which.add_argument(
        "--truncation", type=shared.finite, help="bound of latents, or ψ of StyleGAN2: more typical samples; none by default"
    )
    shared.add(which, "--plain-weights")
    which.add_argument(
        "--standing",
        type=shared.positive,
        default=0,
        metavar="N",
        help="recompute batch norm's statistics from N batches first (standing statistics), or 0 to keep those of training",
    )
    guided = parser.add_argument_group("by the discriminator")
    guided.add_argument(
        "--method", choices=["rejection", "langevin"], help="choose latents by D's scores; by default all are taken as drawn"
    )
    guided.add_argument(
        "--percentile", type=shared.finite, help="for rejection: a value such as 80 accepts more; exact by default"
    )
    guided.add_argument("--steps", type=shared.positive, default=100, help="for langevin: number of steps")
    guided.add_argument("--step-size", type=shared.rate, default=0.01, help="for langevin: size of a step")
    parser.add_argument("--with-discriminator", action="store_true", help="--save the discriminator too")
    parser.add_argument(
        "--form", choices=["torchscript", "torch_export", "onnx"], default="torch_export", help="what --export writes"
    )
    parser.add_argument("--direction", choices=["a_to_b", "b_to_a"], help="of an export of generator=two_way; both by default")
    files = parser.add_argument_group("images")
    files.add_argument(
        "--format", choices=["png", "npz", "tar"], default="png", help="files of one image, one array, or shards"
    )
    files.add_argument("--shard-size", type=shared.positive, default=10_000, help="samples in a tar file")
    films = parser.add_argument_group("film")
    films.add_argument("--movie", choices=["gif", "mp4"], default="gif", help="the kind of file")
    films.add_argument("--way", choices=["spherical", "linear"], default="spherical", help="how latents are interpolated")
    films.add_argument("--frames", type=shared.positive, default=16, help="from one sample to the next")
    films.add_argument("--tiles", type=shared.positive, default=16, help="walks beside each other")
    films.add_argument("--per-second", type=shared.positive, default=20, help="frames in a second")
    films.add_argument("--open", action="store_true", help="end at the last sample; where it began by default")
    parser.add_argument(
        "--decode",
        help="decoder for a generator of latents: a run, or a .pt2 file, which is code that is run; its own by default",
    )
    parser.add_argument(
        "--enlarge",
        type=shared.positive,
        help="pixels along the side of each pixel of a grid or a film, for small images; by default 1, or 4 for digits and "
        "other names",
    )
    parser.add_argument("--nearest", type=shared.positive, default=7, help="neighbours of each sample")
    parser.add_argument("--batch-size", type=shared.positive, default=256, help="samples that are drawn at once")
    shared.add(parser, "--device", "--trust")
    parser.add_argument("--output", type=Path, help="the file or folder of the result; in generated/ beside the run by default")
    shared.add(parser, "--overwrite")


def _generator(typed: str) -> Path | str:
    return typed if typed in READY and not Path(typed).exists() else shared.place_or_repository(typed)


def refuse(options: Namespace) -> None:
    """Refuse options that exclude each other, films that cannot be made, and results that exist already."""
    shared.refuse_device(options.device)
    shared.refuse_without_checkpoint(options.run)
    shared.refuse_label(options.run, options.label)
    if options.run in READY and options.label not in (None, *map(str, range(CLASSES))):
        raise UserError(f"--label should be 0 to {CLASSES - 1}, the digit to draw, not {options.label}")
    untouched, chosen = shared.defaults_of(add_arguments, "RUN"), {f"--{options.task}", f"--method {options.method}"}
    for option, needed in GOES_WITH.items():
        if getattr(options, option) != untouched[option] and chosen.isdisjoint(needed):
            raise UserError(f"--{option.replace('_', '-')} goes with {' or '.join(needed)}")
    if options.indices and (options.n or options.first):
        raise UserError("--indices says which samples are drawn: leave out --n and --first")
    if options.indices and (options.task, options.format) == ("images", "tar"):
        raise UserError("--indices does not go with --format tar: choose png or npz")
    if options.task == "film":
        _film(options)
    place, suffix = result_of(options)
    if suffix:
        refuse_taken(place, options.overwrite)
        if options.task not in ("film", "export") and place.suffix != suffix:
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


def result_of(options: Namespace) -> tuple[Path, str]:
    """Return where the result of `ganexp sample` lies, and the suffix that its name should have; empty for a folder."""
    folder = Path("generated") if isinstance(options.run, str) else shared.inside(options.run, "generated")
    indices, truncated = indices_of(options), "" if options.truncation is None else f"_truncation{options.truncation}"
    those = f"_{indices.start}-{indices.stop}" if isinstance(indices, range) else ""
    files = {"png": ("samples", ""), "npz": (f"samples_npz{those}", ".npz"), "tar": (f"samples_tar{those}", "")}
    name, suffix = {
        "images": files[options.format],
        "film": (f"walk_{options.way}", f".{options.movie}"),
        "latents": ("latents", ".safetensors"),
        "export": (f"generator{truncated}", SUFFIXES[options.form]),
        "save": ("generator", ""),
    }.get(options.task, (options.task, ".png"))
    if f"--{options.task}" in SAMPLED:
        label = options.label and re.sub(r"[^\w.+-]", "_", options.label)[:100]
        settings = {"": options.method, "seed": options.seed, "label": label, "truncation": options.truncation}
        settings |= {"standing": options.standing or None, "percentile": options.percentile}
        if options.method == "langevin":
            settings |= {"steps": options.steps, "size": options.step_size}
        if options.indices and suffix:
            settings["indices"] = "-".join(map(str, options.indices[:8])) + "…" * (len(options.indices) > 8)
        elif options.first and suffix:
            settings["first"] = options.first
        name = "_".join([name, *(f"{key}{value}" for key, value in settings.items() if value is not None)])
    return options.output or folder / f"{name}{suffix}", suffix
