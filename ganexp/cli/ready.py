"""The settings of generators to play with: small ones that are trained once, on first use, and kept in the cache folder."""

SMALL = (
    *("dataset.image_size=16", "conditional=true", "generator=mlp", "discriminator=mlp", "penalty=[r1]", "penalty.r1.weight=1"),
    *("batch_size=64", "latent_dim=32", "iterations=6000", "checkpoint_every=6000", "keep_checkpoints=1", "sample_every=0"),
    *("logger=[]", "device=cpu", "threads=1", "log_every=1000"),
)
CLASSES = 10
READY = {name: (f"dataset={name}", *SMALL) for name in ("digits", "mnist")}
"""The command line that trains each; weights of G take less than a megabyte."""
