"""Where Hydra looks for options besides conf/ and `--config-dir`: in installed plugins."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin

from ganexp.config.plugins import plugins


class InstalledPlugins(SearchPathPlugin):
    """Adds the folders of plugins after ganexp's own, so that ganexp's options come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the folders; Hydra calls this whenever it begins to compose."""
        for plugin in plugins():
            if plugin.conf:
                search_path.append(plugin.distribution, f"file://{plugin.conf}")


def register() -> None:
    """Register `InstalledPlugins` with Hydra; a second time changes nothing."""
    Plugins.instance().register(InstalledPlugins)
