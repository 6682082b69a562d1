"""What surrounds a loop: wrapped networks, compiled ones, players given or not, notebooks, and hooks that go away."""

import contextlib
import gc
import json
import re
import sys
import threading

import pytest
import torch
from torch import nn

import ganexp
from ganexp.watching.faults import Fault
from ganexp.watching.isolation import NotRun
from ganexp.watching.watched_loop import WatchedLoop
from tests.distributed.forks import several
from tests.thinned import thinned
from tests.watching.broken import BROKEN, alternating
from tests.watching.loops import SIZE, d_loss, g_loss, put_back_by_data, setting


def hooks():
    module, optim = torch.nn.modules.module, sys.modules["torch.optim.optimizer"]
    return (
        *(len(known) for name, known in sorted(vars(module).items()) if name.startswith("_global_forward")),
        len(optim._global_optimizer_pre_hooks),
        len(optim._global_optimizer_post_hooks),
        torch.autograd._engine_run_backward,
        torch.autograd.graph.disable_saved_tensors_hooks,
        torch.optim.Optimizer.__init__,
    )


def saved_tensors_are_hooked():
    """Whether what autograd saves has hooks already: torch refuses a second pair."""
    square = torch.ones(1, requires_grad=True).square()
    try:
        square.grad_fn._raw_saved_self.register_hooks(lambda saved: saved, lambda saved: saved)
    except RuntimeError:
        return True
    return False


def test_nothing_is_left_behind_even_by_a_loop_that_fails():
    before = hooks()
    p, step = alternating(setting(), fake_d=lambda fake: fake)
    with pytest.raises(RuntimeError), ganexp.watch():
        step()
    assert hooks() == before
    assert not p.D[0]._forward_hooks


def test_nothing_is_left_behind_where_a_report_cannot_begin(monkeypatch):
    before = hooks()
    _, step = alternating(setting())
    monkeypatch.setattr("ganexp.watching.snapshots.Snapshots.end", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError), ganexp.watch():
        step()
    assert hooks() == before


def test_contexts_that_overlap_put_torch_back_and_see_the_same():
    _, step = alternating(setting())
    with ganexp.watch() as alone:
        for _ in range(4):
            step()
    before = hooks()
    first, second = ganexp.watch(), ganexp.watch()
    first.__enter__()
    step(), step()
    second.__enter__()
    step(), step()
    first.__exit__(None, None, None)
    step(), step()
    second.__exit__(None, None, None)
    assert hooks() == before
    assert not torch.utils._python_dispatch.is_in_torch_dispatch_mode()
    assert not saved_tensors_are_hooked()
    assert [(one.rule, one.iterations, one.faults) for one in (first, second)] == [("detach", 4, [])] * 2
    assert first.text() == second.text() == alone.text()
    assert alone.activations > 0


def test_a_loop_in_a_thread_is_watched_in_that_thread():
    """From another thread, nothing is recorded, and no fault is invented."""
    _, step = alternating(setting())

    def train(watching):
        with watching:
            step(), step()

    inside, outside = ganexp.watch(), ganexp.watch()
    with outside:
        run_in_a_thread(train, contextlib.nullcontext())
    assert (outside.rule, outside.faults) == (None, [])
    assert "broken.py:" in outside.identified.why
    assert "in another thread" in outside.identified.why
    run_in_a_thread(train, inside)
    assert (inside.rule, inside.faults) == ("detach", [])


def run_in_a_thread(function, *given):
    thread = threading.Thread(target=function, args=given)
    thread.start()
    thread.join()


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_networks_in_torchscript_are_watched():
    p = setting(more=(nn.BatchNorm1d(16),))
    p.G, p.D = (torch.jit.script(one) for one in (p.G, p.D))
    p.og, p.od = (torch.optim.Adam(one.parameters(), 1e-3) for one in (p.G, p.D))
    p.D.eval()
    _, step = alternating(p)
    with ganexp.watch() as report:
        step(), step()
    assert [one.kind for one in report.fault_records] == ["eval"], report
    assert report.trace == "z G r f' D+ f G+"


