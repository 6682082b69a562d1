"""Several samples side by side, for a discriminator that scores them together (Lin et al. 2018, PacGAN, section 3)."""

from dataclasses import replace

from torch import Tensor

from ganexp.batch import Batch


def packed_shape(shape: tuple[int, ...], pack: int) -> tuple[int, ...]:
    """Return the shape of a pack: `(pack·C, H, W)` for images `(C, H, W)`, `(pack·n,)` for points `(n,)`."""
    return (pack * shape[0], *shape[1:])


def packed(batch: Batch, pack: int) -> Batch:
    """Return a batch of B samples as one of B/pack packs of neighbours, `(B/pack, pack·C, …)`; if `pack` is 1, unchanged."""
    if pack == 1:
        return batch
    batch = Batch.of(batch)
    if len(batch) % pack:
        raise ValueError(f"{len(batch)} samples do not fill packs of {pack}: choose a batch_size that pack divides")
    if batch.conditions:
        raise ValueError("samples with labels cannot be packed: choose pack=1 or conditional=false")

    def folded(tensor: Tensor) -> Tensor:
        return tensor.unflatten(0, (-1, pack)).flatten(1, 2)

    return replace(batch, values=folded(batch.values), target=None if batch.target is None else folded(batch.target))
