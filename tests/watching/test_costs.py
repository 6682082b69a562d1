"""What a watched iteration takes, against closed forms and ganexp's own counts."""

import copy
import itertools

import pytest
import torch
from torch import nn

import ganexp
from ganexp.instruments.counting import LiveActivations, operations, weights_of
from ganexp.watching.report import often
from tests.watching.broken import alternating
from tests.watching.loops import LATENT, SIZE, SOUND, B, d_loss, g_loss, setting
from tests.watching.own import NAMED, gan_and_reals, watched

HIDDEN, BYTES = 16, 4
"""The width of the networks of `setting`, and the bytes of a number."""


def seen_of(step, iterations=2):
    with ganexp.watch() as report:
        for _ in range(iterations):
            step()
    return report


def kept(inputs):
    """Return the numbers that a pass keeps: its input, and before and after the rectifier in the middle."""
    return B * (inputs + 2 * HIDDEN)


LOSS = 2 * B  # a loss on logits keeps scores and targets


@pytest.mark.parametrize(
    ("name", "numbers"),
    {
        "kept_graph": kept(LATENT) + 2 * kept(SIZE) + 2 * LOSS,  # G, real and fake at once
        "dcgan_tutorial": kept(LATENT) + kept(SIZE) + LOSS,  # G beside D on fakes alone
        "latents_again": 2 * kept(SIZE) + 2 * LOSS,  # D's step, whose fakes have no graph
    }.items(),
)
def test_activations_at_the_peak_are_those_of_the_closed_form(name, numbers):
    assert seen_of(SOUND[name][0]()[1]).activations == BYTES * numbers


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.slow
def test_the_counts_are_those_of_an_unwatched_iteration(name):
    strategy = copy.deepcopy(NAMED[name])
    report = watched(strategy)
    gan, reals = gan_and_reals()
    for _ in range(2):
        strategy(gan, reals, d_steps=1, g_steps=1)
    count = operations(lambda: strategy(gan, reals, d_steps=1, g_steps=1))
    with LiveActivations(weights_of(gan.generator, gan.discriminator)) as activations:
        strategy(gan, reals, d_steps=1, g_steps=1)
    assert (report.operations, report.activations) == (count, activations.peak)


@pytest.mark.parametrize("name", ["detach", "joint"])
def test_what_a_strategy_would_take_instead_is_what_it_takes(name):
    of = watched(NAMED["resample"])
    (instead,) = (one for one in of.instead if one.strategy == name)
    own = watched(NAMED[name])
    assert (instead.operations, instead.activations) == (own.operations, own.activations)


def test_several_steps_are_counted_instead():
    report = seen_of(SOUND["wgan_clipped"][0]()[1])
    one, five = (watched(NAMED["detach"], d_steps=n).operations for n in (1, 5))
    g, d = 2 * B * (LATENT * HIDDEN + HIDDEN * SIZE), 2 * B * (SIZE * HIDDEN + HIDDEN)
    assert five > one
    assert {one.strategy: one.operations for one in report.instead}["detach"] == sum(
        [
            5 * (2 * d + 2 * (2 * d - 2 * B * SIZE * HIDDEN)),  # D on real and fake, without gradients by samples
            5 * g + (2 * g - 2 * B * LATENT * HIDDEN) + 2 * d,  # G, then through D by samples alone
        ]
    )


def test_costs_name_what_is_thrown_away():
    """The textbook loop fills D's gradients in G's step; with `inputs=`, it does not."""
    report = seen_of(alternating(setting())[1])
    assert [one.what for one in report.costs if "no step uses" in one.remark] == ["bDG"]
    assert all(one.ms > 0 for one in report.costs)


def test_operations_are_counted_as_in_closed_form():
    """Of the 9d + 3g of the textbook loop, d are thrown away: the gradients by D's weights in G's step."""
    p, step = alternating(setting())
    report = seen_of(step)
    g, d = (2 * B * sum(one.weight.numel() for one in net if isinstance(one, nn.Linear)) for net in (p.G, p.D))
    first = 2 * B * p.D[0].weight.numel(), 2 * B * p.G[0].weight.numel()
    forward = g + 3 * d
    backward = 2 * (2 * d - first[0]) + 2 * d + (2 * g - first[1])  # no gradients by what is given
    assert sum(one.operations for one in report.costs) == forward + backward
    assert sum(one.wasted for one in report.costs) == d


