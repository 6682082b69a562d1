"""Vision transformers of a few weights, with random weights by the names and shapes of the authors' code."""

import dataclasses

import torch
from torch_fidelity import feature_extractor_clip

from ganexp.evaluation.features import PUBLISHED

WIDTH, DEPTH, HEADS, TOKENS_LEARNT = 128, 2, 2, 37**2 + 1
SIZES = {"embed_dim": WIDTH, "depth": DEPTH, "num_heads": HEADS}
"""What timm's networks are given in place of the published sizes."""
SMALL = {
    "dinov2_vits14": dataclasses.replace(PUBLISHED["dinov2_vits14"], size=WIDTH),
    "clip_vitb32": dataclasses.replace(PUBLISHED["clip_vitb32"], size=24, side=64),
}


def clip(name="clip_vitb32"):
    """Return torch-fidelity's network of a small CLIP."""
    small = SMALL[name]
    return feature_extractor_clip.VisionTransformer(small.side, 32, WIDTH, DEPTH, HEADS, small.size)


def random_weights(name, dtype=torch.float32):
    """Return random weights as they are published: by the names and shapes of the authors' code."""
    w = WIDTH
    if name.startswith("dinov2"):
        shapes = {"cls_token": (1, 1, w), "pos_embed": (1, TOKENS_LEARNT, w), "mask_token": (1, w)}
        shapes |= {"norm.weight": w, "norm.bias": w, "patch_embed.proj.weight": (w, 3, 14, 14), "patch_embed.proj.bias": w}
        sizes = {
            "norm1": w,
            "norm2": w,
            "attn.qkv": (3 * w, w),
            "attn.proj": (w, w),
            "mlp.fc1": (4 * w, w),
            "mlp.fc2": (w, 4 * w),
        }
        blocks = {f"blocks.{i}.{of}": size for i in range(DEPTH) for of, size in sizes.items()}
        shapes |= {f"blocks.{i}.{one}.gamma": w for i in range(DEPTH) for one in ("ls1", "ls2")}
        shapes |= {f"{of}.weight": size for of, size in blocks.items()}
        shapes |= {f"{of}.bias": size if isinstance(size, int) else size[0] for of, size in blocks.items()}
    else:
        shapes = {f"visual.{of}": tuple(value.shape) for of, value in clip(name).state_dict().items()}
        shapes |= {"logit_scale": (), "transformer.resblocks.0.ln_1.weight": 7}  # of the text side
    draw = torch.Generator().manual_seed(0)
    return {of: (0.2 * torch.randn(size if size != () else 1, generator=draw)).to(dtype) for of, size in shapes.items()}
