"""A configuration as the command line would compose it, for notebooks."""

from pathlib import Path
from typing import TYPE_CHECKING

from ganexp.configuration.schema import ConfigError

if TYPE_CHECKING:
    from omegaconf import DictConfig

PACKAGE = Path(__file__).parent


def compose(*overrides: str, config_dir: str | Path | None = None) -> "DictConfig":
    """Compose a configuration with the defaults of `python train.py`, to be given to `ganexp.configuration.build`.

    Args:
        overrides: What the command line would be given, such as `loss=hinge` or `optimizer.lr=1e-4`.
        config_dir: A further folder of YAML files, laid out as `conf/` is: the command line's `--config-dir`.

    Raises:
        ConfigError: There is no such option or key, said in the sentence that the command line says.
    """
    from hydra import compose, initialize_config_dir  # here, for the library stands without Hydra
    from hydra.errors import HydraException
    from omegaconf import open_dict
    from omegaconf.errors import OmegaConfBaseException

    from ganexp.command_line.jobs import one_option_per_group
    from ganexp.command_line.sentences import sentence

    further = [] if config_dir is None else [f"hydra.searchpath=['file://{Path(config_dir).resolve()}']"]
    try:
        with initialize_config_dir(version_base="1.3", config_dir=str(_conf())):
            cfg = compose("train", [*overrides, *further], return_hydra_config=True)
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(sentence(error)) from None
    one_option_per_group(cfg, cfg.hydra.runtime.choices)
    if cfg.resume is not None:
        raise ConfigError("resume= is the command line's: here, ganexp.build(cfg, folder, checkpoint=…) goes on with a run.")
    with open_dict(cfg):
        del cfg.hydra
    return cfg


def _conf() -> Path:
    """Return the folder of YAML files: inside the package once installed, beside it in a clone without symbolic links."""
    inside = PACKAGE / "conf"
    return (inside if inside.is_dir() else PACKAGE.parent / "conf").resolve()