def test_functional_gradients_run_as_they_do_unwatched():
    """torch.func refuses hooks on saved tensors, which watching has; it does not meet them."""
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step(), step()
        slope = torch.func.grad(lambda x: (x**3).sum())(torch.ones(2))
    assert torch.equal(slope, torch.full((2,), 3.0))
    assert report.rule == "detach"


def read_in_turns():
    """Return a loop that reads a value once before it, a loss in each iteration, and two values in every third."""
    p, usual = alternating(setting())
    turns = itertools.count()
    p.D(p.x()).mean().item()

    def step():
        usual()
        p.D(p.x()).mean().item()
        if next(turns) % 3 == 2:
            float(p.D(p.x()).mean().detach()), int(p.D(p.x()).mean().detach())

    return step


def test_values_that_are_read_are_a_cost_with_its_rate_and_no_fault():
    """A loss that is read in each iteration, and two values in every third; what is read before the loop has no rate."""
    with ganexp.watch() as report:
        step = read_in_turns()
        for _ in range(10):
            step()
    assert (report.rule, report.faults) == ("detach", [])
    assert [(one.place.rpartition("/")[2].partition(":")[0], one.per_iteration) for one in report.waits] == [
        ("test_costs.py", 1.0),
        ("test_costs.py", 2 / 3),
    ]
    assert len({one.place for one in report.waits}) == 2


@pytest.mark.parametrize("before_the_steps", [True, False])
def test_what_is_read_for_the_first_picture_has_no_rate(before_the_steps):
    p, usual = alternating(setting())
    turns = itertools.count()

    def picture():
        if next(turns) % 1000 == 0:
            p.G(p.z()).min().item(), p.G(p.z()).max().item()

    def step():
        if before_the_steps:
            picture()
        usual()
        if not before_the_steps:
            picture()

    assert seen_of(step, 3).waits == []


def test_the_iteration_that_is_not_complete_does_not_raise_a_rate():
    with ganexp.watch() as report:
        p, usual = alternating(setting())
        for number in range(4):
            p.og.zero_grad()
            p.D(p.x()).mean().item()
            if number < 3:
                usual()
    assert [one.per_iteration for one in report.waits] == [1.0]


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (1.0, "in each iteration"),
        (3.0, "3 times per iteration"),
        (21.0, "21 times per iteration"),
        (0.001, "once per 1,000 iterations"),
        (2 / 3, "2 times per 3 iterations"),
        (1234.0, "1,234 times per iteration"),
        (1 / 99_999, "once per 99,999 iterations"),
    ],
)
def test_rates_are_said_without_powers_of_ten(rate, words):
    assert often(rate) == words


def test_fakes_from_the_same_latents_are_new_ones_once_g_has_moved():
    report = seen_of(SOUND["lightning_module"][0]()[1])
    assert not [one for one in report.costs if "twice" in one.remark]


def test_gradients_that_a_third_optimiser_uses_are_not_thrown_away():
    """PyTorch-GAN's InfoGAN: an optimiser of G and D together moves them along a loss of its own."""
    with ganexp.watch() as report:
        p, usual = alternating(setting())
        both = torch.optim.Adam([*p.G.parameters(), *p.D.parameters()], 1e-3)
        for _ in range(2):
            usual()
            both.zero_grad()
            p.D(p.G(p.z())).square().mean().backward()
            both.step()
        usual()
    assert [one.what for one in report.costs if "no step uses" in one.remark] == ["bDG"]


def test_labels_that_become_one_hot_are_read_on_a_cpu_only_and_so_are_no_wait():
    _, usual = alternating(setting())

    def step():
        usual()
        torch.nn.functional.one_hot(torch.arange(B) % 3, 3)

    assert seen_of(step).waits == []


def test_what_a_data_loader_reads_is_no_wait_of_the_loop():
    p, usual = alternating(setting())
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(p.x()), B, shuffle=True)

    def step():
        for _ in loader:
            usual()

    assert seen_of(step).waits == []


