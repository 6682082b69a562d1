"""The gradient field of a game at the current weights, computed without changing any state."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ganexp.augmentations import NoAugmentation
from ganexp.batch import Batch
from ganexp.gan import GAN, Field
from ganexp.gan.passes import Passes
from ganexp.instruments.timer import timer_for
from ganexp.networks.coupling import unmoved
from ganexp.streams import undisturbed


@contextmanager
def still(gan: GAN, x: Batch, z: Batch) -> Iterator[Field]:
    """Return the field of both players' gradients on a batch of reals and one of latents, without a change of any state.

    Networks are in training mode, so that batch norm uses the statistics of these batches. Samples are not augmented, and a
    batch is not split. A penalty takes part as in the next iteration: a lazy one is left out unless it is due then. Parameters,
    buffers, random streams and the penalty's state are restored at the end; the field must not be used after that.

    Args:
        gan: The GAN of a single process.
        x: Real samples in [-1, 1], or points, with their labels if the networks read any.
        z: As many latents.
    """
    view = copy.copy(gan)
    view.augment, view.timer = NoAugmentation(), timer_for(gan.prior.device)
    view._passes = Passes(gan._passes.autocast, further=gan._passes.further)
    penalty = copy.deepcopy(gan.penalty.state_dict())
    try:
        with (
            torch.enable_grad(),
            undisturbed(gan.prior.device, gan.prior.seed),
            unmoved(gan.generator, gan.discriminator),
            torch.compiler.set_stance("force_eager"),
        ):
            yield view.field(*view.losses_of_both(view.packed(x), view.generate(z)))
    finally:
        gan.penalty.load_state_dict(penalty)