def test_the_report_says_what_was_looked_at_and_why_the_rest_was_not():
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step()
    values = report.json()
    assert values["not_looked_at"].keys() == {
        *("stale", "same_latents", "put_back", "range", "mixed_batch_norm", "mixtures", "not_averaged")
    }
    assert values["not_looked_at"]["stale"] == "this needs two iterations"
    kinds = {kind for _, kinds, *_ in BROKEN.values() for kind in kinds} | {"not_averaged"}
    assert {*values["looked_at"]} | values["not_looked_at"].keys() == kinds, "a kind has no broken loop, or no place in KINDS"


def test_a_player_without_a_loss_is_told_when_it_has_waited_for_long():
    p = setting()
    with ganexp.watch() as report:
        for _ in range(20):
            p.og.zero_grad()
            g_loss(p.D(p.G(p.z()))).backward()
            p.og.step()
    assert [one.kind for one in report.fault_records] == ["never_moves"]


@pytest.mark.parametrize("when", [1, 2, 4])
def test_weights_that_are_moved_by_hand_now_and_then_take_the_name_away(when):
    p, step = alternating(setting())
    with ganexp.watch() as report:
        for i in range(5):
            step()
            if i == when:
                with torch.no_grad():
                    p.D[0].weight.mul_(0.9)
    assert (report.rule, report.faults) == (None, [])
    assert "by hand" in report.identified.why


@pytest.mark.slow
def test_the_former_memory_of_weights_is_not_theirs(monkeypatch):
    """Weights that are given other memory free theirs, and torch gives its address to a tensor of the next pass."""

    def not_run(*_, **__):
        raise NotRun("not looked at here")

    monkeypatch.setattr("ganexp.watching.again.isolated", not_run)
    reports = set()
    for _ in range(20):
        _, step = put_back_by_data()
        with ganexp.watch() as report:
            step(), step(), step()
        reports.add((report.text(), report.activations))
    assert len(reports) == 1


def test_weights_that_do_not_exist_are_nobodys():
    with torch.device("meta"):
        network = nn.Linear(2, 2)
    dry = torch.optim.SGD(network.parameters())
    _, step = alternating(setting())
    with ganexp.watch() as report:
        for _ in range(2):
            step()
            dry.step()
    assert report.rule == "detach"
    assert not report.faults


