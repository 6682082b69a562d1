"""Parts that draw, count or move rates: recorded iterations are eager ones, on a CPU by a tape, on a GPU by a graph."""

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.training.cuda_graph import Recorded, reason_against
from tests.composing import composed, discriminator_for, options
from tests.small_runs import NARROW, assert_never_waits
from tests.training.tape import Tapes

CLASSIFIER = ["conditional=true", "loss=acgan", "discriminator.conditioning=classifier"]
PARTS = [
    ["augment=diffaugment"],
    ["augment=ada", "augment.images=40", "augment.every=2"],
    ["augment=ada", "augment.images=40", "pack=2", "penalty=r1"],
    ["penalty=[lecam,bcr,zcr]"],
    ["pack=2", "discriminator.minibatch_deviation=true"],
    ["schedule=cosine", "schedule.warm_up=3", "optimizer=optimistic_adam"],
    ["clip_gradients=0.1"],
    ["accumulate=2", "generator.batch_norm=false"],
    ["penalty=spectral"],
    ["penalty=dragan"],
    ["penalty=[approx_r1r2,centring]", "penalty.approx_r1r2.share=0.5", "penalty.approx_r1r2.every=2"],
    ["penalty=[r1,orthogonal]"],
    ["penalty=[r1]", "penalty.r1.every=3"],
    ["wrapper=[lookahead]", "wrapper.lookahead.every=2"],
    ["wrapper=[warm_up]", "wrapper.warm_up.first=2", "wrapper.warm_up.every=3", "wrapper.warm_up.many=3"],
    ["wrapper=[topk]", "wrapper.topk.gamma=0.5", "wrapper.topk.every=2"],
    ["wrapper=[replay]", "wrapper.replay.size=32", "strategy=extragradient"],
    ["wrapper=[anchoring]", "strategy=extragradient"],
    ["strategy=extragradient", "moving={optimizer.betas.1:0.9,strategy.ahead:2,average.decay:0.5}"],
    ["discriminator=multiscale", "loss=softmaxgan", "penalty=r1"],
    ["conditional=true"],
    [*CLASSIFIER, "loss@loss.base=hinge", "discriminator=mlp"],
    ["loss=ebgan", "loss.pulling_away=0.1", "discriminator=began", "discriminator.returns_code=true"],
]
OPTIMIZERS = [[f"optimizer={optimizer}", "discriminator.spectral_norm=true"] for optimizer in options("optimizer")]
QUICK = PARTS[1], PARTS[3], PARTS[6], OPTIMIZERS[0]
each_part = pytest.mark.parametrize("parts", PARTS, ids=" ".join)


def weights(trainer):
    """Return what a run's iterations move, but for the random streams and what sums it up."""
    gan = trainer.gan
    moved = [*gan.generator.state_dict().values(), *gan.discriminator.state_dict().values()]
    groups = [*gan.optimizer_g.param_groups, *gan.optimizer_d.param_groups]
    rates = [torch.tensor([group["lr"] for group in groups])]
    return [*moved, *rates, *trainer.step.average.generator.state_dict().values(), *gan.augment.measurements().values()]


@pytest.mark.parametrize(
    "parts",
    [pytest.param(parts, marks=() if parts in QUICK else pytest.mark.slow) for parts in PARTS + OPTIMIZERS],
    ids=" ".join,
)
def test_a_recorded_run_is_the_eager_one_to_the_last_bit(parts):
    runs = []
    for recorded in (False, True):
        trainer = build(composed(*NARROW, "device=cpu", *parts, "iterations=8", "average.decay=0.9"))
        if recorded:
            trainer.step = Recorded(trainer.step, Tapes)
        trainer.fit()
        streams = (*trainer.gan.prior.streams, *trainer.gan.penalty.streams(), *trainer.gan.augment.streams())
        runs.append([*weights(trainer), *(stream.get_state() for stream in streams)])
    assert trainer.step.recordings
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.gpu
@each_part
def test_a_graph_on_a_gpu_is_the_eager_run_to_the_last_bit(parts):
    runs = []
    for graph in ("false", "true"):
        chosen = ["device=cuda", "deterministic=true", f"cuda_graph={graph}"]
        trainer = build(composed(*NARROW, *chosen, *parts, "iterations=20", "average.decay=0.9"))
        trainer.fit()
        recorded = graph == "true" and not (trainer.gan.augment.gathers or trainer.gan.penalty.gathers)
        assert isinstance(trainer.step, Recorded) == recorded
        assert not recorded or trainer.step.recordings
        runs.append(weights(trainer))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("graph", ["auto", "false"])
@each_part
def test_the_loop_never_waits_for_the_host(parts, graph):
    settings = ["device=cuda", f"cuda_graph={graph}", *parts, "iterations=20", "average.decay=0.9"]
    assert_never_waits(build(composed(*NARROW, *settings)))


@pytest.mark.parametrize(("strategy", "loss"), [("detach", "nonsaturating"), ("detach", "began"), ("one_stage", "minimax")])
def test_what_is_trained_on_a_gpu_fits_and_can_be_recorded(strategy, loss):
    """The CPU's half of `test_cuda_graph.py` and `test_trainer.py`: each of their runs is one that can be asked for."""
    chosen = [f"strategy={strategy}", f"loss={loss}", *discriminator_for(loss)]
    assert check(composed(*NARROW, "device=cpu", *chosen)).warnings == []
    settings = ["dataset=fake", "dataset.n=9", "iterations=20", "average.decay=0.9"]
    trainer = build(composed(*NARROW, "device=cpu", *chosen, *settings))
    assert reason_against(trainer.step) == ""
