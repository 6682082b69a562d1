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


def heading(runs: Sequence[RecordedRun], otherwise: str) -> str:
    """Return a short title: what all runs have of data, loss and strategy, and how many runs there are, if several."""
    same = shared(runs)
    named = ", ".join(shown(same[group], 40) for group in NAMED if group in same) or otherwise
    return f"{len(runs)} runs: {named}" if len(runs) > 1 else named


def shared(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Return the settings that all runs with a configuration have in common, by dotted key."""
    first, *others = [settings(run) for run in runs if run.config] or [{}]
    return {key: value for key, value in first.items() if all(key in other and other[key] == value for other in others)}


def listed(runs: Sequence[RecordedRun]) -> dict[str, str]:
    """Return the choices that all runs share, each with the settings that were changed, and the keys that were changed."""
    same, entries = shared(runs), {}
    for group in GROUPS:
        name = same.get(group)
        if isinstance(name, str) and name not in ("none", "[]") and effect_of(group) != "records":
            entries[group] = " ".join([shown(name), *_changed(group, name, same)])
    usual, lengths = dict(flat(defaults())), {run.config.get("iterations") for run in runs if run.config}
    if len(lengths) == 1:
        same["iterations"] = lengths.pop()
    for key, value in same.items():
        if key.partition(".")[0] not in GROUPS and (key in ALWAYS or value != usual.get(key)):
            entries[key] = shown(value)
    return entries


def section(runs: Sequence[RecordedRun]) -> str:
    """Return the list as HTML, with the folder of a lone run; empty if nothing is known of any run."""
    entries = listed(runs) if any(run.config for run in runs) else {}
    lines = "".join(f"<div><dt>{escape(key)}</dt><dd>{escape(value)}</dd></div>" for key, value in entries.items())
    where = f'<p class="note">{escape(runs[0].folder.name)}</p>' if len(runs) == 1 else ""
    return f'{where}<dl class="settings">{lines}</dl>' if lines else where


def _changed(group: str, names: str, same: dict[str, Any]) -> list[str]:
    """Return the settings of a group's members that are not as in their YAML; all of them if it is not found."""
    own = {key.removeprefix(f"{group}."): value for key, value in same.items() if key.startswith(f"{group}.")}
    entries = [option(group, name, [conf_folder(), *conf_folders()]) for name in names.strip("[]").split(",")]
    usual = {key: value for entry in entries if entry for key, value in entry.settings.items()}
    changed = {key: value for key, value in own.items() if not is_target(key) and (key in usual or None in entries)}
    return [f"{key}={shown(value)}" for key, value in changed.items() if not _is_written(value, usual.get(key, ""))]


def _is_written(value: Any, text: str) -> bool:
    """Return whether a value is what stands in a YAML file."""
    try:
        return bool(float(value) == float(text)) if not isinstance(value, bool) else str(value).lower() == text.lower()
    except (TypeError, ValueError):
        return text in (str(value), json.dumps(value), json.dumps(value, separators=(",", ":")).replace('"', ""))
