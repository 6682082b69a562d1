"""The workloads of the bench, which do not change: data, networks, loss, batch, budget and judge of each."""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Literal


@dataclass(frozen=True)
class Workload:
    """Data, networks and a loss, with the budget of a run and the judge of its samples.

    A workload does not change: if it has to, it gets a higher version, and results of other versions are left aside.

    Args:
        name: Data and loss.
        version: Raised with every change, also of ganexp's defaults where they concern it.
        overrides: As for `train.py`: data, networks, loss, batch. Everything else is the default.
        images: The budget in real images, over all batches that a rule draws. The budget of time is what `detach` takes for
            as many.
        judge: The key of the figure; the lowest is best.
        unit: What the figure is called.
        splits: Where validation and test data come from. `drawn`: from the distribution. `parts`: a sixth each of the data in
            random order. `test part`: for the test, the test part of the data set, and for validation, a sixth of its training
            part in random order.
        samples: How many are generated for a judgement.
        machine: The kind of machine that it is made for.
    """

    name: str
    version: int
    overrides: tuple[str, ...]
    images: int
    judge: str
    unit: str
    splits: Literal["drawn", "parts", "test part"]
    samples: int = 2000
    machine: Literal["cpu", "gpu"] = "cpu"

    @property
    def key(self) -> str:
        """Name and version, as written in the results."""
        return f"{self.name}.{self.version}"

    @property
    def rescue(self) -> bool:
        """Whether `detach` fails on it, so that it tells only which rules train where `detach` does not."""
        return self.name.endswith("_rescue")

    @property
    def of_order(self) -> bool:
        """Whether it asks only whether the order of updates matters beside an L1 term, by the rules of `ORDER` with Adam."""
        return "_l1_" in self.name

    def asks_for(self, division: str, rule: str) -> bool:
        """Return whether it is meant for a rule with an optimiser."""
        return not self.of_order or (division == "adam" and rule in ORDER)

    @property
    def digest(self) -> str:
        """A hash that changes with any part of the definition."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:12]


def _family(of: Workload, *losses: str) -> list[Workload]:
    return [replace(of, name=f"{of.name}_{loss}", overrides=(*of.overrides, f"loss={loss}")) for loss in losses]


_POINTS = (
    "generator=mlp",
    "discriminator=mlp",
    "generator.width=64",
    "discriminator.width=64",
    "latent_dim=2",
    "batch_size=128",
)
_IMAGES = ("dataset.image_size=16", "discriminator.batch_norm=false", "batch_size=32")
_W2, _FID = ("eval/sliced_wasserstein", "sliced Wasserstein distance"), ("eval/fid", "FID in the classifier's features")
_RING = Workload("ring", 1, ("dataset=ring", *_POINTS), 51_200, *_W2, "drawn", 4000)
_GRID = Workload("grid", 1, ("dataset=grid", *_POINTS), 128_000, *_W2, "drawn", 4000)
_WEAK = "penalty.gradient_penalty.weight=0.1"
"""On points a critic's slope of 1 is steep: with the usual weight of 10, `detach` learns in no budget tried.

Version 1 on the ring is the rescue workload.
"""
_SMALL = (
    *_family(_RING, "nonsaturating", "hinge"),
    *_family(replace(_RING, version=2, overrides=(*_RING.overrides, _WEAK)), "wgan_gp"),
    *(replace(one, name=f"{one.name}_rescue") for one in _family(_RING, "wgan_gp")),
    *_family(_GRID, "nonsaturating", "rpgan"),
    *_family(replace(_GRID, version=2, overrides=(*_GRID.overrides, _WEAK), images=256_000), "wgan_gp"),
    *_family(Workload("digits", 2, ("dataset=digits", *_IMAGES), 64_000, *_FID, "parts"), "nonsaturating", "wgan_gp", "hinge"),
    *_family(
        Workload("mnist", 2, ("dataset=mnist", *_IMAGES), 96_000, *_FID, "test part"), "nonsaturating", "wgan_gp", "hinge"
    ),
    *_family(
        Workload("stacked_mnist", 2, ("dataset=stacked_mnist", *_IMAGES), 192_000, *_FID, "test part"),
        "nonsaturating",
        "wgan_gp",
        "rpgan",
    ),
)
ORDER = ("detach", "joint", "extragradient", "resample")
"""The rules for which the question is whether the order of updates matters beside an L1 term; `g_first` updates as `joint`."""
_PAIRED = (
    "dataset=degraded",
    "dataset.of.image_size=16",
    "discriminator=patch",
    "discriminator.width=16",
    "term=[l1]",
    "loss=nonsaturating",
    "batch_size=16",
)
"""Isola et al. 2017 and Ledig et al. 2017 at 16 pixels, as in conf/experiment/pix2pix_digits.yaml and superres_digits.yaml.

They are judged by FID in the classifier's features, of what G makes of held-out sources: it tells whether outputs look like
digits, which is what the adversarial term is for. The absolute differences themselves are least without that term.
"""
_EDGES = ("dataset.how=edges", "generator=unet", "generator.width=16", "generator.depth=4")
_ENLARGED = (
    "dataset.how=downscaled",
    "dataset.factor=4",
    "dataset.enlarged=false",
    "generator=srresnet",
    "generator.width=16",
    "generator.blocks=2",
    "discriminator.reads_source=false",
)
_WITH_SOURCES = tuple(
    Workload(f"{name}_l1_{weight}", 1, (*_PAIRED, *own, f"term.l1.weight={weight}"), 9_600, *_FID, "parts", samples=299)
    for name, own in (("edges", _EDGES), ("superres", _ENLARGED))
    for weight in (1, 10, 100)
)
_LARGE = (
    Workload(
        "cifar10_sngan",
        1,
        ("experiment=sngan", "average=ema", "schedule=constant", "evaluation.features=inception"),
        16_000_000,
        "eval/fid",
        "FID in Inception's features",
        "test part",
        samples=10_000,
        machine="gpu",
    ),
    Workload(
        "stacked_mnist_dcgan",
        1,
        ("dataset=stacked_mnist", "generator.width=64", "discriminator.width=64", "batch_size=64", "loss=nonsaturating"),
        6_400_000,
        "eval/fid",
        "FID in the classifier's features",
        "test part",
        samples=10_000,
        machine="gpu",
    ),
)
WORKLOADS = {workload.name: workload for workload in (*_SMALL, *_WITH_SOURCES, *_LARGE)}
