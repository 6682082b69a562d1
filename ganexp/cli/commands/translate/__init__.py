"""Translate every image in a folder, and write what becomes of each under its name.

    ganexp translate outputs/latest path/to/edges --output translated
    ganexp translate outputs/latest horses --output zebras                        # of two directions, from set A to set B
    ganexp translate outputs/latest zebras --output horses --direction b_to_a
    ganexp translate outputs/latest photos --output painted --size 256            # resized and cropped, as in training
    ganexp translate outputs/latest facades/test --output made --half right       # of pictures that hold both halves

The run's data gave its generator sources, and the images are such sources: edges for a run that has learnt from edges,
small images for one that makes them larger. They are read as dataset=image_folder reads images (colour or grey as in
training, 16 bits or floats with the black and white of training, transparency over white, turned as EXIF says), in a folder
or zip archive, at any depth, and stay in their own size. U-Nets take sides that 2^depth divides, resnet_translator those
that 4 divides: other images are padded at the right and bottom, and the results cropped. The result of a/b.jpg is a/b.png.
Images without a result are named with the reason, and the command then ends with 1.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from ganexp.cli import shared_options as shared
from ganexp.documents import refuse_unwritable
from ganexp.facts import UserError

LARGEST_SIDE = 4096
"""As for `dataset.image_size`."""


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "run",
        type=shared.place_or_repository,
        help="a run folder, a checkpoint, a saved generator or hf://owner/name; run=… is the same",
    )
    parser.add_argument("folder", type=Path, help="a folder or zip archive of images")
    parser.add_argument("--output", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--direction", choices=["a_to_b", "b_to_a"], help="of generator=two_way; a_to_b by default")
    parser.add_argument(
        "--size",
        type=shared.positive,
        action="extend",
        nargs="+",
        help="side, or height and width, that images are resized and cropped to; their own by default",
    )
    parser.add_argument(
        "--half",
        choices=["left", "right"],
        help="the half of each image that is the source, where a picture holds both; by default it is the whole image",
    )
    parser.add_argument(
        "--range",
        type=shared.finite,
        nargs=2,
        metavar=("BLACK", "WHITE"),
        help="of images of more than eight bits; by default those of the run's sources, or else found over all images",
    )
    parser.add_argument("--label", help="the class of all, by number or name, which a conditional translator needs")
    shared.add(parser, "--plain-weights")
    parser.add_argument("--batch-size", type=shared.positive, default=16, help="images of one size that are translated at once")
    shared.add(parser, "--device", "--trust")
    parser.add_argument("--overwrite", action="store_true", help="write into a folder that holds something already")


def refuse(options: Namespace) -> None:
    """Refuse a run or pictures that do not exist, and a folder of results that holds something or lies among the pictures."""
    shared.refuse_device(options.device)
    shared.refuse_without_checkpoint(options.run)
    shared.refuse_label(options.run, options.label)
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