def test_what_is_read_to_prepare_samples_on_the_cpu_is_no_wait():
    """As transforms do: these values are on the CPU wherever the networks are."""
    p, usual = alternating(setting())
    deviation = torch.tensor(0.5)

    def step():
        x = torch.randn(B, SIZE)
        if (deviation == 0).any() or torch.rand(1).item() < 0.5:
            x = x.flip(0)
        p.x = lambda: x / float(x.std())
        usual()

    assert seen_of(step, 3).waits == []


def test_a_norm_of_gradients_is_a_wait():
    p, usual = alternating(setting())

    def step():
        usual()
        sum(one.grad.square().sum() for one in p.D.parameters()).item()

    assert [one.per_iteration for one in seen_of(step, 3).waits] == [1.0]


def picture(p):
    with torch.no_grad():
        p.D(p.G(torch.randn(100, LATENT)))


def validation(p):
    p.D.eval()
    with torch.no_grad():
        for _ in range(5):
            p.D(p.x())
    p.D.train()


def lazy_penalty(p):
    p.od.zero_grad()
    x = p.x().requires_grad_()
    (slope,) = torch.autograd.grad(p.D(x).sum(), x, create_graph=True)
    slope.square().sum().backward()
    p.od.step()


@pytest.mark.parametrize("every", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("further", [picture, validation])
def test_pictures_and_validation_are_no_part_of_an_iteration(further, every):
    p, usual = alternating(setting())
    plain = seen_of(alternating(setting())[1])
    turns = itertools.count()

    def step():
        usual()
        if next(turns) % every == 0:
            further(p)

    report = seen_of(step, 6)
    assert (report.operations, report.activations) == (plain.operations, plain.activations)
    assert [one.what for one in report.costs] == [one.what for one in plain.costs]
    assert report.instead == plain.instead


def test_what_is_set_up_before_the_loop_is_no_part_of_an_iteration():
    plain = seen_of(alternating(setting())[1])
    with ganexp.watch() as report:
        p, step = alternating(setting())
        p.D(p.G(torch.randn(100, LATENT)))
        step(), step(), step()
    assert report.operations == plain.operations


def test_a_penalty_in_some_iterations_is_no_part_of_the_typical_one():
    p, usual = alternating(setting())
    plain = seen_of(alternating(setting())[1])
    turns = itertools.count()

    def step():
        if next(turns) % 4 == 0:
            lazy_penalty(p)
        usual()

    assert seen_of(step, 4).operations == plain.operations


def test_the_loop_and_others_are_counted_with_the_same_steps():
    """G moves in iterations 0, 5, 10, …, so that there is one step of D before its first step, and five before its others."""
    p, turns = setting(), itertools.count()

    def step():
        p.od.zero_grad()
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        if next(turns) % 5 == 0:
            p.og.zero_grad()
            g_loss(p.D(fake)).backward(inputs=[*p.G.parameters()])
            p.og.step()

    report = seen_of(step, 11)
    assert report.operations == {one.strategy: one.operations for one in report.instead}["detach"]


def l1(p, fake):
    return (fake - p.x()).abs().mean()


def of_real(p, fake):
    return p.D(p.x()).mean()


@pytest.mark.parametrize("term", [l1, of_real])
def test_others_are_not_beside_a_loop_with_further_terms(term):
    p = setting()

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        (g_loss(p.D(fake)) + term(p, fake)).backward()
        p.og.step()

    report = seen_of(step)
    assert report.instead == []
    assert report.uncounted.startswith("G's loss")
    assert report.uncounted in report.text(verbose=True)


def test_passes_that_no_gradient_reads_are_named_at_their_lines():
    p, usual = alternating(setting())

    def step():
        fake = p.G(p.z())
        p.D(p.x()).detach(), p.D(fake)  # of a loss that is overwritten
        usual()

    report = seen_of(step)
    d = 2 * B * sum(one.weight.numel() for one in p.D if isinstance(one, nn.Linear))
    g = 2 * B * sum(one.weight.numel() for one in p.G if isinstance(one, nn.Linear))
    assert [(one.what, one.wasted) for one in report.costs if "no gradient reads" in one.remark] == [
        ("G", g),
        ("r", d),
        ("f", d),
    ]
    assert "r at " in str(report)


def test_a_backward_pass_whose_gradients_are_cleared_before_any_step_is_named():
    p, usual = alternating(setting())

    def step():
        usual()
        p.D(p.x()).mean().backward()
        p.od.zero_grad()

    report = seen_of(step, 3)
    (row,) = [one for one in report.costs if "no step moves" in one.remark]
    assert row.wasted == row.operations > 0


def attached(p, **inputs):
    """Return a loop whose first backward pass goes on into G, and whose second writes into D: `inputs` prevents both."""
    d, g = ({"inputs": [*net.parameters()]} if inputs else {} for net in (p.D, p.G))

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake)).backward(retain_graph=True, **d)
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward(**g)
        p.og.step()

    return step


