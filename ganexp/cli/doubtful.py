"""What Hydra resolves silently but users should know: what was given twice, a penalty that replaced a loss's own."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ganexp.cli.naming import typed_overrides
from ganexp.cli.options import option
from ganexp.config.schema import LISTS

BROUGHT = "override /penalty@_global_.penalty"
"""The key by which an option's YAML brings a penalty along."""


def doubtful(hydra: Any) -> Iterator[str]:
    """Yield one sentence for each such case, given Hydra's part of a composed configuration."""
    overrides = [one.partition("=") for one in typed_overrides(hydra)]
    values = {key: value for key, _, value in overrides}
    for key, count in Counter(key for key, *_ in overrides).items():
        if count > 1:
            yield f"{key} is given {_times(count)}: the last one counts, {key}={values[key]}."
    for key in [one for one in values if one in LISTS]:
        for name, count in Counter(re.findall(r"\w+", values[key])).items():
            if count > 1:
                yield f"{key}={values[key]} names {name} {_times(count)}: it counts once."
    if "penalty" not in values:
        return
    names = re.findall(r"\w+", values["penalty"])
    folders = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    chosen = hydra.runtime.choices.get("loss")
    loss = option("loss", str(chosen), folders)
    defaults = loss.node.get("defaults", []) if loss else []
    found: list[str] | str = next((one[BROUGHT] for one in defaults if isinstance(one, dict) and BROUGHT in one), [])
    brought = [found] if isinstance(found, str) else found
    if not {*brought} <= {*names}:
        yield (
            f"penalty={values['penalty']} takes the place of penalty=[{','.join(brought)}], which is part of "
            f"loss={chosen}: leave it out, or have both by penalty=[{','.join(dict.fromkeys([*brought, *names]))}]."
        )


def _times(count: int) -> str:
    return "twice" if count == 2 else f"{count} times"
