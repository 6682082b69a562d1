"""Evaluating anew: figures are the run's own, nothing is overwritten, and what cannot be measured is one sentence."""

import json
import re
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset as MapStyle

from ganexp import build
from ganexp.cli.commands.evaluate import output_of
from ganexp.cli.commands.evaluate.run import _names
from ganexp.cli.main import parsed
from ganexp.cli.sweeping import Sweep
from ganexp.config.after_training import data_to_evaluate
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.data import Dataset, Digits
from ganexp.training import checkpoint
from tests.calling import call
from tests.composing import composed
from tests.data.samples import zipped

FAST = ("device=cpu", "log_every=100", "sample_every=0", "logger=[]", "batch_size=8", "threads=1")
RING = (*FAST, "experiment=ring", "iterations=6", "dataset.n=500", "generator.width=8", "discriminator.width=8")
IMAGES = (*FAST, "dataset=digits", "dataset.image_size=16", "iterations=3", "generator.width=8", "discriminator.width=8")
RING_MEASURED = ("evaluate_every=100", "evaluation.samples=300", "measure=[sliced_wasserstein,density_coverage,modes]")
IMAGES_MEASURED = ("evaluate_every=100", "evaluation.samples=120", "evaluation.features=raw", "measure=[kid,density_coverage]")


class Drawn(Dataset):
    """Points from the global stream, which follows the run's seed."""

    shape = (2,)

    def load(self):
        return torch.rand(200, 2)


class Labelled(Dataset):
    """Images whose classes change by `repeats`."""

    shape, classes, repeats = (1, 8, 8), 2, 1

    def load(self):
        return torch.randint(0, 256, (40, *self.shape), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))

    def labels(self):
        return torch.arange(40) // self.repeats % 2


