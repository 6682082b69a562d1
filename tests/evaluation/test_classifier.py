"""The classifier in whose features images are compared: trained, stored, and read back as it was."""

import json
import os
import shutil
import subprocess
import sys

import pytest
import torch
from filelock import FileLock

from ganexp import build
from ganexp.cli.commands.features import run as features
from ganexp.config.check import check
from ganexp.config.features import classifier_file
from ganexp.data import Digits
from ganexp.evaluation import KID, Classifier, Evaluator, PerChannel, Raw
from ganexp.evaluation import classifier as module
from ganexp.evaluation.classifier import ClassifierRecord, accuracy, stored, train
from ganexp.facts import UserError
from tests import forked
from tests.calling import call
from tests.composing import composed
from tests.distributed.forks import several
from tests.full import on_a_full_disk
from tests.small_runs import assert_same

IMAGES = ("device=cpu", "dataset.image_size=16", "iterations=3", "sample_every=0", "logger=[]", "batch_size=8")
EVALUATED = ("evaluate_every=3", "measure=[density_coverage]", "evaluation.samples=200")
NARROW = ("generator.width=4", "discriminator.width=4")


@pytest.fixture
def counted(monkeypatch, tmp_path):
    """A cache without a classifier, one epoch for each that is trained, and a file with a line for each."""
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "epochs_for", lambda images: 1)
    really, note = module.train, tmp_path / "trained"
    note.touch()

    def training(*arguments, **settings):
        with note.open("a") as file:
            file.write(f"{arguments[2]} {settings['epochs']}\n")
        return really(*arguments, **settings)

    monkeypatch.setattr(module, "train", training)
    return note


@pytest.fixture(scope="module")
def small():
    digits = Digits(image_size=8)
    return train(digits.load(), digits.labels(), "digits", epochs=2)


def test_it_comes_back_as_it_was(small, tmp_path):
    path = stored(tmp_path / "features", "digits")
    small.save(path)
    back = Classifier.load(path)
    assert (back.record, back.checksum, back.name) == (small.record, small.checksum, "digits classifier 8×8")
    images = torch.rand(5, 1, 8, 8) * 2 - 1
    for one, other in zip(small(images), back(images), strict=True):
        assert torch.equal(one, other)
    assert [file.name for file in path.parent.iterdir()] == ["digits.pt"]


def test_on_a_full_disk_nothing_is_left(small, tmp_path):
    assert on_a_full_disk(small.save, tmp_path / "digits.pt", room=1000).startswith("OSError: [Errno 27] File too large")
    assert not [*tmp_path.iterdir()]


def test_that_it_cannot_be_written_is_said_before_it_is_trained(monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path / "file"))
    (tmp_path / "file").touch()
    monkeypatch.setattr(features, "train_and_store", lambda *_, **__: pytest.fail("it is trained"))
    with pytest.raises(SystemExit, match=r"^Error: .*digits\.pt cannot be written.*GANEXP_CACHE"):
        call("features", "digits", "--device=cpu")


def test_a_file_that_was_changed_is_refused(small, tmp_path):
    path = tmp_path / "digits.pt"
    with pytest.raises(UserError, match=r"is not there: .*ganexp features digits$"):
        Classifier.load(path)
    small.save(path)
    saved = torch.load(path, weights_only=True)
    saved["state"]["head.bias"][0] += 1
    torch.save(saved, path)
    with pytest.raises(UserError, match=r"is broken: train it anew"):
        Classifier.load(path)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(UserError, match=r"is broken: train it anew"):
        Classifier.load(path)
    path.unlink()
    os.mkfifo(path)  # which would be waited for
    with pytest.raises(UserError, match=r"is broken: train it anew"):
        Classifier.load(path)


