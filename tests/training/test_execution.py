"""How networks are executed changes speed and rounding, and nothing else."""

import copy
import shutil

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from ganexp import GAN, Batch, Prior, build
from ganexp.losses import NonSaturating
from ganexp.networks import BEGANDiscriminator, DCGANDiscriminator, DCGANGenerator, MLPDiscriminator, MLPGenerator
from ganexp.penalties import GradientPenalty
from ganexp.training import execution
from ganexp.training.execution import Machine
from tests.composing import composed, suited

CPU = torch.device("cpu")
POINTS = ["dataset=ring", "generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8", "batch_size=8"]
IMAGES = ["generator.width=4", "discriminator.width=4", "batch_size=4"]


@pytest.fixture(autouse=True)
def _as_it_was():
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    yield
    torch.use_deterministic_algorithms(before[0])
    torch.set_num_threads(before[1])


def weights(*overrides, iterations=6):
    trainer = build(composed(*overrides, f"iterations={iterations}", "average.decay=0.9", "logger=[]", "prior=uniform"))
    trainer.fit()
    networks = (trainer.gan.generator, trainer.gan.discriminator, trainer.step.average.generator)
    return [parameter for network in networks for parameter in network.parameters()]


def mixed(G, D, penalty=None):
    optimizers = (torch.optim.SGD(network.parameters(), 0.1) for network in (G, D))
    execution.last_layer_in_float32(D)
    return GAN(G, D, NonSaturating(), *optimizers, Prior(16), batch_size=4, penalty=penalty, autocast=torch.bfloat16)


def test_bfloat16_is_that_of_the_products_and_of_nothing_else():
    G, x = nn.Linear(16, 8), torch.randn(4, 16)
    exact = G(x)
    out = mixed(G, nn.Sequential(nn.Linear(8, 1), nn.Flatten(0))).generate(x).values
    assert out.dtype == G.weight.dtype == torch.float32
    by_hand = torch.addmm(G.bias.bfloat16(), x.bfloat16(), G.weight.bfloat16().t()).float()
    assert torch.equal(out, by_hand)
    assert not torch.equal(out, exact)
    torch.testing.assert_close(out, exact, rtol=0.05, atol=0.05)
    (gradient,) = torch.autograd.grad(out.sum(), [G.weight])
    assert gradient.dtype == torch.float32
    assert torch.equal(G(x), exact), "a network used outside of the GAN is what it was"


def test_scores_are_not_rounded_to_bfloat16():
    """With a bias of 10, bfloat16 has steps of 1/16: sixteen different scores would become one."""
    D = nn.Sequential(nn.Linear(1, 1), nn.Flatten(0))
    D[0].weight.data.fill_(1.0)
    D[0].bias.data.fill_(10.0)
    gan = mixed(nn.Linear(16, 1), D)
    x = torch.linspace(0, 0.03, 16).unsqueeze(1)
    assert torch.equal(gan.score_real(x), D(x))
    assert len(gan.score_real(x).unique()) == 16


class Scaled(nn.Linear):
    """A linear layer whose scores are multiplied by a further input."""

    def forward(self, x, by):
        return (super().forward(x) * by).flatten()


