"""A loop has one name wherever watching begins and whoever moves first, and phases are told."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.functional import softplus

import ganexp
from ganexp.watching.turns import Turn
from tests.watching.loops import LATENT, SIZE, d_loss, g_loss, mlp, setting

CODE = compile("", "loop.py", "exec")


class Steps:
    """The parts that loops are put together from: a step of each player on given fakes."""

    def __init__(self):
        self.p = setting()
        self.turn = 0

    def d(self, fake):
        self.p.od.zero_grad()
        d_loss(self.p.D(self.p.x()), self.p.D(fake.detach())).backward()
        self.p.od.step()

    def g(self, fake):
        self.p.og.zero_grad()
        g_loss(self.p.D(fake)).backward()
        self.p.og.step()

    def fake(self):
        return self.p.G(self.p.z())


def d_begins_late(s):
    fake = s.fake()
    if s.turn >= 2:
        s.d(fake)
    s.g(fake)


def d_begins_late_on_its_own_fakes(s):
    if s.turn >= 2:
        s.d(s.fake())
    s.g(s.fake())


def g_begins_late(s):
    fake = s.fake()
    s.g(fake) if s.turn >= 3 else None
    s.d(fake)


def g_begins_late_on_its_own_fakes(s):
    s.g(s.fake()) if s.turn >= 2 else None
    s.d(s.fake())


def g_begins_late_after_d(s):
    fake = s.fake()
    s.d(fake)
    if s.turn >= 3:
        s.g(fake)


def d_in_every_second(s):
    fake = s.fake()
    if s.turn % 2 == 0:
        s.d(fake)
    s.g(fake)


def g_in_every_third(s):
    s.d(s.fake())
    if s.turn % 3 == 0:
        s.g(s.fake())


def g_before_three_of_d(s):
    s.g(s.fake())
    for _ in range(3):
        s.d(s.fake())


def both_twice(s):
    for _ in range(2):
        fake = s.fake()
        s.d(fake)
        s.g(fake)


def both_twice_in_lines(s):
    s.d(fake := s.fake())
    s.g(fake)
    s.d(fake := s.fake())
    s.g(fake)


RULES = {
    d_begins_late: ("detach", 1, 1),
    d_begins_late_on_its_own_fakes: ("resample", 1, 1),
    g_begins_late: ("g_first", 1, 1),
    g_begins_late_on_its_own_fakes: ("g_first_resample", 1, 1),
    g_begins_late_after_d: ("detach", 1, 1),
    d_in_every_second: ("detach", 1, 2),
    g_in_every_third: ("resample", 3, 1),
    g_before_three_of_d: ("g_first_resample", 3, 1),
    both_twice: ("detach", 1, 1),
    both_twice_in_lines: ("detach", 1, 1),
}


def watched_from(loop, begin, iterations=10):
    steps = Steps()
    for _ in range(begin):
        loop(steps)
        steps.turn += 1
    with ganexp.watch() as report:
        for _ in range(iterations):
            loop(steps)
            steps.turn += 1
    return report


@pytest.mark.parametrize("begin", range(4))
@pytest.mark.parametrize("letters", ["dg", "gddd", "dgdd", "dddg", "ddgg"])
def test_a_turn_begins_where_the_code_goes_back_over_both_players(letters, begin):
    """A letter that follows its like is a further step of the same line: in `dgdd`, there are two lines with a `d`."""
    lines = itertools.accumulate((a != b for a, b in itertools.pairwise(letters)), initial=0)
    steps = itertools.cycle(enumerate(zip(letters, lines, strict=True)))
    turn = Turn()
    begins = [number for number, (who, line) in itertools.islice(steps, begin, 20) if turn.begins(who, ((CODE, line),))]
    assert len(begins) > 1
    assert {*begins} == {0}


@pytest.mark.parametrize("begin", [pytest.param(0, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow), 8])
@pytest.mark.parametrize("loop", RULES, ids=lambda loop: loop.__name__)
def test_one_name_wherever_watching_begins(loop, begin):
    report = watched_from(loop, begin)
    rule = report.identified
    assert (rule.name, rule.d_steps, rule.g_steps, report.faults) == (*RULES[loop], []), str(report)
    assert report.difference == 0, report.checked


def test_steps_that_a_scaler_leaves_out_change_no_name():
    """At first the scale is too large for finite gradients: steps of both are left out, and then those of D alone."""
    p = setting()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127)
    with ganexp.watch() as report:
        for _ in range(24):
            fake = p.G(p.z())
            p.od.zero_grad()
            scaler.scale(1e3 * d_loss(p.D(p.x()), p.D(fake.detach()))).backward()
            scaler.step(p.od)
            p.og.zero_grad()
            scaler.scale(10 * g_loss(p.D(fake))).backward()
            scaler.step(p.og)
            scaler.update()
    assert (report.rule, report.traces[-1]) == ("detach", "z G r f' D+ f G+"), str(report)
    assert 5 < report.iterations < 20
    assert "of G alone" in report.identified.earlier


def test_a_player_that_moved_alone_before_is_told():
    assert "before: the first 2 steps are of G alone" in str(watched_from(d_begins_late, 0))
    assert "before:" not in str(watched_from(d_begins_late, 3))


def test_a_phase_with_another_rule_is_told():
    def warm(s):
        for _ in range(4 if s.turn < 2 else 1):
            s.d(s.fake())
        s.g(s.fake())

    report = watched_from(warm, 0, 5)
    assert (report.rule, report.identified.d_steps) == ("resample", 1)
    assert "before: iteration 2 and those before it differ, as resample d_steps=4 g_steps=1" in str(report)


def test_iterations_without_a_period_get_no_name():
    counts = itertools.cycle([1, 3, 2, 4])

    def adaptive(s):
        for _ in range(next(counts)):
            s.d(s.fake())
        s.g(s.fake())

    assert "its iterations differ" in watched_from(adaptive, 0, 4).identified.why


def test_an_evaluation_before_training_is_no_part_of_it():
    """As Lightning's sanity check: batch norm is in evaluation mode there, and in training mode afterwards."""
    p = setting()
    p.G = mlp(LATENT, SIZE, nn.BatchNorm1d(16))
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
    with ganexp.watch() as report:
        with torch.no_grad():
            p.G.eval()(p.z())
        p.G.train()
        for _ in range(2):
            fake = p.G(p.z())
            p.og.zero_grad()
            g_loss(p.D(fake)).backward()
            p.og.step()
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(fake.detach())).backward()
            p.od.step()
    assert (report.rule, report.difference) == ("g_first", 0), str(report)


