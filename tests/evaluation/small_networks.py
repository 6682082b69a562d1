"""Vision transformers of a few weights, with random weights by the names and shapes of the authors' code."""

import dataclasses

import torch
from torch_fidelity import feature_extractor_clip

from ganexp.evaluation.vision_transformers import CLIP, DINOv2

SMALL = {
    "dinov2_vits14": dataclasses.replace(DINOv2.published["dinov2_vits14"], width=128, depth=2),
    "clip_vitb32": dataclasses.replace(CLIP.published["clip_vitb32"], width=128, depth=2, embedding=24, side=64),
}


def random_weights(name, dtype=torch.float32):
    """Return random weights as they are published: by the names and shapes of the authors' code."""
    a = SMALL[name]
    tokens, w = (a.side // a.patch) ** 2 + 1, a.width
    if name.startswith("dinov2"):
        shapes = {"cls_token": (1, 1, w), "pos_embed": (1, tokens, w), "mask_token": (1, w), "norm.weight": w, "norm.bias": w}
        shapes |= {"patch_embed.proj.weight": (w, 3, a.patch, a.patch), "patch_embed.proj.bias": w}
        sizes = {
            "norm1": w,
            "norm2": w,
            "attn.qkv": (3 * w, w),
            "attn.proj": (w, w),
            "mlp.fc1": (4 * w, w),
            "mlp.fc2": (w, 4 * w),
        }
        blocks = {f"blocks.{i}.{of}": size for i in range(a.depth) for of, size in sizes.items()}
        shapes |= {f"blocks.{i}.{one}.gamma": w for i in range(a.depth) for one in ("ls1", "ls2")}
        shapes |= {f"{of}.weight": size for of, size in blocks.items()}
        shapes |= {f"{of}.bias": size if isinstance(size, int) else size[0] for of, size in blocks.items()}
    else:
        network = feature_extractor_clip.VisionTransformer(a.side, a.patch, w, a.depth, w // 64, a.embedding)
        shapes = {f"visual.{of}": tuple(value.shape) for of, value in network.state_dict().items()}
        shapes |= {"logit_scale": (), "transformer.resblocks.0.ln_1.weight": 7}  # of the text side
    draw = torch.Generator().manual_seed(0)
    return {of: (0.2 * torch.randn(size if size != () else 1, generator=draw)).to(dtype) for of, size in shapes.items()}
