"""The interpolations of conf/ that ganexp resolves; what they need is imported when they are."""

from omegaconf import DictConfig, OmegaConf


def register() -> None:
    """Make them known, which must be done before Hydra composes a configuration."""
    OmegaConf.register_new_resolver("ganexp.help", _help, replace=True)


def _help(*, _root_: DictConfig) -> str:
    from ganexp.cli.help import described

    return described(_root_)
