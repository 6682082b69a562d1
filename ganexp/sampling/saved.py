"""A generator in a folder to publish: weights as safetensors, settings as JSON, and a model card."""

import math
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from safetensors.torch import load_file
from safetensors.torch import save as to_bytes
from torch import Tensor, nn

from ganexp.documents import atomic_write, write_document
from ganexp.facts import UserError
from ganexp.logging.layout import SAVED
from ganexp.logging.pictures import MOST_ROWS, classes_in_rows, image_grid
from ganexp.logging.reading import read_document
from ganexp.printable import one_line
from ganexp.sampling.card import card
from ganexp.sampling.trained import Trained, weights_digest

WEIGHTS, DOCUMENT = SAVED
CARD, PICTURE = "README.md", "samples.png"
SCORER = "discriminator.safetensors"
FORMAT = 1


def save(
    trained: Trained,
    folder: str | Path,
    *,
    discriminator: nn.Module | None = None,
    overwrite: bool = False,
    place: str | None = None,
    licence: str | None = None,
) -> Path:
    """Write a generator to a folder, which `ganexp.load` reads wherever it is moved to.

    The folder holds `model.safetensors`, `generator.json`, `README.md` (a model card whose licence is left to you),
    `samples.png` if the samples are images that follow from latents, and `discriminator.safetensors` if there is a
    discriminator. Settings that say where the generator was trained, and paths of the data, are left out.

    Args:
        trained: The generator, as `ganexp.load` has returned it.
        folder: New, or empty.
        discriminator: The discriminator of the same run, as `ganexp.load_discriminator` has returned it, if it is to be saved
            too.
        overwrite: Replace what the folder holds of another saved generator.
        place: Where the generator will be loaded from, according to the card.
        licence: As model hubs call it, such as `mit`; without one, the card leaves it open.

    Raises:
        UserError: There is something in the folder, the generator has no configuration, or the discriminator needs a file.
        OSError: The folder cannot be written.
    """
    folder = Path(folder)
    if discriminator and any(getattr(part, "weights_file", None) for part in discriminator.modules()):
        raise UserError("the discriminator sees features of weights in a file, which are not saved with it: leave it out")
    if "generator" not in trained.origin.settings:
        raise UserError("the generator has no configuration: save its state_dict instead")
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder} is a file: name a folder")
    if folder.exists() and any(folder.iterdir()) and not overwrite:
        raise UserError(f"{folder} is not empty: name another folder, or say overwrite")
    folder.mkdir(parents=True, exist_ok=True)
    weights = _write(trained.network, folder / WEIGHTS)
    further = {} if discriminator is None else {"discriminator": weights_digest(_write(discriminator, folder / SCORER))}
    pictured = len(trained.shape) == 3 and not trained.source_shape  # a translator's picture would give data away
    for name, written in {SCORER: bool(further), PICTURE: pictured}.items():
        if not written:
            (folder / name).unlink(missing_ok=True)  # another generator's
    if pictured:
        with atomic_write(folder / PICTURE) as file:
            few = 1 < trained.classes <= MOST_ROWS
            samples = trained.pictures(trained.sample(8 * trained.classes if few else 64))
            drawn = classes_in_rows(samples, trained.classes) if few else image_grid(samples)
            Image.fromarray(drawn).save(file, "PNG")
    with atomic_write(folder / CARD) as file:
        text = card(trained, PICTURE if pictured else None, discriminator=bool(further), place=place, licence=licence)
        file.write(text.encode())
    write_document(folder / DOCUMENT, _described(trained, weights) | further)
    return folder


def _write(network: nn.Module, path: Path) -> dict[str, Tensor]:
    weights = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in network.state_dict().items()}
    with atomic_write(path) as file:
        file.write(to_bytes(weights, metadata={"format": "pt"}))
    return weights


def read(folder: Path, *, discriminator: bool = False) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read a saved generator's JSON, and its weights or those of its discriminator.

    Nothing in either file is executed, or trusted to fit.

    Of the JSON's `settings`, `shape`, `classes`, `class_names`, `iterations` and `figures`, only the types are checked.
    """
    path = folder / DOCUMENT
    document = read_document(path)
    if document.get("format") != FORMAT or any(type(document.get(key)) is not kind for key, kind in TYPES.items()):
        raise UserError(f"{path} is missing, or does not describe a generator of this version of ganexp")
    document["figures"] = {key: value for key, value in document["figures"].items() if type(value) is float}
    if discriminator and "discriminator" not in document:
        raise UserError(f"{folder} holds a generator alone: name the run, or save it with its discriminator")
    path, digest = (folder / SCORER, document["discriminator"]) if discriminator else (folder / WEIGHTS, document["weights"])
    try:
        if path.exists() and not path.is_file():
            raise OSError("it is no file")  # a pipe may never begin, and a device never end
        weights = load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} is missing: get the folder again, with a connection if it is from the hub") from None
    except Exception as error:  # what a broken file makes safetensors raise has no common type
        reason = one_line(error)
        raise UserError(f"{path} cannot be read ({type(error).__name__}: {reason})") from None
    if weights_digest(weights) != digest:
        raise UserError(f"{path} is not what {DOCUMENT} was written with; get both files again")
    return document, weights


def _described(trained: Trained, weights: dict[str, Tensor]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "torch": str(torch.__version__),
        "weights": weights_digest(weights),
        "which": trained.origin.weights,
        "shape": list(trained.shape),
        "source_shape": list(trained.source_shape),
        "source_ranges": [levels and [*levels] for levels in trained.source_ranges],
        "classes": trained.classes,
        "class_names": list(trained.origin.class_names),
        "iterations": trained.origin.iterations,
        "figures": {key: value for key, value in trained.origin.figures.items() if math.isfinite(value)},
        "settings": trained.origin.settings,
    }


TYPES = {
    "weights": str,
    "shape": list,
    "source_shape": list,
    "classes": int,
    "class_names": list,
    "iterations": int,
    "figures": dict,
    "settings": dict,
}
