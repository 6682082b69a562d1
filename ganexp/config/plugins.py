"""Installed packages that extend ganexp, found by the entry point `ganexp.plugins` without importing them.

The entry point names a package. Its folder `conf`, laid out as ganexp's own, is searched for options after ganexp's, and its
modules are trusted as ganexp's are: whoever installs a package lets it run code anyway.
"""

import functools
import importlib.util
import logging
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

log = logging.getLogger(__name__)
GROUP = "ganexp.plugins"


@dataclass(frozen=True)
class Plugin:
    """An installed package that extends ganexp.

    Args:
        module: The package that the entry point names.
        conf: Its folder of YAML files; None if it has none.
        distribution: What `pip install` calls it.
    """

    module: str
    conf: Path | None
    distribution: str


@functools.cache
def plugins() -> tuple[Plugin, ...]:
    """Return the installed plugins, sorted by the names of their entry points; one whose package is not found is left out."""
    installed = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        place = _place(entry.module)
        if place is None:
            log.warning("The plugin %s names %s, which is not there: install it again, or remove it.", entry.name, entry.module)
            continue
        conf = place / "conf"
        distribution = entry.dist.name if entry.dist else entry.name
        installed.append(Plugin(entry.module, conf if conf.is_dir() else None, distribution))
    return tuple(installed)


def conf_folders() -> list[Path]:
    """Return the folders of YAML files of all plugins."""
    return [plugin.conf for plugin in plugins() if plugin.conf]


def distributions() -> list[str]:
    """Return what `pip install` calls the plugins."""
    return [plugin.distribution for plugin in plugins()]


def _place(module: str) -> Path | None:
    """Return the folder of a package; only the top-level one is looked up, since Python would import it to find those below."""
    top, *below = module.split(".")
    spec = importlib.util.find_spec(top)
    places = [Path(place, *below) for place in (spec and spec.submodule_search_locations) or ()]
    return next((place for place in places if place.is_dir()), None)
