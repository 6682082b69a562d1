"""Networks of the larger families train in every way, and resume to the last bit."""

import pytest
import torch

from ganexp import build
from tests.composing import composed, options, suited
from tests.small_runs import assert_same, state
from tests.tiny import iterate

SMALL = ["batch_size=4", "latent_dim=3", "logger=[]", "device=cpu"]
NETWORKS = {
    "resnet": ["generator.width=1", "discriminator.width=1", "dataset.image_size=32"],
    "r3gan": ["generator.width=2", "discriminator.width=2", "dataset.image_size=16"],
    "biggan": ["generator.width=2", "discriminator.width=2", "generator.embedding=3", "dataset.image_size=32", "latent_dim=8"],
    "stylegan2": ["generator.width=4", "discriminator.width=4", "generator.depth=2", "dataset.image_size=16"],
    "dit": [
        *(f"{side}.{setting}" for side in ("generator", "discriminator") for setting in ("width=12", "heads=3", "depth=2")),
        "dataset.image_size=8",
    ],
}
TYPED = [
    ("r3gan", "conditional=true"),
    ("stylegan2", "conditional=true penalty=[r1,path_length] penalty.r1.every=2 channels_last=true"),
    ("dit", "conditional=true generator.block=gat discriminator.block=gat penalty=[approx_r1r2,centring] loss=rpgan"),
    ("dit", "conditional=true penalty=[r1] strategy=consensus"),
    ("resnet", "conditional=true precision=bf16"),
    *((family, "strategy=detach") for family in ("resnet", "r3gan")),
    *((family, "strategy=consensus") for family in ("resnet", "r3gan")),
    *((family, "precision=fp64") for family in ("resnet", "r3gan")),
    *((family, "precision=bf16 channels_last=true") for family in ("resnet", "r3gan")),
    ("resnet", "loss=wgan_gp generator.attention=true discriminator.attention=true"),
    ("resnet", "generator.spectral_norm=true strategy=unrolled average.decay=0.9"),
    ("r3gan", "loss=wgan_gp"),
    ("biggan", "conditional=true penalty=[r1,lecam] channels_last=true"),
    ("biggan", "precision=bf16 pack=2 loss=hinge"),
    *(("dit", f"strategy={one} loss={suited(one)} discriminator.block=gat") for one in options("strategy")),
    ("stylegan2", "precision=bf16 augment=ada"),
    ("stylegan2", "strategy=one_stage loss=minimax penalty=[r1,path_length] discriminator.minibatch_deviation=false"),
    ("dit", "latent_dim=192 generator.z=tokens term=[transport] balance=normalize precision=bf16 accumulate=2"),
    ("dit", "loss=wgan_gp precision=fp64 pack=2 generator.fused=true"),
    ("dit", "generator.positions=learned discriminator.positions=learned strategy=unrolled optimizer=muon"),
    ("stylegan2", "accumulate=2 discriminator.minibatch_deviation=false penalty=[path_length]"),
]


def trained(words, iterations, stored=None):
    trainer = build(composed(*words))
    if stored is not None:
        trainer.load_state_dict(stored)
    iterate(trainer, iterations)
    return trainer


@pytest.mark.parametrize(("family", "typed"), TYPED)
@pytest.mark.slow
def test_they_train_and_resume(family, typed):
    data = [] if "conditional=true" in typed else ["dataset=fake", "dataset.n=9"]
    words = [f"generator={family}", f"discriminator={family}", *SMALL, *NETWORKS[family], *data, *typed.split()]
    half = trained(words, 2).state_dict()  # with the global streams as they are now
    begun, whole, resumed = trained(words, 0), trained(words, 3), trained(words, 1, half)
    assert_same(state(resumed), state(whole))
    moved = [(begun.gan.generator, whole.gan.generator), (begun.gan.discriminator, whole.gan.discriminator)]
    if "conditional=true" in typed and hasattr(whole.gan.discriminator, "projection"):
        moved.append((begun.gan.discriminator.projection, whole.gan.discriminator.projection))
    for before, after in moved:
        assert all(p.isfinite().all() for p in after.parameters())
        assert any(not torch.equal(a, b) for a, b in zip(before.parameters(), after.parameters(), strict=True))
    assert ("loss/g_penalty" in whole.gan.meter.so_far()) == ("path_length" in typed)
