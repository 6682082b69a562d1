"""Which options provide what a part lacks: the part says what that is, and knows no option of another group."""

from typing import Any

REMEDIES: dict[str, dict[str, Any]] = {
    "as many fakes as reals": {"g_batch": None},
    "logit scores": {"discriminator": "dcgan", "loss": "began"},
    "energy scores": {"discriminator": "began", "loss": "nonsaturating"},
    "class_loss": {"discriminator.conditioning": "classifier"},
    "no class_loss": {"loss": "acgan", "discriminator.conditioning": "projection"},
    "code": {"discriminator.returns_code": True},
    "a generator of sources": {"generator": "unet"},
    "sources": {"dataset": "degraded", "generator": "dcgan"},
    "targets": {"dataset": "degraded"},
    "features": {"discriminator": "patch"},
    "commitment": {"generator": "vq"},
    "kl": {"generator": "vae"},
    "both directions": {"generator": "two_way"},
    "no code": {"discriminator.returns_code": False},
}
"""Keys and values by the `lack` of a `Misfit`: any one of them is a remedy."""