class Changing(MapStyle):
    """Images of one grey each, from `level` on."""

    level = 0

    def __len__(self):
        return 20

    def __getitem__(self, index):
        return torch.full((1, 8, 8), self.level + index, dtype=torch.uint8)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A sweep of two runs on the ring, one on digits, and their last rows."""
    place, rows = tmp_path_factory.mktemp("runs"), {}
    jobs = {
        "sweep/0_plain": (*RING, *RING_MEASURED),
        "sweep/1_conditional": (*RING, *RING_MEASURED, "conditional=true", "seed=3", "keep_best=eval/sliced_wasserstein"),
        "digits": (*IMAGES, *IMAGES_MEASURED, "average.decay=0.9"),
    }
    for name, settings in jobs.items():
        trainer = build(composed(*settings), place / name)
        trainer.fit()
        rows[name] = {key: value for key, value in trainer.last_row.items() if key.startswith("eval/")}
    return place, rows


def evaluated(*arguments):
    page = call("evaluate", *arguments)
    document = json.loads(page.with_suffix(".json").read_text())
    return page, {one["name"]: one for one in document["results"]}, document


def values(result):
    return {key: figure["value"] for key, figure in result["figures"].items()}


def test_figures_are_those_of_the_runs_own_last_rows(runs, tmp_path, capsys, monkeypatch):
    place, rows = runs
    load, paths = checkpoint.load, []
    monkeypatch.setattr(checkpoint, "load", lambda path: paths.append(path) or load(path))
    _, sweep, document = evaluated(f"run={place / 'sweep'}", "--output", tmp_path / "sweep")
    assert len(paths) == len({*paths}) == 2  # each is read once
    _, digits, _ = evaluated(place / "digits", "--output", tmp_path / "digits")
    assert values(sweep["0_plain"]) == rows["sweep/0_plain"]
    assert values(sweep["1_conditional"]) == rows["sweep/1_conditional"]
    assert values(digits["digits"]) == rows["digits"]
    best = min(("0_plain", "1_conditional"), key=lambda name: rows[f"sweep/{name}"]["eval/sliced_wasserstein"])
    assert document["results"][0]["name"] == best
    assert document["ranking"].startswith("Ranked by eval/sliced_wasserstein, lowest first: one run each")
    printed = capsys.readouterr().out
    assert all(len(line) <= 80 for line in printed.splitlines() if "Written to" not in line)
    assert re.search(
        r"eval/kid is the kernel distance, .* \(lowest is best; real data, two halves of 120: [^)]*\): "
        r"subsets 10, subset_size 120\.",
        " ".join(printed.split()),
    )
    assert "(real " in printed


def test_a_sweep_is_ranked_by_its_metric_over_seeds_under_names_of_what_differs(runs, tmp_path, tmp_path_factory, capsys):
    place, _ = runs
    jobs = [("loss=hinge", "optimizer.lr=1e-3", f"seed={seed}") for seed in range(3)]
    jobs += [("loss=hinge", "optimizer.lr=1e-4", f"seed={seed}") for seed in range(2)]
    Sweep(("a",), ("loss", "optimizer.lr", "seed"), tuple(jobs), "eval/modes", direction="minimize").save(tmp_path)
    states = [torch.load(place / f"sweep/{one}/checkpoints/last.pt") for one in ("0_plain", "1_conditional")]
    for number, job in enumerate(jobs):
        folder = tmp_path / f"{number}_{'a_long_name_' * 5}"
        (folder / "checkpoints").mkdir(parents=True)
        (folder / "summary.json").write_text(json.dumps({"state": "finished", "overrides": job}))
        if number != 2:
            torch.save(states[number == 4], folder / "checkpoints/last.pt")
    page, found, document = evaluated(tmp_path)
    names = [f"hinge lr=1e-3 seed={seed}" for seed in range(3)] + [f"hinge lr=1e-4 seed={seed}" for seed in range(2)]
    assert found.keys() == set(names)
    modes = {name: values(one)["eval/modes"] for name, one in found.items() if "figures" in one}
    reached = {rate: [modes[name] for name in names if rate in name and name in modes] for rate in ("1e-3", "1e-4")}
    places = {one["combination"]: one for one in document["combinations"]}
    assert {name: one["mean"] for name, one in places.items()} == {
        f"hinge lr={rate}": np.mean(figures) for rate, figures in reached.items()
    }
    assert all(0 <= one["interval"][0] <= one["mean"] <= one["interval"][1] <= 8 for one in places.values())
    assert document["ranking"] == "Ranked by eval/modes, lowest first: the means over seeds."
    printed = capsys.readouterr().out
    assert "Ranked by eval/modes, lowest first; a radius of 3 standard deviations per mode, 300 samples" in printed
    assert all(f"\n{name} " in printed for name in modes)
    assert f"No figure: {names[2]} cannot be evaluated." in " ".join(printed.split())
    assert "Ranked by eval/modes" in page.read_text()

    other = shutil.copytree(tmp_path, tmp_path_factory.mktemp("other") / "sweep")  # of the same names, with whatever settings
    _, _, document = evaluated(tmp_path, other, "--output", tmp_path / "both")
    assert {one["combination"] for one in document["combinations"]} == {
        f"{sweep}: hinge lr={rate}" for sweep in (tmp_path, other) for rate in reached
    }


def test_what_is_asked_for_replaces_what_the_run_says(runs, tmp_path):
    place, rows = runs
    of = ("--measure", "kid", "kid.subset_size=50", "--samples", "200", "--of", "generator")
    _, found, _ = evaluated(place / "digits/checkpoints/last.pt", *of, "--output", tmp_path / "one")
    figures = found["digits"]["figures"]
    assert list(figures) == ["eval/kid"]
    assert figures["eval/kid"]["meaning"].startswith("kernel distance, a squared discrepancy under a cubic kernel, ")
    assert (
        "features: raw, subsets 10, subset_size 50, max_samples 10000, 200 samples; real data, two halves"
        in figures["eval/kid"]["meaning"]
    )
    assert figures["eval/kid"]["value"] != rows["digits"]["eval/kid"]
    _, anew, _ = evaluated(place / "digits", "--standing", "2", "--output", tmp_path / "anew")
    assert values(anew["digits"]).keys() == rows["digits"].keys()
    assert values(anew["digits"])["eval/kid"] != rows["digits"]["eval/kid"]  # batch norm's statistics are other ones
    best, last = (
        evaluated(place / "sweep/1_conditional", "--weights", w, "--output", tmp_path / w)[1] for w in ("best", "last")
    )
    assert values(best["1_conditional"]) == values(last["1_conditional"])  # it was evaluated once


def test_nothing_is_overwritten_without_being_told(runs, tmp_path):
    place, _ = runs
    page, _, _ = evaluated(place / "digits")
    assert page == place / "digits/evaluation/evaluation.html"
    page.write_text("mine")
    with pytest.raises(SystemExit, match=r"^Error: .*evaluation\.json is there already: add --overwrite .* --output\.$"):
        call("evaluate", str(place / "digits"))
    assert page.read_text() == "mine"
    with pytest.raises(SystemExit, match=r"^Error: .*evaluation\.json cannot be written: Not a directory; name .*\.$"):
        call("evaluate", str(place / "nowhere"), "--output", str(page / "new"))
    call("evaluate", str(place / "digits"), "--overwrite")
    assert "<h1>digits, nonsaturating, detach</h1>" in page.read_text()


@pytest.mark.parametrize(
    ("file", "folder"), [("run/checkpoints/last.pt", "run"), ("run/averages/width.pt", "run"), ("models/lone.pt", "models")]
)
def test_results_lie_in_the_run_of_a_checkpoint_and_beside_a_lone_one(file, folder, tmp_path):
    assert output_of(parsed(["evaluate", str(tmp_path / file)])) == tmp_path / folder / "evaluation"


def test_the_page_needs_nothing_but_itself_and_shows_nearest_training_images(runs, tmp_path):
    place, _ = runs
    page, _, _ = evaluated(place / "digits", "--output", tmp_path)
    text = page.read_text()
    assert not re.search(r'(src|href)="(?!data:)', text)
    assert text.count("<figure>") == 2
    assert "the 6 training images nearest to each, in pixels" in text
    assert re.search(r"to the nearest other one it is 0\.\d+ in the median of 64, from 0\.\d+ to 0\.\d+", text)
    page, _, _ = evaluated(place / "sweep", "--output", tmp_path / "sweep")
    assert page.read_text().count("generated points on real ones") == 4  # two captions, and as many alternative texts


def test_real_images_in_a_folder_are_found_among_the_data(tmp_path):
    data, folder = Digits(image_size=16).load(), tmp_path / "images"
    folder.mkdir()
    for i in range(40):
        Image.fromarray(data[i, 0].numpy()).save(folder / f"{i}.png")
    asked = ("--dataset", "digits", "--set", "dataset.image_size=16", "--features", "raw", "--measure", "precision_recall")
    page, found, _ = evaluated(folder, *asked)
    assert page == tmp_path / "images_evaluation/evaluation.html"
    assert found[str(folder)]["figures"]["eval/precision"]["value"] == 1
    assert found[str(folder)]["figures"]["eval/precision"]["meaning"].startswith(
        "precision, features: raw, neighbours 3, max_samples 10000, 40 samples; "
    )
    assert re.search(
        r"nearest one is at distances of 0 to \d(\.\d+)?e-\d+|nearest one is at distances of 0 to 0", page.read_text()
    )


@pytest.fixture
def pairs(tmp_path):
    """Write two folders of noisy images of several sizes with equal names, and return them, `(H, W, C)`, in pairs."""
    rng, found = np.random.default_rng(0), []
    for i, sides in enumerate([(16, 16), (20, 31), (40, 33)]):
        target = rng.integers(0, 256, (*sides, 3), np.uint8)
        made = np.clip(target + rng.integers(-9, 10, target.shape), 0, 255).astype(np.uint8)
        for name, image in (("made/deep", made), ("targets/deep", target)):
            (tmp_path / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(tmp_path / name / f"{i}.{'bmp' if name == 'made/deep' else 'png'}")
        found.append((made.astype(float), target.astype(float)))
    return found


def test_images_of_two_folders_are_compared_by_their_names_each_pair_in_its_size(pairs, tmp_path):
    expected = np.mean([10 * np.log10(255**2 / np.square(made - target).mean()) for made, target in pairs])
    archive = zipped(tmp_path / "targets")
    for against in (tmp_path / "targets", archive):
        _, found, document = evaluated(
            tmp_path / "made", tmp_path / "targets", "--against", against, "--measure", "psnr,ssim", "--overwrite"
        )
        assert values(found[str(tmp_path / "made")])["eval/psnr"] == pytest.approx(expected)
        assert values(found[str(tmp_path / "targets")])["eval/ssim"] == pytest.approx(1)
        assert "highest first" in document["ranking"]
    assert "3 samples" in found[str(tmp_path / "made")]["figures"]["eval/psnr"]["meaning"]
    _, found, _ = evaluated(tmp_path / "made", "--against", archive, "--output", tmp_path / "out")
    assert [*values(found[str(tmp_path / "made")])] == ["eval/psnr"]


def test_black_and_white_of_the_targets_hold_for_both_folders(tmp_path):
    for name, last in (("made", 200), ("targets", 4000)):  # of twelve bits, and one of them dark
        (tmp_path / name).mkdir()
        pixels = np.linspace(0, last, 256).reshape(16, 16).astype(np.uint16)
        Image.fromarray(pixels).save(tmp_path / name / "0.png")
    levels = [np.rint(np.linspace(0, last, 256).astype(np.uint16) * (255 / 4095)) for last in (200, 4000)]
    _, found, _ = evaluated(tmp_path / "made", "--against", tmp_path / "targets")
    expected = 10 * np.log10(255**2 / np.square(levels[0] - levels[1]).mean())
    assert values(found[str(tmp_path / "made")])["eval/psnr"] == pytest.approx(expected)


def test_two_folders_that_are_no_pairs_are_refused(pairs, tmp_path):
    line = (tmp_path / "made", "--against", tmp_path / "targets")
    assert "--set dataset.path=" in refused(*line, "--measure", "fid")
    assert "measure.lpips" in refused(*line, "--measure", "lpips")
    Image.new("RGB", (3, 16)).save(tmp_path / "made/deep/0.bmp")
    assert "0.bmp has 16×3 pixels, and its target 16×16" in refused(*line)
    (tmp_path / "made/deep/0.bmp").write_bytes(b"no image")
    assert "0.bmp cannot be decoded" in refused(*line)
    (tmp_path / "made/deep/0.bmp").rename(tmp_path / "made/deep/0.heic")
    assert "0.heic (.heic)" in refused(*line)
    (tmp_path / "made/deep/0.heic").unlink()
    assert "0.png has no image of its name" in refused(*line)
    assert not (tmp_path / "made_evaluation").exists()


def test_a_protocol_is_followed_but_for_what_is_typed(runs, tmp_path):
    typed = ("--protocol", "mimicry", "--measure", "kid", "kid.subsets=3", "--features", "raw", "--samples", "120")
    _, results, _ = evaluated(runs[0] / "digits", *typed, "--output", tmp_path)
    figures = results["digits"]["figures"]
    assert [*figures] == ["eval/kid"]
    assert "raw, subsets 3, subset_size 120, max_samples 50000, 120 samples;" in figures["eval/kid"]["meaning"]


def test_a_run_is_compared_with_held_out_data_if_that_is_asked(runs, tmp_path):
    _, results, _ = evaluated(runs[0] / "sweep" / "0_plain", "--against", "test", "--output", tmp_path)
    (result,) = results.values()
    assert "300 samples against held-out data;" in result["figures"]["eval/sliced_wasserstein"]["meaning"]
    assert values(result)["eval/sliced_wasserstein"] != runs[1]["sweep/0_plain"]["eval/sliced_wasserstein"]
    assert values(result)["eval/mode_kl"] == runs[1]["sweep/0_plain"]["eval/mode_kl"]


MLP = ("generator=mlp", "discriminator=mlp", "generator.width=4", "discriminator.width=4", "workers=0")
OWN = (*FAST, *MLP, "iterations=1", "~dataset", "evaluate_every=9", "evaluation.samples=40", "evaluation.features=raw")


def own(name, *settings):
    return composed(*OWN, f"+dataset={{_target_: {__name__}.{name}}}", *settings)


def test_each_run_is_compared_with_the_data_that_its_seed_has_drawn(tmp_path):
    rows = {}
    for seed in (0, 1):
        trainer = build(own("Drawn", "measure=[sliced_wasserstein]", f"seed={seed}"), tmp_path / str(seed), trust=__name__)
        trainer.fit()
        rows[str(seed)] = trainer.last_row["eval/sliced_wasserstein"]
    both = (tmp_path / "0", tmp_path / "1", "--trust", __name__, "--output", tmp_path / "out")
    _, found, document = evaluated(*both)
    assert {name: values(one)["eval/sliced_wasserstein"] for name, one in found.items()} == rows
    assert document["ranking"] == "Not ranked: these are figures of different data."


def of_real_data(cfg):
    return [figure.real for figure in data_to_evaluate(parse(plain(cfg))).evaluation.evaluator.keys.values()]


def test_statistics_of_data_are_kept_for_these_data_and_labels_only(monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    labelled = own("Labelled", "measure=[intra_fid]", "conditional=true")
    torchs = own("x", "measure=[kid]")
    torchs.dataset = {"name": "torch", "_target_": "ganexp.data.Torch", "dataset": {"_target_": f"{__name__}.Changing"}}
    for cfg, kind, name in ((labelled, Labelled, "repeats"), (torchs, Changing, "level")):
        before = of_real_data(cfg)
        assert before == of_real_data(cfg)
        monkeypatch.setattr(kind, name, 20)
        assert before != of_real_data(cfg)


def refused(*arguments):
    with pytest.raises(SystemExit) as stopped:
        call("evaluate", *arguments)
    said = str(stopped.value)
    assert re.fullmatch(r"Error: [^\n]*[^.]\.", said), said
    return said


@pytest.mark.slow
def test_runs_of_different_data_or_features_are_not_ranked(runs, tmp_path, capsys):
    place, _ = runs
    both = (place / "sweep/0_plain", place / "digits", "--measure", "density_coverage")
    assert evaluated(*both, "--output", tmp_path)[2]["ranking"] == "Not ranked: these are figures of different data."
    shutil.copytree(place / "sweep", tmp_path / "other")
    shutil.rmtree(tmp_path / "other" / "1_conditional")
    trainer = build(composed(*RING, *RING_MEASURED, "evaluation.samples=200"), tmp_path / "other" / "1_fewer")
    trainer.fit()
    said = evaluated(tmp_path / "other", "--output", tmp_path / "again")[2]["ranking"]
    assert said == "Not ranked: these are different measures, or of different settings, features or numbers of samples."


@pytest.mark.filterwarnings("ignore:.*torch.jit")
def test_what_cannot_be_evaluated_is_one_sentence_and_no_number(runs, tmp_path, monkeypatch):
    place, _ = runs
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    out = ("--output", tmp_path / "out")
    plain, digits = place / "sweep/0_plain", place / "digits"
    assert "holds no run; name a run" in refused(tmp_path, *out)
    assert "best.pt does not exist" in refused(plain, "--weights", "best", *out)
    few = ("--measure", "precision_recall", "--samples", 3)
    assert "precision_recall: it needs at least 4 generated samples" in refused(plain, *few, *out)
    assert "fid: it needs at least 257 generated samples" in refused(digits, "--measure", "fid", "--samples", 100, *out)
    assert "--features inception" in refused(place / "sweep/0_plain", "--features", "inception", *out)
    assert "evaluation.samples" in refused(digits, "--samples", 0, *out)
    wrong = tmp_path / "wrong.pt"
    torch.jit.script(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(7, 3))).save(wrong)
    assert "is no network that sees images of shape (1, 16, 16)" in refused(digits, "--features", wrong, *out)
    assert "--set goes with --dataset" in refused(digits, "--set", "dataset.image_size=16", *out)
    assert not (tmp_path / "out").exists()


def test_a_sweep_with_a_broken_run_has_the_others(runs, tmp_path):
    place, rows = runs
    shutil.copytree(place / "sweep", tmp_path / "sweep")
    broken = tmp_path / "sweep/0_plain/checkpoints/last.pt"
    broken.unlink()
    state = torch.load(place / "sweep/0_plain/checkpoints/last.pt", weights_only=True)
    _, found, _ = evaluated(tmp_path / "sweep")
    assert "last.pt does not exist" in found["0_plain"]["problem"]
    assert "figures" not in found["0_plain"]
    assert values(found["1_conditional"]) == rows["sweep/1_conditional"]
    weights = state["run"]["step"]["average"]["generator"] or state["run"]["gan"]["generator"]
    next(iter(weights.values())).fill_(3e38)  # finite, and what is made with it is not
    torch.save(state, broken)
    page, found, _ = evaluated(tmp_path / "sweep", "--overwrite")
    assert found["0_plain"]["problem"] == "the generated samples are not finite"
    assert "nan" not in re.sub(r'"data:[^"]*"', "", page.read_text()).split("</style>")[1].lower()


def test_a_range_that_is_taken_for_deep_images_is_logged_once_for_all_folders(tmp_path, caplog):
    for name, count in (("real", 12), ("a", 12), ("b", 10)):
        (tmp_path / name).mkdir()
        for i in range(count):
            pixels = np.random.default_rng(i).integers(0, 4000, (8, 8)).astype(np.uint16)
            Image.fromarray(pixels).save(tmp_path / name / f"{i}.png")
    settings = (f"dataset.path={tmp_path / 'real'}", "dataset.image_size=8", "dataset.channels=1")
    asked = ("--dataset", "image_folder", "--set", *settings, "--features", "raw", "--measure", "sliced_wasserstein")
    _, found, _ = evaluated(tmp_path / "a", tmp_path / "b", *asked, "--output", tmp_path / "out")
    assert [figure["eval/sliced_wasserstein"] == 0 for figure in map(values, found.values())] == [True, False]
    assert sum("is taken to be white" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.slow
def test_folders_that_do_not_fit_are_refused(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    asked = (folder, "--dataset", "digits", "--features", "raw", "--measure", "precision_recall", "--output", tmp_path / "out")
    assert "holds none of .jpg" in refused(*asked)
    for i in range(3):
        Image.fromarray(np.full((8, 8), 50 * i, np.uint8)).save(folder / f"{i}.png")
    assert "0.png has 8×8 pixels, and the data 32×32" in refused(*asked).replace("1.png", "0.png")
    assert "it needs at least 4 generated samples, and there are 3" in refused(*asked, "--set", "dataset.image_size=8")
    fewer = refused(*asked, "--set", "dataset.image_size=8", "--samples", -1)  # which are not all but one
    assert "evaluation.samples must be at least 2; got -1" in fewer
    assert "--weights, --of and --standing are for runs" in refused(*asked, "--standing", "16")
    assert "dataset" in refused(folder, "--dataset", "digitz", "--output", tmp_path / "out")


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["a/checkpoints/last.pt", "b/checkpoints/last.pt"], ["a", "b"]),
        (["a/averages/width_0.05_iteration_60.pt", "a/averages/width_0.1_iteration_60.pt"], ["width_0.05", "width_0.1"]),
        (["a/averages/width_0.05_iteration_60.pt", "a/averages/width_0.05_iteration_90.pt"], None),
        (["a/checkpoints/iteration_1.pt", "a/checkpoints/iteration_2.pt"], ["iteration_1", "iteration_2"]),
        (["a/checkpoints/last.pt", "a/checkpoints/best.pt", "b/checkpoints/last.pt"], ["a/last", "a/best", "b/last"]),
    ],
)
def test_checkpoints_are_told_apart_by_short_names(paths, names, tmp_path):
    paths = [tmp_path / path for path in paths]
    assert _names(paths, [("", "")] * len(paths)) == (names or [path.stem for path in paths])