def partly_frozen(p):
    p.D[0].requires_grad_(False)


def in_evaluation_mode(p):
    p.G = mlp(LATENT, SIZE, nn.BatchNorm1d(16))
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
    for _ in range(3):
        p.G(3 * p.z())  # running statistics that are not those of a new network
    p.G.eval()


def with_dropout_in_a_part(p):
    p.G = mlp(LATENT, SIZE, nn.Dropout(0.5), nn.Sequential(nn.BatchNorm1d(16)).eval())
    p.og = torch.optim.Adam(p.G.parameters(), 1e-3)


@pytest.mark.parametrize("change", [partly_frozen, in_evaluation_mode, with_dropout_in_a_part])
def test_passes_are_repeated_in_their_state(change):
    steps = Steps()
    change(steps.p)
    for _ in range(4):
        d_begins_late(steps)
    steps.turn = 5
    with ganexp.watch() as report:
        for _ in range(3):
            d_begins_late(steps)
    assert (report.rule, report.difference) == ("detach", 0), str(report)


def test_passes_in_a_narrower_type_are_repeated_in_it():
    p = setting(torch.optim.SGD)
    with ganexp.watch() as report:
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                fake = p.G(p.z())
                of_d = d_loss(p.D(p.x()), p.D(fake.detach()))
            p.od.zero_grad()
            of_d.backward()
            p.od.step()
            p.og.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                of_g = g_loss(p.D(fake))
            of_g.backward()
            p.og.step()
    assert report.rule == "detach", str(report)
    assert report.difference < 5e-3, "bfloat16 sums in another order"


