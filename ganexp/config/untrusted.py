"""Untrusted configurations: from a run folder, a checkpoint, a sweep, a saved generator or the hub.

Such a configuration may be anyone's. What it chooses among ganexp's parts is taken over, and so is where data are read. What it
must not do is run code, have interpolations read the environment, or say where this machine writes. Targets outside ganexp are
refused by `ganexp.config.targets`, where they are looked up. Nothing here imports torch: the command line asks early.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ganexp.config.defaults import defaults, options_in
from ganexp.config.parsing import LONGEST_SHOWN, shown
from ganexp.config.schema import files_among, is_code, is_remote
from ganexp.documents import leaves
from ganexp.facts import UserError
from ganexp.printable import printable

LOGGED = re.compile(r"logger\.wandb\.(mode|entity|project|group|name|notes|tags|artifacts)|logger\.\w+\._target_")
"""The settings of loggers that are accepted; any other may be a path to write to."""
UNWATCHED: dict[str, Any] = {
    "logger": {},
    "measure": {"auto": {}},
    "evaluation": {},
    "evaluate_every": 0,
    "keep_best": None,
    "sweep": {},
}
"""Values that switch off loggers and evaluation, for uses of a configuration that need only its networks or data."""


def checked(
    values: Mapping[str, Any],
    where: str,
    *,
    typed: Collection[str] = (),
    trust: Sequence[str] | str | None = (),
    remedy: str = "if it is your own setting, type it again on this command line",
) -> dict[str, Any]:
    """Return a configuration from outside as plain values, with this machine's `data_root`, or refuse it.

    Sets that are downloaded are looked for in the default `data_root`, wherever the configuration had them, unless `data_root`
    or `dataset.root` was typed. `resume` and `sweep.resume` are left out, and `trust` is what the caller trusts.

    Args:
        values: The configuration, with the values of typed keys in it. Anything may be in it.
        where: What led here, such as `resume=outputs/latest`; error messages begin with it.
        typed: The keys that the user has typed, dotted; they and those below them are not checked.
        trust: As for `ganexp.build`; None takes the configuration for the user's own, and changes nothing.
        remedy: What the user can do about a value that is refused.
    """
    try:
        plain: dict[str, Any] = json.loads(json.dumps(values))
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"{where}: a configuration holds plain values only: {str(error)[:LONGEST_SHOWN]}.") from None
    if trust is None:
        return plain
    try:
        recorded = [(key, value) for key, value in leaves(plain) if not _is_among(typed, key)]
    except ValueError as error:
        raise UserError(f"{where}: {printable(str(error)[:LONGEST_SHOWN])} is nested too deep for a configuration.") from None
    for key, value in recorded:
        risk = _risk_of(key, value)
        if risk:
            setting = printable(f"{key}={shown(value)}")
            raise UserError(f"{where}: the recorded setting {setting} could {risk}: {remedy}.")
    if not _is_among(typed, "data_root"):
        plain["data_root"] = defaults()["data_root"]
    dataset, key = plain.get("dataset"), "dataset.root"
    while isinstance(dataset, dict):  # and those inside it
        if "root" in dataset and not _is_among(typed, key):
            dataset["root"] = plain["data_root"]
        dataset, key = dataset.get("of"), key.replace("root", "of.root")
    sweep = {"sweep": plain["sweep"] | {"resume": None}} if isinstance(plain.get("sweep"), dict) else {}
    return plain | sweep | {"resume": None, "trust": trust if isinstance(trust, str) else list(trust)}


def is_typed_again(word: str) -> bool:
    """Return whether a word such as `trust=mine` has to be typed again to resume a run: the folder does not set it."""
    key, _, value = word.lstrip("+").partition("=")
    if key in ("trust", "data_root") or re.fullmatch(r"dataset(\.of)*\.root", key):
        return value not in ("", "null", "[]")
    return _risk_of(key, value.strip("[]").split(",") if key == "evaluation.features" else value) is not None


def _risk_of(key: str, value: Any) -> str | None:
    """Return the risk of a value that only the user may accept, in words; None if there is none."""
    if "${" in key or (isinstance(value, str) and "${" in value):
        return "read this machine's environment through its interpolation"
    if _is_among(["evaluation.features"], key) and files_among(value):
        return "run code"
    if re.fullmatch(r"dataset(\.of)*\.decode", key) and (is_code(value) or is_remote(value)):
        return "run code" if is_code(value) else "download from the Hugging Face Hub"
    writes = key.startswith("logger.") and value is not None and not LOGGED.fullmatch(re.sub(r"\.\d+$", "", key))
    if writes and dict(leaves({"logger": options_in("logger")})).get(key) != value:
        return "write outside the run folder"
    return None


def _is_among(typed: Collection[str], key: str) -> bool:
    return any(key == typed_key or key.startswith(f"{typed_key}.") for typed_key in typed)
