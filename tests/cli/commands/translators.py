"""Small runs of translators: what is typed for them."""

SMALL = [
    *("dataset.of.image_size=16", "discriminator.layers=1", "discriminator.width=2", "batch_size=4"),
    *("iterations=1", "logger=[]", "device=cpu"),
]
UNET = [
    "dataset=degraded",
    "dataset.how=noisy",
    "generator=unet",
    "generator.width=2",
    "generator.depth=3",
    "discriminator=patch",
]
LARGER = ["dataset=degraded", "dataset.enlarged=false", "generator=srresnet", "generator.width=2", "generator.blocks=1"]
TWO_WAY = [
    *("dataset=separated", "dataset.of.of.image_size=16", "generator=two_way", "generator.of.width=2", "generator.of.blocks=1"),
    *("discriminator=two_way", "discriminator.of.layers=1", "discriminator.of.width=2"),
    *(one for one in SMALL if not one.startswith(("dataset", "discriminator"))),
]