def test_fakes_from_the_same_latents_at_the_same_weights_are_the_same():
    """Two passes of G on one z: before either step, after D's, before G's, and after G's."""

    def order(text):
        p = setting()
        with ganexp.watch() as report:
            for _ in range(3):
                z, fakes = p.z(), []
                p.od.zero_grad(), p.og.zero_grad()
                for letter in text:
                    if letter == "z":
                        fakes.append(p.G(z))
                    elif letter == "d":
                        d_loss(p.D(p.x()), p.D(fakes.pop(0).detach())).backward(inputs=[*p.D.parameters()])
                    elif letter == "g":
                        g_loss(p.D(fakes.pop(0))).backward(inputs=[*p.G.parameters()])
                    else:
                        {"D": p.od, "G": p.og}[letter].step()
        assert report.difference == 0, str(report)
        return report.rule

    assert order("zdzgDG") == "joint"
    assert order("zdDzgG") == "reuse_z"
    assert order("zgzGdD") == "g_first"
    assert order("zgGzdD") == "g_first_reuse_z"


def beside(further):
    """Return a report of a loop in which a third optimiser moves along a loss of its own."""
    p = setting()
    third, loss = further(p)
    with ganexp.watch() as report:
        for _ in range(3):
            fake = p.G(p.z())
            p.og.zero_grad()
            g_loss(p.D(fake)).backward()
            p.og.step()
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(fake.detach())).backward()
            p.od.step()
            third.zero_grad()
            loss().backward()
            third.step()  # the third optimiser
    return report


def of_both(p):
    """Chen et al. 2016, as a step of its own: G and D learn that the code can be read from the fakes."""
    return torch.optim.Adam([*p.G.parameters(), *p.D.parameters()], 1e-3), lambda: p.D(p.G(p.z())).square().mean()


def of_g_alone(p):
    return torch.optim.Adam(p.G.parameters(), 1e-3), lambda: p.G(p.z()).square().mean()


def of_another_network(p):
    e = mlp(SIZE, LATENT)
    return torch.optim.Adam(e.parameters(), 1e-3), lambda: e(p.x()).square().mean()


@pytest.mark.parametrize(
    ("further", "moves"),
    [(of_both, "weights of D and G along"), (of_g_alone, "weights of G along"), (of_another_network, "a network of its own")],
)
def test_a_third_optimiser_is_named_beside_the_rule(further, moves):
    with open(__file__, encoding="utf-8") as file:
        (line,) = (number for number, text in enumerate(file, 1) if text.endswith("# the third optimiser\n"))
    report = beside(further)
    assert (report.rule, report.faults) == ("g_first", []), str(report)
    (told,) = report.identified.left_out
    assert told.startswith("the step of a third optimiser at ")
    assert f"test_turns.py:{line}, which moves {moves}" in told


def test_the_command_has_all_that_makes_the_rule_and_tells_what_it_leaves_out():
    """R3GAN's order: G's loss compares with real samples of its own."""
    p = setting(torch.optim.SGD)
    with ganexp.watch() as report:
        for _ in range(3):
            fake = p.G(p.z())
            p.og.zero_grad()
            (softplus(p.D(p.x()) - p.D(fake)).mean() + fake.square().mean()).backward()
            p.og.step()
            for _ in range(2):
                p.od.zero_grad()
                softplus(p.D(p.G(p.z()).detach()) - p.D(p.x())).mean().backward()
                p.od.step()
                for one in p.D.parameters():
                    one.data.clamp_(-1, 1)
    assert report.identified.command == "ganexp train strategy=g_first_resample strategy.new_reals=true d_steps=2"
    assert [told.partition(" (")[0] for told in report.identified.left_out] == [
        "further terms of G's loss",
        "the clipping of D's weights",
    ]


def test_a_pool_that_is_not_full_is_told():
    """As in CycleGAN's code, a pool gives the fakes themselves until it has fifty."""
    pool = []

    def shown(fakes):
        for fake in fakes.detach():
            pool.append(fake[None])
            yield pool[-1] if len(pool) < 50 else pool[len(pool) % 7]

    steps = Steps()
    with ganexp.watch() as report:
        for _ in range(3):
            fake = steps.fake()
            steps.d(torch.cat([*shown(fake)]))
            steps.g(fake)
    assert (report.rule, report.difference) == ("detach", 0), str(report)
    (told,) = report.identified.left_out
    assert told.startswith("a pool of old fakes")


