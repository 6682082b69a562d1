"""Checks plain values against the schema; a mistake becomes a sentence that names the key and the remedy."""

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from ganexp.config.defaults import completed
from ganexp.config.foreign_names import ELSEWHERE
from ganexp.config.plain import flat
from ganexp.config.schema import AUTO, GROUPS, LISTS, Config, choices_of, keys_of
from ganexp.facts import UserError

LONGEST_SHOWN = 200
"""How many characters of a wrong value a sentence quotes."""
FINITE = ConfigDict(allow_inf_nan=False)
PLAINLY = {
    "should be a valid integer": "needs an integer",
    "should be a valid number": "needs a number",
    "should be a finite number": "needs a finite number",
    "should be a valid boolean": "needs true or false",
    "should be a valid string": "needs text",
    "should be a valid list": "needs a list",
    "should be greater than or equal to": "must be at least",
    "should be less than or equal to": "must be at most",
    "should have at least 1 character": "needs a value",
    "should have at least": "needs at least",
    "should": "must",
}
"""Pydantic's words, and those of the sentences."""


def parse(values: dict[str, Any]) -> Config:
    """Check plain values against the schema. Keys that are left out, as Hydra leaves none out, have their defaults."""
    try:
        text = json.dumps(values)
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(f"The configuration should hold plain values only: {str(error)[:LONGEST_SHOWN]}.") from None
    try:
        return Config.model_validate_json(text)
    except ValidationError as error:
        lacking = any(mistake["type"] == "missing" for mistake in error.errors())
        if lacking and (whole := completed(values)) != values:
            return parse(whole)
        raise UserError(_sentence(error.errors()[0], values)) from None


def refuse_mistakes(values: dict[str, Any]) -> None:
    """Refuse keys that the schema does not allow, as `parse` does; keys that are left out need no defaults."""
    try:
        Config.model_validate_json(json.dumps(values))
    except ValidationError as error:
        for mistake in error.errors():
            if mistake["type"] != "missing":
                raise UserError(_sentence(mistake, values)) from None


def check_type(key: str, value: Any, hint: Any) -> None:
    """Check a plain value against an annotation, including its range; floats must be finite."""
    try:
        TypeAdapter(hint, config=FINITE).validate_json(json.dumps(value), strict=True)
    except PydanticUserError:
        return  # an annotation from outside that says nothing about plain values
    except ValidationError as error:
        first = error.errors()[0]
        message = f"needs {len(get_args(hint)) or 'more'} values" if first["type"] == "missing" else first["msg"]
        raise UserError(refused(key, message, value)) from None


def unknown_key(key: str, known: Iterable[str], *, preset: bool = False) -> str:
    """Return the sentence for an unknown key, with the most similar key, and how to drop a key that a preset has set."""
    meant = ELSEWHERE.get(key)
    if meant:
        return f"Unknown key {key}. Use {meant}."
    known = sorted(set(known) - {"name", "_target_"})
    above, _, name = key.rpartition(".")
    if above in LISTS:
        return _unlisted(above, name, [member for member in known if member != name], preset=preset)
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.7)  # at 0.6, depth is close to width
    if close:
        return f"Unknown key {key}. Did you mean {'.'.join(filter(None, [above, close[0]]))}?"
    listing = f"This {above} has {', '.join(known)}." if above in GROUPS else f"The keys here are {', '.join(known)}."
    if above == "dataset" and "of" in known:
        listing += f" Of the data that it is made from, it is dataset.of.{name}."
    none = f"This {above} {'has' if preset else 'lists'} no settings: choose one that has it, as in {above}=… {key}=…"
    none += "." if preset else f", or add one of its class by +{key}=…."
    hint = listing if known else none if above in GROUPS else f"{above} has no keys below it."
    remedy = f" If an experiment has set it, add ~{key}." if preset else ""
    return f"Unknown key {key}. {hint}{remedy}"


def _unlisted(group: str, name: str, members: Sequence[str], *, preset: bool) -> str:
    """Return the sentence for a setting of a member that is not in its list."""
    below = (
        [f"add ~{group}.{name} if an experiment has set it"]
        if preset
        else [f"set a key below {group}.{member}" for member in members[:1] if member != AUTO]
    )
    remedies = ", or ".join([f"choose a list with it, such as {group}=[{','.join([*members, name])}]", *below])
    return f"Unknown key {group}.{name}. {group}=[{','.join(members)}] has no {name}: {remedies}."


def _sentence(first: Mapping[str, Any], values: dict[str, Any]) -> str:
    path, value = _place(first, values)
    key = ".".join(path)
    if not path:
        return _no_json(values, first["msg"])
    if first["type"] == "extra_forbidden":
        return unknown_key(key, _siblings(path))
    if first["type"] == "model_type":
        below = ", ".join(_siblings([*path, "any"]))
        return f"{key} is set by its keys, as in {key}.KEY=…, which are {below}; got {shown(value)}."
    if path[0] in LISTS and len(path) == 2:  # the option's file is written as if the group were no list
        return f"{key} needs a _target_ and settings below it, as the files of conf/{path[0]}/ have; got {shown(value)}."
    if first["type"] == "missing":
        return f"{key} is missing; it must be given."
    declared = dict(keys_of()).get(".".join(part for part in path if not part.isdigit()))
    choices = choices_of(declared) if declared else ""
    if choices:
        return f"{key} must be {choices}; got {shown(value)}."
    return refused(key, first["msg"], value)


def _no_json(values: dict[str, Any], message: str) -> str:
    """Return the sentence for values that JSON cannot hold, such as a path with bytes that are no UTF-8."""
    for key, value in flat(values):
        if re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False)):
            return f"{key} needs text in UTF-8; got {shown(value)}."
    return f"The configuration should hold plain values only: {message}."


def _siblings(path: list[str]) -> Iterable[str]:
    """Return the keys that exist at the level where a path ends."""
    model: Any = Config
    for part in path[:-1]:
        model = model.model_fields[part].annotation
    return model.model_fields


def _place(first: Mapping[str, Any], values: dict[str, Any]) -> tuple[list[str], Any]:
    """Return the keys that lead to a mistake, and the value there, without the members of unions that pydantic also names."""
    path: list[str] = []
    value: Any = values
    for part in first["loc"]:
        inside = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
        if inside or first["type"] == "missing":
            path.append(str(part))
            value = value[part] if inside else None
    return path, value


def refused(key: str, message: str, value: Any) -> str:
    """Return pydantic's message about a value as a sentence about its key."""
    words = message[0].lower() + message[1:]
    for subject in ("input ", "string "):
        words = words.removeprefix(subject)
    for pydantic_words, plain_words in PLAINLY.items():
        words = words.replace(pydantic_words, plain_words)
    return f"{key} {words}; got {shown(value)}."


def shown(value: Any) -> str:
    """Return a plain value as it is typed, cut off where it is too long for a sentence."""
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value) or "an empty value"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
