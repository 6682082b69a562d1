"""The start of the networks: weights of another run, and frozen layers of D."""

import os
from pathlib import Path

from torch import nn

from ganexp.config.loading import is_of_optimizer, weights_of
from ganexp.config.schema import Config
from ganexp.facts import UserError
from ganexp.logging.reading import checkpoint_at
from ganexp.training import CheckpointError, checkpoint
from ganexp.training.checkpoint import refuse_unlike


def begin(config: Config, generator: nn.Module, discriminator: nn.Module, *, resumed: bool = False) -> None:
    """Give new networks the weights that `init_from` names, and freeze as many layers of D as `freeze_d` says.

    A resumed run has its own weights, so `init_from` is ignored.
    """
    if config.init_from is not None and not resumed:
        _take_over(Path(os.path.expanduser(config.init_from)), generator, discriminator)
    if config.freeze_d:
        _freeze(discriminator, config.freeze_d)


def _take_over(place: Path, generator: nn.Module, discriminator: nn.Module) -> None:
    """Load the weights and buffers that a run's optimisers have trained: not an average beside them, but one of their own."""
    networks = {"generator": generator, "discriminator": discriminator}
    try:
        path = checkpoint_at(place)
        run = checkpoint.load(path)["run"]
        trained = {key: weights_of(run, is_of_optimizer(run), key, path) for key in networks}
    except CheckpointError as error:
        raise UserError(f"init_from: {error}.") from error
    for key, network in networks.items():
        loaded, initial = trained[key], dict(network.state_dict())
        try:
            refuse_unlike(key, initial, loaded)
        except ValueError as error:
            raise UserError(
                f"init_from: the networks of {path} are others ({error}): choose generator and discriminator with all settings "
                "as that run has them, and data of the same shape and classes."
            ) from None
        if not any(tensor.is_meta for tensor in initial.values()):
            network.load_state_dict(loaded)


def _freeze(discriminator: nn.Module, count: int) -> None:
    """Freeze the first layers that have parameters of their own, in the order in which the module lists them (FreezeD)."""
    layers = [
        module
        for module in discriminator.modules()
        if any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    ]
    if count >= len(layers):
        raise UserError(f"freeze_d={count} would leave nothing of D to train, which has {len(layers)} layers: choose fewer.")
    for layer in layers[:count]:
        for parameter in layer.parameters(recurse=False):
            parameter.requires_grad_(False)
