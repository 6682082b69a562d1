"""What a page is called, and the list of the settings that its runs share."""

import json
from collections.abc import Sequence
from html import escape
from typing import Any

from ganexp.cli.options import option
from ganexp.cli.pages.comparing import is_target, settings, shown
from ganexp.config.defaults import conf_folder, defaults
from ganexp.config.plain import flat
from ganexp.config.plugins import conf_folders
from ganexp.config.schema import GROUPS, effect_of
from ganexp.logging.reading import RecordedRun

ALWAYS = ("iterations", "batch_size", "seed")
"""Keys that are listed even where they are as by default."""
NAMED = ("dataset", "loss", "strategy")
"""The groups whose choices name a page."""


def heading(found: Sequence[RecordedRun], otherwise: str) -> str:
    """Return a short title: what all runs have of data, loss and strategy, and how many runs there are, if several."""
    same = shared(found)
    named = ", ".join(shown(same[group], 40) for group in NAMED if group in same) or otherwise
    return f"{len(found)} runs: {named}" if len(found) > 1 else named


def shared(found: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return the settings that all runs with a configuration have in common, by dotted key."""
    first, *others = [settings(run) for run in found if run.config] or [{}]
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def listed(found: Sequence[RecordedRun]) -> dict[str, str]:
    """Return the choices that all runs share, each with the settings that were changed, and the keys that were changed."""
    same, told = shared(found), {}
    for group in GROUPS:
        name = same.get(group)
        if isinstance(name, str) and name not in ("none", "[]") and effect_of(group) != "records":
            told[group] = " ".join([shown(name), *_changed(group, name, same)])
    usual, lengths = dict(flat(defaults())), {run.config.get("iterations") for run in found if run.config}
    if len(lengths) == 1:
        same["iterations"] = lengths.pop()
    for key, value in same.items():
        if key.partition(".")[0] not in GROUPS and (key in ALWAYS or value != usual.get(key)):
            told[key] = shown(value)
    return told


def section(found: Sequence[RecordedRun]) -> str:
    """Return the list as HTML, with the folder of a lone run; empty if nothing is known of any run."""
    told = listed(found) if any(run.config for run in found) else {}
    lines = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in told.items())
    where = f'<p class="note">{escape(found[0].folder.name)}</p>' if len(found) == 1 else ""
    return f'{where}<dl class="settings">{lines}</dl>' if lines else where


def _changed(group: str, names: str, same: dict[str, Any]) -> list[str]:
    """Return the settings of a group's members that are not as in their YAML; all of them if it is not found."""
    own = {key.removeprefix(f"{group}."): value for key, value in same.items() if key.startswith(f"{group}.")}
    found = [option(group, name, [conf_folder(), *conf_folders()]) for name in names.strip("[]").split(",")]
    usual = {key: value for one in found if one for key, value in one.settings.items()}
    told = {key: value for key, value in own.items() if not is_target(key) and (key in usual or None in found)}
    return [f"{key}={shown(value)}" for key, value in told.items() if not _is_written(value, usual.get(key, ""))]


def _is_written(value: Any, text: str) -> bool:
    """Return whether a value is what stands in a YAML file."""
    try:
        return bool(float(value) == float(text)) if not isinstance(value, bool) else str(value).lower() == text.lower()
    except (TypeError, ValueError):
        return text in (str(value), json.dumps(value), json.dumps(value, separators=(",", ":")).replace('"', ""))
