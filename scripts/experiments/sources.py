"""Where each claim is made: a public source, or common advice for which we know none."""

ADVICE = "common advice; we know of no public statement of it"

SOURCES: dict[int, str] = {
    1: "[pytorch/examples, issue 116](https://github.com/pytorch/examples/issues/116), where it happened to someone",
    2: (
        "[PyTorch-GAN's SoftmaxGAN](https://github.com/eriklindernoren/PyTorch-GAN/blob/master/implementations/softmax_gan/"
        "softmax_gan.py), whose loop does so"
    ),
    3: "common advice; [pytorch/examples, issue 584](https://github.com/pytorch/examples/issues/584) asks for it",
    4: "[pytorch/examples, issue 116](https://github.com/pytorch/examples/issues/116): for speed, not for correctness",
    5: "[pytorch/examples, pull request 69](https://github.com/pytorch/examples/pull/69), which saves the second pass",
    6: (
        "common advice; [detach() when PyTorch trains GAN](https://www.fatalerrors.org/a/detach-when-pytorch-trains-gan.html) "
        "sets the three side by side"
    ),
    7: ADVICE,
    8: ADVICE,
    9: ADVICE,
    10: f"{ADVICE}; the loss is that of [Lin 2017](https://arxiv.org/abs/1704.06191)",
    11: f"{ADVICE}; the two kinds of steps are studied in [Mescheder et al. 2018](https://arxiv.org/abs/1801.04406)",
    12: "[Shen et al. 2021](https://arxiv.org/abs/2103.00430)",
}
"""By the claim's number, as Markdown."""