def conv(*_):
    """Return players with convolutions and transposed ones, a weight that is used twice, and a product of two features."""
    p = setting()

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.last = nn.Linear(16, 16), nn.Linear(16, 1)

        def forward(self, x):
            h = torch.relu(self.inner(x))
            h = torch.relu(self.inner(h))
            return self.last(h + torch.bmm(h.view(-1, 4, 4), h.view(-1, 4, 4)).flatten(1))

    p.G = nn.Sequential(nn.Unflatten(1, (4, 1, 1)), nn.ConvTranspose2d(4, 3, 2), nn.ReLU(), nn.Conv2d(3, 1, 1), nn.Flatten())
    p.D = nn.Sequential(nn.Unflatten(1, (1, 2, 2)), nn.Conv2d(1, 4, 1), nn.Flatten(), nn.ReLU(), Twice())
    p.og, p.od = (torch.optim.Adam(net.parameters(), 1e-3) for net in (p.G, p.D))
    p.x = lambda: torch.randn(B, 4)
    return p


@pytest.mark.parametrize("make", [setting, conv])
def test_what_is_thrown_away_is_what_inputs_save(make):
    """D's own step needs most of the gradients by its inputs; what is left out is counted in the loop that leaves it out."""
    wasteful, lean = (seen_of(attached(make(), **inputs)) for inputs in ({}, {"of each": "network"}))
    assert sum(one.wasted for one in wasteful.costs) == wasteful.operations - lean.operations > 0
    assert not [one for one in lean.costs if one.wasted]
    assert not [one for one in wasteful.costs if "no step moves" in one.remark]
    assert [one.remark.rpartition("inputs=")[2] for one in wasteful.costs if one.wasted] == [
        "[*D.parameters()]) leaves them out",
        "[*G.parameters()]) leaves them out",
    ]


def test_what_an_encoder_and_a_generator_learn_from_is_not_thrown_away():
    """Two players on one side: each backward pass fills the gradients of both, and of D, and one of the three is used."""
    p = setting()
    E = nn.Linear(SIZE, LATENT)
    optimizer_e = torch.optim.Adam(E.parameters(), 1e-3)
    nets = p.G, p.D, E

    def reset():
        for net in nets:
            net.zero_grad()

    def step():
        x = p.x()
        d_loss(p.D(x), p.D(p.G(p.z()).detach())).backward()
        p.od.step(), reset()
        (g_loss(p.D(p.G(E(x)))) + g_loss(p.D(p.G(p.z())))).backward()
        p.og.step(), reset()
        g_loss(p.D(p.G(E(x)))).backward()
        optimizer_e.step(), reset()

    report = seen_of(step, 3)
    remarks = [one.remark for one in report.costs if one.what.startswith("b") and one.wasted]
    assert [remark.partition(";")[0] for remark in remarks] == [
        "gradients of D and E that no step uses",
        "gradients of D and G that no step uses",
    ]
    assert all(f"inputs=[*{name}.parameters()]" in remark for name, remark in zip("GE", remarks, strict=True))


@pytest.mark.parametrize("iterations", [2, 3])
def test_gradients_that_the_next_iteration_uses_are_not_thrown_away(iterations):
    """D's gradients are never cleared, so that its next step moves along those of G's loss, too: a fault, and no waste."""
    p = setting()

    def step():
        fake = p.G(p.z())
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    report = seen_of(step, iterations)
    assert "other_loss" in {fault.kind for fault in report.fault_records}
    assert not [one for one in report.costs if one.wasted]