class Further(nn.Module):
    """A discriminator whose last layer takes more than one input."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(1, 1), Scaled(1, 1)

    def forward(self, x):
        return self.last(x, self.first(x))


def test_a_last_layer_with_further_inputs_computes_in_float32_too():
    D = Further()
    assert mixed(nn.Linear(16, 1), D).score_real(torch.randn(4, 1)).dtype == torch.float32


@pytest.mark.parametrize("make", [DCGANDiscriminator, BEGANDiscriminator])
def test_the_last_layer_is_found_and_computes_in_float32(make):
    D = make((1, 16, 16), width=4)
    dtypes = []
    last = [module for module in D.modules() if isinstance(module, nn.Conv2d)][-1]
    last.register_forward_hook(lambda module, inputs, out: dtypes.append((inputs[0].dtype, out.dtype)))
    gan = mixed(DCGANGenerator(16, (1, 16, 16), width=4), D)
    scores = gan.score_fake(gan.generate(gan.sample()))
    assert scores.dtype == torch.float32
    assert dtypes[-1][1] == torch.float32


def test_a_penalty_sees_slopes_in_float32():
    torch.manual_seed(0)
    D = MLPDiscriminator((2,), width=64)
    gan = mixed(nn.Linear(16, 2), D, GradientPenalty())
    x, fake = torch.randn(4, 2), torch.randn(4, 2)
    by_hand = GradientPenalty()
    by_hand.begin(0, CPU)
    assert torch.equal(gan.d_loss(x, fake).penalty, 10 * by_hand(D, Batch(x), Batch(fake)).mean())


@pytest.mark.parametrize(
    "strategy", ["detach", "one_stage", *(pytest.param(name, marks=pytest.mark.slow) for name in ("unrolled", "consensus"))]
)
def test_bfloat16_trains_as_float32_does_but_for_its_rounding(strategy):
    wide = [*POINTS, f"strategy={strategy}", f"loss={suited(strategy)}", "precision=fp32"]
    exact, rounded = weights(*wide), weights(*wide[:-1], "precision=bf16")
    apart = torch.cat([(a - b).flatten() for a, b in zip(exact, rounded, strict=True)]).abs()
    assert 0 < apart.mean() < 1e-3  # six steps of Adam go up to 6 · 2e-4


@pytest.mark.parametrize(
    "chosen", [["loss=nonsaturating"], ["loss=wgan_gp"], ["generator=began", "discriminator=began", "loss=began"]]
)
def test_channels_last_moves_no_value_beyond_rounding(chosen):
    ends = [weights(*IMAGES, *chosen, f"channels_last={on}", iterations=3) for on in ("false", "true")]
    assert any(p.is_contiguous(memory_format=torch.channels_last) and not p.is_contiguous() for p in ends[1])
    torch.testing.assert_close(*ends, rtol=1e-2, atol=2e-4)  # Adam's first steps have the size of lr whatever the gradient's


def test_auto_lays_convolutions_out_where_that_was_measured_to_be_faster():
    network = DCGANDiscriminator((1, 16, 16), width=4)
    assert execution.prefers_channels_last(network, Machine(CPU, "fp32"))
    assert not execution.prefers_channels_last(network, Machine(CPU, "fp64"))
    assert not execution.prefers_channels_last(network, Machine(torch.device("cuda"), "fp32"))
    assert execution.prefers_channels_last(network, Machine(torch.device("cuda"), "tf32"))
    assert not execution.prefers_channels_last(network, Machine(torch.device("cuda"), "tf32"), compiled=True)
    assert not execution.prefers_channels_last(MLPGenerator(3, (2,)), Machine(CPU, "fp32"))


def test_auto_is_float32_on_a_cpu():
    assert Machine.resolved("cpu", "auto") == Machine(CPU, "fp32")


def test_deterministic_and_threads_are_set_for_the_process():
    build(composed(*POINTS, "deterministic=true", "threads=2"))
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 2
    build(composed(*POINTS))
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_compiled_networks_train_as_others(recwarn):
    eager, compiled = (weights(*POINTS, "strategy=one_stage", f"compile={on}", "sample_every=2") for on in ("false", "true"))
    torch.testing.assert_close(eager, compiled, rtol=1e-4, atol=1e-6)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("c++") is None, reason="needs a C++ compiler")
def test_compiled_spectral_norm_can_be_passed_twice_before_the_backward_pass():
    torch.manual_seed(0)
    eager = nn.Sequential(spectral_norm(nn.Conv2d(3, 2, 1)), nn.ReLU(), nn.Flatten(1), spectral_norm(nn.Linear(8, 1)))
    compiled, (x, fake) = copy.deepcopy(eager), torch.randn(2, 4, 3, 2, 2)
    execution.compiled(compiled)
    for network in (eager, compiled):
        (network(x).square().sum() + network(fake).square().sum()).backward()
    for a, b in zip(eager.parameters(), compiled.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    for a, b in zip(eager.buffers(), compiled.buffers(), strict=True):
        torch.testing.assert_close(a, b)
