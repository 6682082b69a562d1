"""Layouts of image folders: by class, by split, or with a file of labels."""

import json
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from ganexp.printable import printable

DOCUMENT = "dataset.json"
"""The file in which StyleGAN's tools write labels: `{"labels": [["00000/img00000000.png", 6], …]}`, or null without labels."""
TRAIN, TEST, VALIDATION = "train", "test", "validation"
SPLITS = {
    **dict.fromkeys(("train", "training"), TRAIN),
    **dict.fromkeys(("val", "valid", "validation"), VALIDATION),
    **dict.fromkeys(("test", "testing"), TEST),
}
"""The split that a folder holds, by its name in lower case."""


def top_of(files: Collection[Path]) -> Path:
    """Return the deepest folder below which all files lie."""
    return Path(os.path.commonpath([path.parent for path in files]))


def splits_of(files: Collection[Path]) -> dict[str, Path]:
    """Return the folder of the training images, `train`, and those of `test` and `validation` if they exist.

    Other folders beside them are refused, since it is not clear what to train on.
    """
    top = top_of(files)
    depth = len(top.parts)
    folders = {path.parts[depth] if len(path.parts) > depth + 1 else "" for path in files}
    splits = {SPLITS[name.lower()]: top / name for name in sorted(folders) if name.lower() in SPLITS}
    if len(splits) < 2:
        return {TRAIN: top}
    if TRAIN in splits and len(splits) == len(folders):
        return splits
    named = ", ".join(printable(name) for name in sorted(folders - {""})[:10])
    raise OSError(
        f"{printable(top)} has the folders {named}{' and images beside them' if '' in folders else ''}, and which to take "
        "is not clear: name one of them, as by dataset.path=…, or leave only train, val and test there"
    )


def classes_by_folder(files: Collection[Path], top: Path) -> list[str]:
    """Return the class of each image, its first folder below `top`; nothing if an image has none."""
    depth = len(top.parts)
    inside = all(path.parts[:depth] == top.parts and len(path.parts) > depth + 1 for path in files)
    return [path.parts[depth] for path in files] if inside else []


def classes_by_document(content: bytes, files: Collection[Path], folder: Path) -> list[Any] | None:
    """Return the class of each image according to the `dataset.json` of a folder: an integer or a text; nothing without labels.

    None is returned if it is another kind of document.
    """
    where = printable(folder / DOCUMENT)
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise OSError(f"{where} is no JSON ({error}): correct it, or remove it") from None
    if not isinstance(document, Mapping) or "labels" not in document:
        return None
    if not document["labels"]:
        return []
    try:
        label_of = {str(Path(name.replace("\\", "/"))): label for name, label in dict(document["labels"]).items()}
        labels = [label_of.get(path.relative_to(folder).as_posix()) for path in files]
    except (TypeError, ValueError, AttributeError):
        raise OSError(f'{where} should have a list of [file, class] as its "labels"') from None
    missing = next((path for path, label in zip(files, labels, strict=True) if label is None), None)
    if missing is not None:
        raise OSError(f"{where} has no class for {printable(missing)}: add it, or remove the image")
    kinds = {type(label) for label in labels}
    if len(kinds) > 1 or not kinds <= {int, str}:
        raise OSError(f"the labels in {where} should be classes, all of them integers or all texts")
    return labels
