"""A configuration as the command line would compose it, for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

from ganexp.config.defaults import conf_folder, options_in
from ganexp.config.plain import OPTIONS
from ganexp.config.schema import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig


def register_options() -> None:
    """Make `${ganexp.options:GROUP}` resolve to all options of a group in the folders that Hydra composes from."""
    from hydra.core.global_hydra import GlobalHydra
    from omegaconf import OmegaConf

    def seen(group: str) -> "DictConfig":
        sources = GlobalHydra.instance().config_loader().get_sources() if GlobalHydra().is_initialized() else []
        folders = [Path(source.path) for source in sources if source.scheme() == "file"]
        return OmegaConf.create(options_in(group, [*folders, conf_folder()]))

    OmegaConf.register_new_resolver(OPTIONS, seen, replace=True)


def compose(*overrides: str, config_dir: str | Path | None = None) -> "DictConfig":
    """Compose a configuration with the defaults of `python train.py`, to be given to `ganexp.build`.

    Args:
        overrides: What the command line would be given, such as `loss=hinge` or `optimizer.lr=1e-4`.
        config_dir: A further folder of YAML files, laid out as `conf/` is: the command line's `--config-dir`.

    Raises:
        ConfigError: There is no such option or key; the message is the command line's.
    """
    from hydra import compose, initialize_config_dir  # imported here, since the library works without Hydra
    from omegaconf import OmegaConf, open_dict

    from ganexp.cli.checks import settle_groups
    from ganexp.cli.hydra_errors import composing
    from ganexp.cli.search_path import register

    register()
    further = [] if config_dir is None else [f"hydra.searchpath=['file://{Path(config_dir).resolve()}']"]
    register_options()
    with composing(), initialize_config_dir(version_base="1.3", config_dir=str(conf_folder())):
        cfg = compose("train", [*overrides, *further], return_hydra_config=True)
        OmegaConf.resolve(cfg.measure)  # while it is known which folders have options
    settle_groups(cfg, cfg.hydra)
    if cfg.resume is not None:
        raise ConfigError("resume= is for the command line: here, ganexp.build(cfg, folder, checkpoint=…) resumes a run.")
    with open_dict(cfg):
        del cfg.hydra
    return cfg
