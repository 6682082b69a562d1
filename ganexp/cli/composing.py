"""Composing as Hydra does it: where it looks for options, and for notebooks a configuration as the command line has it."""

from pathlib import Path

import hydra
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf, open_dict

from ganexp.cli.checks import settle_groups
from ganexp.cli.hydra_errors import composing
from ganexp.config.defaults import conf_folder, options_in
from ganexp.config.plain import OPTIONS
from ganexp.config.plugins import plugins
from ganexp.config.schema import ConfigError


class InstalledPlugins(SearchPathPlugin):
    """Adds the folders of plugins after ganexp's own, so that ganexp's options come first."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        """Add the folders; Hydra calls this whenever it begins to compose."""
        for plugin in plugins():
            if plugin.conf:
                search_path.append(plugin.distribution, f"file://{plugin.conf}")


def register() -> None:
    """Let Hydra look for options in plugins too, and `${ganexp.options:GROUP}` mean all options of a group that it can find.

    A second time changes nothing.
    """
    Plugins.instance().register(InstalledPlugins)

    def seen(group: str) -> DictConfig:
        sources = GlobalHydra.instance().config_loader().get_sources() if GlobalHydra().is_initialized() else []
        folders = [Path(source.path) for source in sources if source.scheme() == "file"]
        return OmegaConf.create(options_in(group, [*folders, conf_folder()]))

    OmegaConf.register_new_resolver(OPTIONS, seen, replace=True)


def compose(*overrides: str, config_dir: str | Path | None = None) -> DictConfig:
    """Compose a configuration with the defaults of `python train.py`, to be given to `ganexp.build`.

    Args:
        overrides: What the command line would be given, such as `loss=hinge` or `optimizer.lr=1e-4`.
        config_dir: A further folder of YAML files, laid out as `conf/` is: the command line's `--config-dir`.

    Raises:
        ConfigError: There is no such option or key; the message is the command line's.
    """
    register()
    further = [] if config_dir is None else [f"hydra.searchpath=['file://{Path(config_dir).resolve()}']"]
    with composing(), hydra.initialize_config_dir(version_base="1.3", config_dir=str(conf_folder())):
        cfg = hydra.compose("train", [*overrides, *further], return_hydra_config=True)
        OmegaConf.resolve(cfg.measure)  # while it is known which folders have options
    settle_groups(cfg, cfg.hydra)
    if cfg.resume is not None:
        raise ConfigError("resume= is for the command line: here, ganexp.build(cfg, folder, checkpoint=…) resumes a run.")
    with open_dict(cfg):
        del cfg.hydra
    return cfg
