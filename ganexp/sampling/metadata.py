"""What exported files say of themselves: an extra file of torch's archives, a metadata property of ONNX."""

import json
import zipfile
from pathlib import Path
from typing import Any

from ganexp.facts import UserError
from ganexp.sampling.exporting import METADATA

MOST_BYTES = 2**20
"""A longer description is none of ganexp's."""


def read(path: Path) -> dict[str, Any]:
    """Return what an exported generator says of itself, without running it.

    Raises:
        UserError: It does not say so, or ONNX is not installed to read it.
    """
    text = _in_onnx(path) if path.suffix == ".onnx" else _in_archive(path)
    try:
        metadata = json.loads(text)
    except (ValueError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise UserError(f"{path} does not say what it is: ganexp sample --export of this version writes files that do")
    return metadata


def lines_of(metadata: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return these statements as lines of a name and a value."""
    plain = {key: value for key, value in metadata.items() if key != "arguments" and value not in (None, "")}
    lines = [(key, _listed(value) if isinstance(value, list) else value) for key, value in plain.items()]
    arguments = metadata.get("arguments")
    if isinstance(arguments, dict):
        lines += [(f"argument {name}", " × ".join(map(str, shape))) for name, shape in arguments.items()]
        lines.append(("how", f"network({', '.join(arguments)})"))
    return lines


def _listed(value: list[Any]) -> str:
    """Return a shape, which begins with n, a range of numbers, or names."""
    between = " × " if value[:1] == ["n"] else ", " if any(isinstance(part, str) for part in value) else " to "
    return between.join(map(str, value))


def _in_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = (entry for entry in archive.infolist() if entry.filename.endswith(f"/{METADATA}"))
            small = next((entry for entry in entries if entry.file_size < MOST_BYTES), None)
            return archive.read(small).decode() if small else ""
    except (OSError, ValueError, zipfile.BadZipFile):
        return ""


def _in_onnx(path: Path) -> str:
    try:
        import onnx
    except ImportError:
        raise UserError("this needs onnx, which is not installed: pip install onnx") from None
    try:
        model = onnx.load(path, load_external_data=False)
    except Exception:  # what a broken file makes protobuf raise has no common type
        return ""
    values = (entry.value for entry in model.metadata_props if entry.key == METADATA)
    return next((value for value in values if len(value) < MOST_BYTES), "")