def test_fakes_that_a_copy_of_d_scores_are_told():
    """G learns from a step ahead of D on weights of its own: it moves, though not through D's passes."""
    p = setting()
    with ganexp.watch() as report:
        for _ in range(2):
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())).backward()
            p.od.step()
            ahead = {name: one.detach().clone().requires_grad_() for name, one in p.D.named_parameters()}

            def scored(x, weights):
                return torch.func.functional_call(p.D, weights, (x,))

            by = torch.autograd.grad(
                d_loss(scored(p.x(), ahead), scored(p.G(p.z()), ahead)), [*ahead.values()], create_graph=True
            )
            ahead = {name: one - 0.1 * d for (name, one), d in zip(ahead.items(), by, strict=True)}
            p.og.zero_grad()
            g_loss(scored(p.G(p.z()), ahead)).backward()
            p.og.step()
    assert (report.rule, report.faults) == (None, []), str(report)
    assert "what scores its fakes is not seen as D" in report.identified.why


def plain(a, b):
    weights = [torch.randn(a, 16).div(4).requires_grad_(), torch.randn(16, b).div(4).requires_grad_()]
    return weights, lambda x: torch.relu(x @ weights[0]) @ weights[1]


class OfWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights, self.function = plain(SIZE, 1)
        self.weights = nn.ParameterList(self.weights)

    def forward(self, x):
        return torch.relu(x @ self.weights[0]) @ self.weights[1]


def d_as_a_function(p):
    weights, p.D = plain(SIZE, 1)
    p.od = torch.optim.Adam(weights, 1e-3)


def g_as_a_function(p):
    weights, p.G = plain(LATENT, SIZE)
    p.og = torch.optim.Adam(weights, 1e-3)


def d_by_forward(p):
    network = OfWeights()
    p.od, p.D = torch.optim.Adam(network.parameters(), 1e-3), network.forward


@pytest.mark.parametrize("change", [d_as_a_function, g_as_a_function, d_by_forward])
def test_networks_that_are_not_called_as_modules_are_the_reason(change):
    steps = Steps()
    change(steps.p)
    with ganexp.watch() as report:
        for _ in range(3):
            fake = steps.fake()
            steps.d(fake), steps.g(fake)
    assert (report.rule, report.faults) == (None, []), str(report)
    assert "call the module" in report.identified.why
    assert "test_turns.py:" in report.identified.why


def test_layers_of_a_network_whose_forward_is_called_are_seen():
    steps = Steps()
    steps.p.D = steps.p.D.forward
    with ganexp.watch() as report:
        for _ in range(3):
            fake = steps.fake()
            steps.d(fake), steps.g(fake)
    assert (report.rule, report.faults) == ("detach", []), str(report)


def compiled_part(p):
    p.D = nn.Sequential(torch.compile(p.D[0], backend="eager"), *p.D[1:])


def compiled_in_place(p):
    p.D.compile(backend="eager")


def part_compiled_in_place(p):
    p.G[2].compile(backend="eager")


def compiled_forward(p):
    p.G.forward = torch.compile(p.G.forward, backend="eager")


@pytest.mark.parametrize("change", [compiled_part, compiled_in_place, part_compiled_in_place, compiled_forward])
def test_compiled_parts_are_seen_at_any_depth(change):
    steps = Steps()
    change(steps.p)
    steps.turn = 5
    with ganexp.watch() as report:
        for _ in range(3):
            d_begins_late(steps)
    assert (report.rule, report.difference) == ("detach", 0), str(report)
    assert "compiled networks run uncompiled while they are watched" in str(report)


@pytest.mark.parametrize("place", [lambda who: ((CODE, 0),), lambda who: ((CODE, 0), (who, 0))], ids=["a step", "a call"])
@pytest.mark.parametrize("letters", ["dg", "dddg", "gddd"])
def test_players_that_one_line_moves_have_turns(letters, place):
    """As `for optimizer in (of_d, of_g): optimizer.step()`, or a line that calls a function of each player."""
    turn = Turn()
    steps = itertools.islice(itertools.cycle(enumerate(letters)), 3 * len(letters))
    assert [number for number, who in steps if turn.begins(who, place(who))] == [0, 0]
