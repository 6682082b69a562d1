"""What rows are made of: every key with its meaning, and which of its values a table of runs should show."""

KEYS: dict[str, tuple[str, str]] = {
    "loss/d": ("mean over the interval, without the penalty", "last"),
    "loss/g": ("mean over the interval", "last"),
    "loss/penalty": ("mean over the interval", "last"),
    "score/real": ("mean score of real images in D's updates", "last"),
    "score/fake": ("mean score of generated images in D's updates", "last"),
    "grad_norm/d": ("norm of D's whole gradient in the interval's last iteration", "last,max"),
    "grad_norm/g": ("norm of G's whole gradient in the interval's last iteration", "last,max"),
    "began/k_t": ("BEGAN's control variable", "last,max"),
    "began/convergence": ("BEGAN's convergence measure M", "last,min"),
    "softmaxgan/d_excess": ("how far D's loss lies above ln B", "last,min"),
    "softmaxgan/g_excess": ("how far G's loss lies above ln 2B", "last,min"),
    "time/iteration_ms": ("one iteration", "mean,last"),
    "time/data_ms": ("of it, waiting for data", "mean,last"),
    "time/d_ms": ("of it, D's part", "mean,last"),
    "time/g_ms": ("of it, G's part, every generation included", "mean,last"),
    "speed/images_per_s": ("real images per second", "mean,last"),
    "memory/peak_mib": ("peak of memory so far", "max"),
    "progress/iteration": ("iterations done", "last"),
    "progress/real_images": ("real images seen", "last"),
    "progress/d_updates": ("updates of D", "last"),
    "progress/g_updates": ("updates of G", "last"),
    "progress/wall_s": ("seconds since training began", "last"),
}
"""By key: what it is, and W&B's summaries of it. Keys of losses from outside are not here; they are logged all the same."""

STEPS = ("progress/iteration", "progress/real_images", "progress/wall_s")
"""What a chart can have as its x-axis."""


def may_be_logged(key: str) -> bool:
    """Say whether rows may have a key: a known one, or one below a name of its own, as losses from outside have."""
    group, slash, _ = key.partition("/")
    return key in KEYS or (bool(slash) and group not in {known.partition("/")[0] for known in KEYS})