def test_training_is_always_the_same_and_moves_no_stream(small):
    digits, state = Digits(image_size=8), torch.get_rng_state()
    again = train(digits.load(), digits.labels(), "digits", epochs=2)
    assert again.checksum == small.checksum
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.slow
def test_a_machine_that_sums_in_another_order_trains_the_same(small):
    said = (
        "from ganexp.data import Digits; from ganexp.evaluation.classifier import train; digits = Digits(image_size=8); "
        "print(train(digits.load(), digits.labels(), 'digits', epochs=2).checksum)"
    )
    other = os.environ | {"ATEN_CPU_CAPABILITY": "default"}  # torch then uses no vector instructions
    ran = subprocess.run([sys.executable, "-c", said], env=other, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == small.checksum


@pytest.mark.gpu
def test_a_gpu_trains_the_same(small):
    digits = Digits(image_size=8)
    assert train(digits.load(), digits.labels(), "digits", epochs=2, device="cuda").checksum == small.checksum


def test_a_batch_of_one_small_image_is_left_out():
    images = torch.randint(0, 256, (161, 1, 8, 8), dtype=torch.uint8)  # of which 129 are trained on
    assert train(images, torch.arange(161) % 3, "noise", epochs=1).classes == 3


def test_other_sizes_are_scaled_and_other_channels_refused(small):
    for size in ((20, 20), (16, 8)):
        features, logits = small(torch.zeros(2, 1, *size))
        assert (features.shape, logits.shape) == ((2, 64), (2, 10))
    with pytest.raises(UserError, match=r"^the digits classifier 8×8 sees images of 1 channels"):
        small(torch.zeros(2, 3, 8, 8))


def test_accuracy_is_the_share_that_is_right():
    classifier = Classifier(ClassifierRecord("ones", (1, 8, 8), 3)).eval()
    with torch.no_grad():
        classifier.head.weight.zero_()
        classifier.head.bias.copy_(torch.tensor([0.0, 1, 0]))
    assert accuracy(classifier, torch.zeros(4, 1, 8, 8, dtype=torch.uint8), torch.tensor([1, 1, 0, 2])) == 0.5


@pytest.mark.slow
def test_it_knows_digits():
    digits = Digits(image_size=16)
    assert train(digits.load(), digits.labels(), "digits", epochs=25).record.accuracy >= 0.97


def test_a_run_is_evaluated_in_the_features_that_were_trained(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    call("features", "digits", "dataset.image_size=8", "--epochs=1", "--device=cpu")
    path = classifier_file({"name": "digits"})
    checksum = Classifier.load(path).checksum
    assert checksum in capsys.readouterr().out
    settings = (*NARROW, "evaluate_every=3", "evaluation.samples=200", "keep_best=eval/fid")
    trainer = build(composed(*IMAGES, *settings))
    last = trainer.fit()["last"]
    assert {"eval/fid", "eval/kid", "eval/precision", "eval/recall", "eval/density", "eval/coverage"} <= set(last)
    assert last["eval/fid"] > 0
    assert trainer.checkpoints.lowest == last["eval/fid"]
    (statistics,) = (tmp_path / "statistics").iterdir()
    statistics.touch()
    monkeypatch.setattr("ganexp.evaluation.evaluator.real_batches", None)  # which the second run need not call
    monkeypatch.setattr("ganexp.evaluation.evaluator.Evaluator._extracted", None)
    build(composed(*IMAGES, *settings))
    assert [*(tmp_path / "statistics").iterdir()] == [statistics]


def test_a_classifier_of_another_size_says_so_and_has_its_size_in_its_name(small, monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    small.save(classifier_file({"name": "digits"}))
    settings = (*IMAGES, "evaluate_every=3", "measure=[density_coverage]", "evaluation.samples=20")
    build(composed(*settings, "dataset.image_size=8", "generator=mlp", "discriminator=mlp"))
    assert "scaled for it" not in caplog.text
    build(composed(*settings))
    assert "was trained at 8×8, and these images of 16×16 are scaled for it" in caplog.text
    assert "ganexp features digits dataset.image_size=16." in caplog.text


def test_other_images_or_other_features_have_other_statistics(small, monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    small.save(classifier_file({"name": "digits"}))
    settings = (*IMAGES, "evaluate_every=3", "measure=[density_coverage]", "evaluation.samples=20")
    build(composed(*settings))
    build(composed(*settings, "dataset.image_size=32"))
    build(composed(*settings, "evaluation.features=raw"))
    build(composed(*settings, "seed=3", "loss=hinge"))
    assert len([*(tmp_path / "statistics").iterdir()]) == 3


def test_every_folder_of_images_has_a_classifier_of_its_own(small, monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    a, b = ({"name": "image_folder", "path": str(path), "image_size": size} for path, size in ((tmp_path / "a", 8), ("b", 16)))
    assert len({classifier_file(a), classifier_file(b), classifier_file({"name": "image_folder", "path": "s3://a"})}) == 3
    assert classifier_file(a) == classifier_file({"name": "image_folder", "path": "a", "image_size": 16})
    lists = [{"name": "hub", "path": [str(tmp_path / "a.tar")]}, {"name": "hub", "path": ["a.tar"]}]
    assert len({*map(str, map(classifier_file, lists))}) == 1
    with pytest.raises(UserError, match=r"ganexp features image_folder"):
        Classifier.load(classifier_file(a))


def test_a_repository_of_the_hub_has_one_classifier_from_wherever_it_is_asked_for(monkeypatch, tmp_path):
    (tmp_path / "owner" / "folder").mkdir(parents=True)
    found = []
    for place in (tmp_path, tmp_path / "owner"):
        monkeypatch.chdir(place)
        found.append([classifier_file({"name": "hub", "path": path}) for path in ("owner/name", "owner/folder")])
    (repository, folder), (repository_again, other) = found
    assert repository == repository_again
    assert folder != other, "in the second place there is no such folder"


def test_parts_of_one_repository_have_classifiers_of_their_own():
    whole = {"name": "hub", "path": "owner/name", "split": "train", "subset": None}
    parts = [{**whole, key: "other"} for key in ("split", "subset", "revision", "label_column")]
    assert len({*map(classifier_file, [whole, *parts])}) == 5


def test_a_classifier_of_other_classes_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    Classifier(ClassifierRecord("digits", (1, 8, 8), 47)).save(classifier_file({"name": "digits"}))
    with pytest.raises(UserError, match=r"^evaluation: .*digits\.pt is of 47 classes"):
        build(composed(*IMAGES, "evaluate_every=3", "evaluation.samples=100"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["digits", "dataset.image_size=large"], "Error: dataset.image_size needs an integer"),
        (["digits", "+dataset.foo=1"], "Error: Unknown key dataset.foo. This dataset has image_size."),
        (["ring"], "Error: dataset=ring has no labelled images"),
        (["digits", "--epochs=0"], "should be a number of at least 1, not 0"),
        (["digits", "--device=nonsense"], "Error: --device should be auto, cpu, cuda or cuda:N, not nonsense."),
    ],
)
def test_mistakes_end_in_a_sentence(arguments, sentence, capsys):
    with pytest.raises(SystemExit) as ended:
        call("features", *arguments)
    assert sentence in f"{ended.value} {capsys.readouterr().err}"


def trained_run(folder, *settings):
    trainer = build(composed(*IMAGES, *NARROW, *settings, "log_every=1"), folder)
    trainer.fit()
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = ("loss/", "score/", "grad_norm/")
    return trainer.gan.state_dict(), [{key: value for key, value in row.items() if key.startswith(kept)} for row in rows]


def test_it_is_trained_for_the_first_run_that_needs_it_and_changes_no_bit_of_the_run(counted, tmp_path, capfd):
    weights, rows = trained_run(tmp_path / "without")
    assert counted.read_text() == ""
    for name in ("first", "second"):
        again, same = trained_run(tmp_path / name, *EVALUATED)
        assert_same(weights, again)
        assert (same, len(rows)) == (rows, 3)
    assert counted.read_text() == "digits 1\n"
    path = classifier_file({"name": "digits"})
    begun, ended = capfd.readouterr().err.splitlines()
    assert begun.startswith("The data set digits has no classifier yet")
    assert ended.startswith(f"The classifier of digits is right about {Classifier.load(path).record.accuracy:.2%} of held-out")
    assert {file.name for file in path.parent.iterdir()} <= {"digits.pt", "digits.lock"}


def test_small_sets_are_gone_through_more_often():
    assert [module.epochs_for(n) for n in (500, 1_797, 10_000, 50_000, 60_000, 1_000_000)] == [90, 25, 18, 4, 3, 1]


def test_of_a_very_large_set_some_images_are_chosen(small, monkeypatch, tmp_path):
    seen = []
    monkeypatch.setenv("GANEXP_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "IMAGES_SEEN", 100)
    monkeypatch.setattr(module, "fitted", lambda record, images, labels, order, **settings: seen.append(order) or small)
    for epochs in (None, 2):
        module.train_and_store(tmp_path / "x.pt", Digits(image_size=8), "digits", epochs=epochs, device=torch.device("cpu"))
    assert [len(order) for order in seen] == [400 - 400 // 5, 1797 - 1797 // 5]
    assert len(seen[0].unique()) == 320


@pytest.mark.slow
def test_it_is_the_one_that_the_command_would_train(counted, tmp_path):
    build(composed(*IMAGES, *EVALUATED))
    path = classifier_file({"name": "digits"})
    by_run = Classifier.load(path)
    path.unlink()
    call("features", "digits", "dataset.image_size=16", "--device=cpu")
    by_command = Classifier.load(path)
    assert (by_command.checksum, by_command.record) == (by_run.checksum, by_run.record)


@pytest.mark.slow
def test_of_processes_that_need_it_at_once_one_trains_it(counted, tmp_path):
    def made(processes):
        torch.set_num_threads(1)
        build(composed(*IMAGES, *EVALUATED), processes=processes)
        return Classifier.load(classifier_file({"name": "digits"})).checksum

    assert len({*several(2, made, tmp_path / "together")}) == 1
    assert counted.read_text() == "digits 1\n"


def test_a_stack_is_seen_by_the_classifier_of_its_channels(counted, tmp_path, monkeypatch):
    digits = Digits(image_size=16)
    monkeypatch.setattr("ganexp.data.MNIST.load", lambda _: digits.load())
    monkeypatch.setattr("ganexp.data.MNIST.labels", lambda _: digits.labels())
    stacked = ("dataset=stacked_mnist", "dataset.n=60", f"data_root={tmp_path}")
    build(composed(*IMAGES, *stacked, *EVALUATED, "measure=[modes]"))
    assert counted.read_text() == "mnist 1\n"
    assert Classifier.load(classifier_file({"name": "mnist"})).record.shape == (1, 16, 16)


def test_a_cache_that_cannot_be_written_is_one_sentence(counted, tmp_path):
    (tmp_path / "cache").touch()
    with pytest.raises(UserError, match=r"^evaluation: no classifier of digits can be kept \(.*GANEXP_CACHE\.$"):
        build(composed(*IMAGES, *EVALUATED), tmp_path / "run")
    assert counted.read_text() == ""
    assert not (tmp_path / "run").exists()


def test_that_it_cannot_be_trained_is_one_sentence(counted, tmp_path, monkeypatch):
    def failing(*_, **__):
        raise RuntimeError("out of something\nand a long story")

    monkeypatch.setattr(module, "train", failing)
    with pytest.raises(UserError, match=r"^evaluation: no classifier .*\(out of something\): .*evaluation\.features="):
        build(composed(*IMAGES, *EVALUATED), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_an_interruption_while_it_is_trained_is_one_line_and_leaves_no_half_file(counted, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "cross_entropy", interrupted)
    (tmp_path / "here").mkdir()
    done = forked.train(*IMAGES, *EVALUATED, cwd=tmp_path / "here")
    assert (done.returncode, done.stderr.splitlines()[1:]) == (130, ["Interrupted; what was written is kept."])
    assert [*(tmp_path / "here").iterdir()] == []
    path = classifier_file({"name": "digits"})
    assert {file.name for file in path.parent.iterdir()} <= {"digits.lock"}
    with FileLock(path.with_suffix(".lock"), timeout=0):
        pass


OWN = (*(one for one in IMAGES if "image_size" not in one), *EVALUATED, "generator=mlp", "discriminator=mlp", "dataset=torch")


def test_images_that_are_not_kept_are_read_for_it(counted):
    build(composed(*OWN, "dataset.dataset._target_=tests.data.own.Own", "+dataset.dataset.n=300"), trust="tests")
    assert Classifier.load(next(counted.parent.glob("cache/features/*.pt"))).record.shape == (3, 32, 32)


def test_an_image_that_it_cannot_be_trained_on_is_named(counted):
    with pytest.raises(UserError, match=r"^evaluation: no classifier of torch can be trained: sample 2 should be [^;]*\.$"):
        build(composed(*OWN, "dataset.dataset._target_=tests.data.own.Uneven", "+dataset.dataset.n=300"), trust="tests")


@pytest.mark.slow
def test_a_run_is_evaluated_anew_without_its_classifier(counted, tmp_path):
    build(composed(*IMAGES, *NARROW, *EVALUATED), tmp_path / "run").fit()
    shutil.rmtree(classifier_file({"name": "digits"}).parent)
    page = call("evaluate", f"run={tmp_path / 'run'}")
    assert counted.read_text() == "digits 1\n" * 2
    (result,) = json.loads(page.with_suffix(".json").read_text())["results"]
    row = json.loads((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()[-1])
    assert result["figures"]["eval/density"]["value"] == row["eval/density"]


def test_a_perceptual_term_looks_through_the_classifier_of_the_images_themselves(counted, tmp_path):
    settings = ("dataset=self", "dataset.of.image_size=16", "dataset.hold_out=297", "generator=vq", "generator.width=4")
    settings += ("discriminator=patch", "discriminator.width=2", "discriminator.layers=1", "term=[perceptual]")
    trainer = build(
        composed(*settings, "logger=[]", "device=cpu", "batch_size=4", "iterations=2", "log_every=1"), tmp_path / "run"
    )
    assert counted.read_text() == "digits 1\n"
    distance = trainer.gan.terms["perceptual"].distance
    x, y = (torch.rand(3, 1, 16, 16, generator=torch.Generator().manual_seed(i)) * 2 - 1 for i in range(2))
    seen, wanted = (x, y), torch.zeros(3)
    for convolution, norm in ((0, 1), (3, 4), (6, 7)):
        layers = distance.classifier.layers
        seen = [layers[norm](layers[convolution](one)).relu() for one in seen]
        wanted += (seen[0] - seen[1]).square().flatten(1).mean(1) / 3
    torch.testing.assert_close(distance(x, y), wanted, rtol=1e-5, atol=1e-7)
    trainer.fit()
    assert not any(one.requires_grad for one in distance.classifier.parameters())


def test_a_perceptual_term_of_data_without_classes_is_refused():
    with pytest.raises(UserError, match=r"term\.perceptual\.network=vgg"):
        check(composed("dataset=self", "dataset@dataset.of=fake", "generator=vq", "discriminator=patch", "term=[perceptual]"))


def test_figures_in_its_features_say_that_they_do_not_compare_with_published_ones():
    classifier = Classifier(ClassifierRecord("ones", (3, 8, 8), 3)).eval()
    for seen_in, noted in ((classifier, True), (PerChannel(classifier), True), (Raw((3, 8, 8)), False)):
        told = Evaluator({"kid": KID()}, seen_in, samples=9).keys["eval/kid"]
        assert ("not comparable with published figures" in told.note) == noted
        assert told.note in told.meaning
        assert "published" not in told.basis  # figures of runs before the note compare with those after it


def test_each_subset_of_kid_is_said_to_be_no_larger_than_the_samples():
    for samples, size in ((40, 40), (1000, 1000), (5000, 1000)):
        told = Evaluator({"kid": KID()}, Raw((3, 8, 8)), samples=samples).keys["eval/kid"]
        assert f"subset_size {size}," in told.basis


def test_each_subset_of_kid_is_said_to_be_no_larger_than_the_real_set():
    evaluator = Evaluator({"kid": KID()}, Raw((2,)), samples=5000)
    evaluator.see_reals(torch.randn(300, 2).split(100), 300)
    assert "subset_size 300," in evaluator.keys["eval/kid"].basis
