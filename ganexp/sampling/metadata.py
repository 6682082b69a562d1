"""What exported files say of themselves: an extra file of torch's archives, a metadata property of ONNX."""

import json
import zipfile
from pathlib import Path
from typing import Any

from ganexp.facts import UserError
from ganexp.sampling.exporting import METADATA

MOST_BYTES = 2**20
"""A longer description is none of ganexp's."""


def told_by(path: Path) -> list[tuple[str, Any]]:
    """Return what an exported generator is, without running it.

    Raises:
        UserError: It does not say so, or ONNX is not installed to read it.
    """
    text = _in_onnx(path) if path.suffix == ".onnx" else _in_archive(path)
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    if not isinstance(told, dict):
        raise UserError(f"{path} does not say what it is: ganexp sample --export of this version writes files that do")
    lines = [(str(key), " × ".join(map(str, value)) if isinstance(value, list) else value) for key, value in told.items()]
    arguments = told.get("arguments")
    if isinstance(arguments, dict):
        lines = [line for line in lines if line[0] != "arguments"]
        lines += [(f"argument {name}", " × ".join(map(str, shape))) for name, shape in arguments.items()]
        lines.append(("how", f"network({', '.join(arguments)})"))
    return lines


def _in_archive(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as archive:
            found = [one for one in archive.infolist() if one.filename.endswith(f"/{METADATA}") and one.file_size < MOST_BYTES]
            return archive.read(found[0]).decode() if found else ""
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
    return next((one.value for one in model.metadata_props if one.key == METADATA and len(one.value) < MOST_BYTES), "")
