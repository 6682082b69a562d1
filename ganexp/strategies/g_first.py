"""G first, then D on the fakes made before G moved: the same updates as `joint`."""

from collections.abc import Iterator

from ganexp.batch import Batch
from ganexp.gan import GAN
from ganexp.strategies.base import declared
from ganexp.strategies.steps import d_step, g_step


@declared(equals="joint")
def g_first(gan: GAN, reals: Iterator[Batch], *, d_steps: int, g_steps: int) -> None:
    """The same updates as `joint`: both gradients are taken at the old weights. Trace: `z G [r] f G+ r f D+`.

    This holds for `g_steps=1`. With more, G's further steps come before the shared one here, and after it in `joint`.
    """
    for _ in range(g_steps - 1):
        g_step(gan, reals)
    x, fake = next(reals), gan.generate(gan.sample())
    gan.update_g(gan.g_loss(x, fake))
    gan.update_d(gan.d_loss(x, fake.detach()))
    for _ in range(d_steps - 1):
        d_step(gan, reals)
