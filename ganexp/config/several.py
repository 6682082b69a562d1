"""What several processes cannot train together: refused before anything is written."""

from collections.abc import Mapping

from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from ganexp.config.schema import Config, ConfigError
from ganexp.config.targets import name_of
from ganexp.networks import MinibatchDeviation


def refuse_unshared(config: Config, processes: int) -> None:
    """Refuse a batch that cannot be shared equally, and what is one process's alone.

    Raises:
        ConfigError: One of these is asked for.
    """
    if processes == 1:
        return
    whole = processes * config.pack
    if config.batch_size % whole:
        packs = f", in packs of pack={config.pack}" if config.pack > 1 else ""
        raise ConfigError(
            f"batch_size={config.batch_size} is that of all processes together and cannot be shared equally among {processes}"
            f"{packs}: choose a multiple of {whole}, such as batch_size={whole * -(-config.batch_size // whole)}."
        )
    if config.device.startswith("cuda:"):
        raise ConfigError(f"device={config.device} is one GPU, and {processes} processes have one each: choose device=cuda.")
    if config.cuda_graph is True:
        raise ConfigError(f"cuda_graph=true is for one process, and there are {processes}: choose cuda_graph=auto.")


def refuse_inexact_shares(config: Config, processes: int, networks: Mapping[str, nn.Module]) -> None:
    """Refuse what would not train as in one process.

    Args:
        config: The whole.
        processes: How many train together.
        networks: By key.

    Raises:
        ConfigError: It would not.
    """
    if processes == 1:
        return
    share = config.batch_size // processes // config.pack
    for key, network in networks.items():
        for module in network.modules():
            if isinstance(module, _DropoutNd) and module.p > 0:
                raise ConfigError(
                    f"{key}={name_of(getattr(config, key))} has dropout, whose random numbers would be the same in each of "
                    f"{processes} processes: choose a network without it, or start one process."
                )
            if isinstance(module, MinibatchDeviation) and share % module.group:
                whole = processes * config.pack * module.group
                raise ConfigError(
                    f"{key}.minibatch_deviation=true looks at groups of {module.group} neighbours, which batch_size="
                    f"{config.batch_size} in {processes} processes would tear apart: choose a multiple of {whole}."
                )