class Wrapped(nn.Module):
    """Called as DistributedDataParallel calls what it wraps; its class has that name."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


Wrapped.__name__ = "DistributedDataParallel"


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("wrap", [Wrapped, lambda one: torch.compile(one, backend="eager")], ids=["distributed", "compiled"])
def test_wrapped_networks_are_their_players(wrap, given):
    p = setting()
    networks = p.G, p.D
    p.G, p.D = wrap(p.G), wrap(p.D)
    _, step = alternating(p)
    with ganexp.watch(*(networks if given else ()), *((p.og, p.od) if given else ())) as report:
        step(), step()
    assert (report.rule, report.trace, report.faults) == ("detach", "z G r f' D+ f G+", []), str(report)
    assert report.json()["compiled"] == (wrap is not Wrapped)


@pytest.mark.slow
def test_compiled_networks_run_uncompiled_while_they_are_watched():
    """Torch compiles nothing where operations are looked at; the report says so, and counts what it sees."""
    ran = []

    def backend(graph, inputs):
        return lambda *given: (ran.append(1), graph(*given))[1]

    p = setting()
    p.G, p.D = (torch.compile(one, backend=backend) for one in (p.G, p.D))
    _, step = alternating(p)
    with ganexp.watch() as report:
        step(), step()
    assert not ran
    step()
    assert ran
    with ganexp.watch() as plain:
        usual = alternating(setting())[1]
        usual(), usual()
    assert report.operations == plain.operations


def test_an_optimiser_that_is_made_while_watching_is_found():
    with ganexp.watch() as report:
        _, step = alternating(setting())
        step(), step()
    assert report.rule == "detach"


def test_networks_are_their_last_optimisers():
    """G is pretrained by an optimiser of its own, and both get new ones after two iterations."""
    with ganexp.watch() as report:
        p = setting()
        warm = torch.optim.Adam(p.G.parameters(), 1e-3)
        for _ in range(3):
            warm.zero_grad()
            p.G(p.z()).square().mean().backward()
            warm.step()
        for _ in range(2):
            p.og, p.od = (torch.optim.Adam(one.parameters(), 1e-3) for one in (p.G, p.D))
            _, step = alternating(p)
            step(), step()
    assert (report.rule, report.iterations, report.trace, report.faults) == ("detach", 4, "z G r f' D+ f G+", []), str(report)
    assert report.difference == 0
    assert "P3 P3+ P3 P3+ P3 P3+ z G" in report.text(verbose=True)


def test_an_optimiser_of_a_part_does_not_take_the_network():
    with ganexp.watch() as report:
        p = setting()
        part = torch.optim.Adam(p.D[-1].parameters(), 1e-3)
        _, usual = alternating(p)
        for _ in range(2):
            usual()
            part.zero_grad()
            p.D(p.x()).square().mean().backward()
            part.step()
        usual()
    assert (report.rule, report.traces[0], report.faults) == ("detach", "z G r f' D+ f G+ r P3+", []), str(report)


def test_optimisers_that_are_made_anew_in_each_iteration_are_checked():
    with ganexp.watch() as report:
        p = setting()
        for _ in range(3):
            p.og, p.od = (torch.optim.Adam(one.parameters(), 1e-3) for one in (p.G, p.D))
            alternating(p)[1]()
    assert (report.rule, report.iterations, report.faults) == ("detach", 3, []), str(report)
    assert report.difference == 0


def test_weights_that_d_s_optimiser_has_too_are_told_whichever_is_made_first():
    p = setting()
    p.og = p.od = None
    gc.collect()
    with ganexp.watch() as report:
        p.od = torch.optim.Adam([*p.D.parameters(), *p.G.parameters()], 1e-3)
        p.og = torch.optim.Adam(p.G.parameters(), 1e-3)
        _, step = alternating(p)
        step(), step()
    assert [one.kind for one in report.fault_records] == ["in_both"]


def test_what_stands_in_a_trace_many_times_in_a_row_is_printed_once():
    p = setting()

    def step():
        for _ in range(5):
            p.od.zero_grad()
            d_loss(p.D(p.x()), p.D(p.G(p.z()).detach())).backward()
            p.od.step()
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()

    with ganexp.watch() as report:
        step(), step()
    assert "  trace   (r z G f' D+) × 5 z G f G+\n" in str(report)
    assert report.trace.count("D+") == 5


def test_a_loss_that_scores_inside_gets_no_name():
    p = setting()

    class Adversary(nn.Module):
        def __init__(self):
            super().__init__()
            self.D = p.D

        def forward(self, x, fake):
            return d_loss(self.D(x), self.D(fake.detach()))

    p.adversary = Adversary()

    def step():
        fake, x = p.G(p.z()), p.x()
        p.od.zero_grad()
        p.adversary(x, fake).backward()
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    with ganexp.watch() as report:
        step(), step()
    assert (report.rule, report.faults) == (None, [])
    assert "returns a loss" in report.identified.why


def test_a_rule_with_a_pool_is_named_by_the_trace():
    """The first iteration alone has no old fakes, and is no check of the others."""
    p, old = setting(), []

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D((old or [fake.detach()])[-1])).backward()
        p.od.step()
        old.append(fake.detach())
        p.og.zero_grad()
        g_loss(p.D(p.G(p.z()))).backward()
        p.og.step()

    with ganexp.watch() as report:
        step(), step(), step()
    assert report.identified.wrappers == ("replay",)
    assert report.checked.startswith("not checked")


def test_some_of_the_players_alone_are_refused():
    with pytest.raises(TypeError, match="optimisers"):
        ganexp.watch(nn.Linear(1, 1))


def test_without_an_iteration_nothing_is_named():
    with ganexp.watch() as report:
        pass
    assert (report.rule, report.trace, report.faults) == (None, "", [])


def test_a_report_is_text_and_plain_values():
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step(), step()
    assert isinstance(report, WatchedLoop)
    assert str(report) == repr(report) == report.text()
    assert json.loads(json.dumps(report.json()))["rule"] == "detach"


def test_a_report_in_a_notebook_is_a_table_with_links_to_lines():
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step(), step()
    (place,) = {one.place for one in report.costs if one.remark}
    file, _, line = place.partition(":")
    table = report._repr_html_()
    assert f'<a href="{file}#L{line}">{place}</a>' in table
    assert re.findall(r"<th[^>]*>(\w+)</th>", table) == ["rule", "faults", "trace", "cost", "waste", "try"]
    report.identified.name, report.identified.why = None, "<b>"
    assert "not identified: &lt;b&gt;" in report._repr_html_()


def test_a_report_has_at_most_twelve_lines_unless_all_are_asked_for():
    """Ten lines that wait, of which the three most frequent are told, and eight faults."""
    p, usual = alternating(setting())
    reads = {f"{n}.py": compile(f"for _ in range({n}): score.item()", f"/{n}.py", "exec") for n in range(1, 11)}

    def step():
        usual()
        for read in reads.values():
            exec(read, {"score": p.D(p.x()).mean()})

    with ganexp.watch() as report:
        step(), step(), step()
    lines = str(report).splitlines()
    assert [line.split()[1].partition(":")[0] for line in lines if line.startswith("  wait")] == ["/10.py", "/9.py", "/8.py"]
    assert len(lines) <= 12
    assert len([line for line in report.text(verbose=True).splitlines() if line.startswith("  wait")]) == 10
    report.fault_records = [Fault("stale", f"mine.py:{n}", "effect", "remedy") for n in range(20)]
    lines = str(report).splitlines()
    rest = len(report.text(verbose=True).splitlines())
    assert (len(lines), rest > 12) == (12, True)
    assert "--verbose" in lines[-1]
    assert [line.split()[0] for line in lines[1:5]] == ["rule", "checked:", "fault", "fault"]


def test_no_report_says_a_bare_none():
    _, step = alternating(setting())
    with ganexp.watch() as report:
        step(), step()
    (line,) = [line for line in str(report).splitlines() if line.startswith("  faults")]
    assert "not looked at: " in line
    assert line.endswith("(docs/trouble.md)")


def test_numbered_letters_are_explained_by_the_loop_s_names():
    p = setting()
    first, second = p.G, nn.Linear(SIZE, SIZE)
    p.og = torch.optim.SGD([*first.parameters(), *second.parameters()], 1e-3)

    def loop(one_network, another, both, of_d):
        for _ in range(2):
            both.zero_grad()
            fake = another(one_network(p.z()))
            of_d.zero_grad()
            d_loss(p.D(p.x()), p.D(fake.detach())).backward()
            of_d.step()
            both.zero_grad()
            g_loss(p.D(fake)).backward()
            both.step()

    with ganexp.watch() as report:
        loop(first, second, p.og, p.od)
    assert report.letters == {"G1": "one_network", "G2": "another"}
    assert "(G1 = one_network, G2 = another)" in str(report)


NORMALIZED = {"new": nn.utils.parametrizations.spectral_norm, "old": nn.utils.spectral_norm}


@pytest.mark.parametrize("how", ["dropout", *NORMALIZED])
def test_networks_that_draw_or_move_in_each_pass_are_checked_in_the_state_of_that_pass(how):
    p = setting(more=(nn.Dropout(0.5),) if how == "dropout" else ())
    if how in NORMALIZED:
        NORMALIZED[how](p.D[0])
        p.od = torch.optim.Adam(p.D.parameters(), 1e-3)
    _, step = alternating(p)
    with ganexp.watch() as report:
        step(), step()
    assert (report.rule, report.difference, report.faults) == ("detach", 0, []), str(report)


def test_clipped_gradients_are_told_and_do_not_cost_the_name():
    p = setting(torch.optim.SGD)

    def step():
        fake = p.G(p.z())
        p.od.zero_grad()
        d_loss(p.D(p.x()), p.D(fake.detach())).backward()
        nn.utils.clip_grad_norm_(p.D.parameters(), 1e-3)
        p.od.step()
        p.og.zero_grad()
        g_loss(p.D(fake)).backward()
        p.og.step()

    with ganexp.watch() as report:
        step(), step()
    assert (report.rule, report.difference, report.faults) == ("detach", None, []), str(report)
    assert "clipping" in report.checked
    assert report.identified.left_out == ("changes of gradients before a step, such as clipping (clip_gradients=…)",)


def swa(p, copy):
    copy.update_parameters(p.G)


def by(change):
    def move(p, copy):
        with torch.no_grad():
            for slow, fast in zip(copy.module.parameters(), p.G.parameters(), strict=True):
                change(slow, fast)

    return move


AVERAGES = {
    "AveragedModel": swa,
    "lerp_": by(lambda slow, fast: slow.lerp_(fast, 0.1)),
    "add_": by(lambda slow, fast: slow.mul_(0.9).add_(fast, alpha=0.1)),
    "add_ a product": by(lambda slow, fast: slow.data.mul_(0.9).add_(0.1 * fast.data)),
    "copy_ a mean": by(lambda slow, fast: slow.copy_(fast.lerp(slow, 0.9))),
    "copy_ a sum": by(lambda slow, fast: slow.data.copy_(0.9 * slow.data + 0.1 * fast.data)),
}


@pytest.mark.parametrize("how", thinned(AVERAGES, 3))
def test_an_average_of_weights_is_told(how):
    p, step = alternating(setting())
    copy = torch.optim.swa_utils.AveragedModel(p.G, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    with ganexp.watch() as report:
        for _ in range(3):
            step()
            AVERAGES[how](p, copy)
    assert (report.rule, report.averaged, report.identified.wrappers) == ("detach", {"G"}, ()), str(report)
    assert report.difference == 0


def test_a_copy_of_weights_is_no_average():
    p, step = alternating(setting())
    copy = [one.detach().clone() for one in p.G.parameters()]
    with ganexp.watch() as report:
        for _ in range(2):
            step()
            for kept, one in zip(copy, p.G.parameters(), strict=True):
                kept.copy_(one.detach())
    assert report.averaged == set()


def wrapped_in_ddp(processes, inside=False):
    p = setting()
    p.G, p.D = (nn.parallel.DistributedDataParallel(one) for one in (p.G, p.D))
    torch.manual_seed(processes.rank)
    return p, alternating(p, d=p.D.module if inside else None)[1]


def shared(processes):
    """Run a loop of two wrapped networks, watched and not, and return the report with whether the weights end alike."""

    def ended(watch):
        p, step = wrapped_in_ddp(processes)
        with ganexp.watch() if watch else contextlib.nullcontext() as report:
            step(), step()
        step()
        return report, [*p.G.parameters(), *p.D.parameters()]

    (report, ends), (_, plain) = ended(True), ended(False)
    p, step = wrapped_in_ddp(processes, inside=True)
    with ganexp.watch() as broken:
        step(), step()
    parted = [one.kind for one in broken.fault_records], p.D.module[0].weight
    return report.rule, report.trace, report.faults, report.difference, all(map(torch.equal, ends, plain)), *parted


@pytest.mark.slow
def test_two_processes_are_watched_each_by_itself(tmp_path):
    """Gradients are averaged over both, so that one of them alone does not repeat the updates."""
    ended = several(2, shared, tmp_path)
    for *report, kinds, _ in ended:
        assert report == ["detach", "z G r f' D+ f G+", [], None, True]
        assert kinds == ["not_averaged"]
    assert not torch.equal(*(weights for *_, weights in ended)), "the fault has no effect"
