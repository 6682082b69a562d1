"""`ganexp average`: against averages over the weights of every iteration, and as a generator that other commands take."""

import numpy as np
import pytest
import torch

import ganexp
from ganexp import build
from ganexp.facts import UserError
from ganexp.training.averages import gamma_of
from tests.calling import call
from tests.composing import composed
from tests.small_runs import SMALL
from tests.thinned import thinned
from tests.tiny import iterate

RUN = [*SMALL, "precision=fp64", "average=power", "average.beside=[0.05]", "checkpoint_every=8", "keep_checkpoints=50"]
N = 160


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the folder of a run, and the first weights of its generator after each iteration, from one like it."""
    folder = tmp_path_factory.mktemp("runs") / "mine"
    build(composed(*RUN, f"iterations={N}"), folder).fit()
    like, saved = build(composed(*RUN, f"iterations={N}")), []
    for _ in range(N):
        iterate(like, 1)
        saved.append(next(like.gan.generator.parameters()).detach().numpy().copy())
    return folder, np.array(saved)


def of_width(saved, width):
    """Average weights by the power of time that a width has: each iteration counts for the integral over it."""
    t, gamma = np.arange(1, len(saved) + 1.0), gamma_of(width)
    shares = t ** (gamma + 1) - (t - 1) ** (gamma + 1)
    return np.tensordot(shares / shares.sum(), saved, 1)


def first(place):
    return next(ganexp.load(place).network.parameters()).numpy()


def test_an_average_of_any_width_is_nearly_that_over_the_saved_weights(run):
    folder, saved = run
    for place, width in zip(call("average", folder, "--width", 0.05, 0.07, 0.15), (0.05, 0.07, 0.15), strict=True):
        wanted, other = of_width(saved, width), of_width(saved, 0.1)
        near = 1e-8 if width == 0.05 else np.abs(other - wanted).max() / 10
        assert np.abs(first(place) - wanted).max() < near


def test_an_average_ends_where_it_is_told_to(run):
    folder, saved = run
    (place,) = call("average", folder, "--width", 0.1, "--iteration", 80)
    np.testing.assert_allclose(first(place), of_width(saved[:80], 0.1), rtol=1e-8)


@pytest.mark.slow
def test_other_commands_take_it(run, tmp_path, capsys):
    folder, _ = run
    (place,) = call("average", folder, "--width", 0.12)
    assert "% off that of width 0.12" in capsys.readouterr().out
    made = call("sample", place, "--images", "--n", 3, "--format", "npz", "--output", tmp_path / "s.npz")
    assert np.load(made)["arr_0"].shape == (3, 4, 4, 3)
    asked = ("--measure", "sliced_wasserstein", "--features", "raw", "--samples", 100, "--output", tmp_path)
    assert call("evaluate", place, *asked).exists()
    assert ganexp.load(place).origin.settings["average"]["width"] == 0.12
    assert torch.load(place)["config"]["evaluation"]["of"] == "average"
    for further in (("--plain-weights",), ("--method", "langevin"), ("--save", "--with-discriminator")):
        with pytest.raises(SystemExit, match=r"^Error: .* holds an average of the generator alone: name a checkpoint of the "):
            call("sample", place, *further, "--output", tmp_path / "x.png")
    with pytest.raises(UserError, match=r"^init_from: .* holds an average of the generator alone"):
        build(composed(*RUN, f"init_from={place}"))


def test_few_checkpoints_are_said_to_be_few(tmp_path, capsys):
    few = [one for one in RUN if "every" not in one and "beside" not in one]
    build(composed(*few, "iterations=20", "checkpoint_every=10"), tmp_path / "few").fit()
    call("average", tmp_path / "few", "--width", 0.05)
    assert "more checkpoints" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--width", 0.3], "--width"),
        (["--width", 0.1, 0], "--width"),
        (["--width", 1e-200], "--width"),
        (["--width", 0.1, "--iteration", 3], "has no checkpoint"),
        (["--width", 0.1, "--iteration", 99999], "beyond the run's last checkpoint"),
    ],
)
def test_what_cannot_be_averaged_is_refused(run, arguments, said):
    with pytest.raises(SystemExit, match=said):
        call("average", run[0], *arguments)


def test_another_average_cannot_be_widened(tmp_path):
    build(composed(*SMALL, "iterations=3"), tmp_path / "ema").fit()
    with pytest.raises(SystemExit, match="average=power"):
        call("average", tmp_path / "ema", "--width", 0.1)


def test_what_is_there_stays(run):
    call("average", run[0], "--width", 0.2)
    with pytest.raises(SystemExit, match="--overwrite"):
        call("average", run[0], "--width", 0.2)
    assert torch.load(*call("average", run[0], "--width", 0.2, "--overwrite"), weights_only=True)["run"]["iteration"] == N


PLACE = "run.step.average"
TAMPERED = [
    ("config.average.width", "x"),
    ("config.average.width", None),
    ("config.average.width", 1e-200),
    ("config.average.beside", ["x"]),
    ("config.average", {}),
    ("config.average", 3),
    ("config.evaluation", 3),
    ("run.iteration", 0),
    ("run.iteration", 10**400),
    ("run.iteration", N - 1),
    ("run.step", 3),
    (PLACE, {}),
    (PLACE, torch.zeros(3)),
    (f"{PLACE}.generator", {}),
    (f"{PLACE}.generator", 3),
    (f"{PLACE}.beside", {}),
    (f"{PLACE}.beside", 3),
    (f"{PLACE}.beside.0.05.generator", torch.zeros(3)),
    (f"{PLACE}.beside.0.05.updates", -1),
]
MADE_OF = {
    "shorter": lambda one: one[:1],
    "of another type": lambda one: one.float(),
    "not finite": lambda one: one * float("nan"),
    "sparse": lambda one: one.to_sparse(),
    "without values": lambda one: one.to("meta"),
    "no tensor": lambda one: 3,
}
WEIGHTS = [(f"{PLACE}.{where}generator", made) for where in ("", "beside.0.05.") for made in MADE_OF.values()]


@pytest.mark.filterwarnings("ignore:Validating sparse tensor invariants")
@pytest.mark.parametrize("at", [8, N])
@pytest.mark.parametrize(("key", "value"), thinned([*TAMPERED, *WEIGHTS], 4))
def test_a_tampered_checkpoint_is_one_sentence(run, key, value, at, tmp_path):
    """Whether it is the last one, whose networks are taken, or another one; lacking what it should have, too."""
    folder = tmp_path / "run"
    (folder / "checkpoints").mkdir(parents=True)
    for iteration in (8, N):
        name = f"checkpoints/iteration_{iteration:09d}.pt"
        state = torch.load(run[0] / name, weights_only=True)
        torch.save(state, folder / name)
        if iteration == at:
            tampered, place = state, folder / name
    inside = tampered
    *path, last = key.replace("0.05", "0_05").split(".")
    for part in path:
        inside = inside[part.replace("_05", ".05")]
    inside[last] = {name: value(one) for name, one in inside[last].items()} if callable(value) else value
    torch.save(tampered, place)
    with pytest.raises(SystemExit, match=r"\AError: [^\n]+\Z"):
        call("average", folder, "--width", 0.1)
    del inside[last]
    torch.save(tampered, place)
    if key not in ("config.evaluation", "config.average.width", "config.average.beside"):  # which have defaults
        with pytest.raises(SystemExit, match=r"\AError: [^\n]+\Z"):
            call("average", folder, "--width", 0.1)
    assert not (folder / "averages").exists()
