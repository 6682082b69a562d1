"""The presets in the plane reach what the README says of them, at its measure and in two thirds of their iterations."""

import pytest
import torch

from ganexp import build
from ganexp.data import Grid, Ring
from ganexp.evaluation import Evaluator, Raw
from ganexp.prior import Prior
from tests.composing import composed, measures


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "data", "modes"), [("ring", Ring(), 8), ("grid", Grid(), 20)])
def test_modes_are_covered(experiment, data, modes):
    cfg = composed(f"experiment={experiment}", "logger=[]")
    cfg.iterations = cfg.iterations * 2 // 3
    trainer = build(cfg)
    trainer.fit()
    with torch.no_grad():
        latents = Prior(cfg.latent_dim, cfg.prior, seed=99).sample(2500).values
        samples = trainer.step.average.generator(latents)
    figures = Evaluator(measures("modes"), Raw((2,)), samples=2500, modes=data.modes)([samples])
    assert figures["eval/modes"] >= modes
    assert figures["eval/high_quality"] > 0.5
