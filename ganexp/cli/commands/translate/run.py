"""`ganexp translate`: give image files to a translator as sources, and write what it makes of them."""

import argparse
from pathlib import Path
from typing import Any

from tqdm import tqdm

from ganexp.cli.shared_options import refuse_absent
from ganexp.config.loading import load
from ganexp.data.headers import is_double
from ganexp.data.unscaled import Pictures
from ganexp.facts import UserError
from ganexp.sampling.translating import translate


def run(options: argparse.Namespace) -> Path:
    """Translate, and return the folder of the results."""
    refuse_absent(options.device)
    trained = load(options.run, trust=options.trust, device=options.device, averaged=not options.plain_weights)
    if not trained.source_shape:
        raise UserError(f"{options.run} holds a generator of latents, and no translator: ganexp sample draws its samples")
    if trained.is_two_way:
        trained = trained.one_way(options.direction or "a_to_b")
    elif options.direction:
        raise UserError("--direction is for generator=two_way, and this translator has one direction: leave it out")
    channels, *sides = trained.source_shape
    if len(sides) != 2 or channels not in (1, 3):
        raise UserError(f"sources have the shape {trained.source_shape}, which no image file has: call ganexp.load(…) on them")
    if trained.classes and options.label is None:
        raise UserError(f"the translator is conditioned on {trained.classes} classes: say which with --label")
    size = (options.size * 2)[:2] if options.size else None
    recorded, *_ = trained.source_ranges or (None,)
    pictures = Pictures(options.folder, channels, size, options.range or recorded, options.half)
    of_halves = halves_of(trained.origin.dataset)
    if (
        of_halves
        and not options.half
        and (double := sum(is_double(header, (sides[0], sides[1])) for header in pictures.headers.values()))
    ):
        print(
            f"{double} of {len(pictures.headers)} images looked at have the proportions of pictures with both halves, and are "
            f"translated as a whole: say --half {of_halves} to translate the half that was the source in training"
        )
    with tqdm(total=len(pictures.files), unit="image", disable=None, leave=False) as bar:
        how = {"label": options.label, "batch_size": options.batch_size, "advance": bar.update}
        written, padded = translate(trained, pictures, options.output, **how)
    folder: Path = options.output
    print(f"{written} images written to {folder}{f'; skipped: {pictures.others}' * bool(pictures.others)}")
    if padded:
        taken = f"that {trained.sides_divisible_by} divides, {max(trained.smallest_side, trained.sides_divisible_by)} or more"
        print(
            f"{padded} had sides that the network does not take ({taken}): they were padded at the right and bottom, and "
            "the results cropped"
        )
    pictures.refuse_lost()
    return folder


def halves_of(dataset: dict[str, Any]) -> str | None:
    """Return which half of a picture was the source, by the configuration of the data; None if sources were no halves."""
    while isinstance(dataset.get("of"), dict):
        dataset = dataset["of"]
    half = dataset.get("half") if dataset.get("path", "") is not None else None  # a path is not published
    return half if half in ("left", "right") else None
