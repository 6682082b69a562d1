"""Sets that the library datasets reads, from folders made here; the hub itself is stood in for."""

import json
import os
import shutil
from types import SimpleNamespace

import datasets
import fsspec
import numpy as np
import pytest
import torch
from PIL import Image

from ganexp import build
from ganexp.config.check import check
from ganexp.config.run_data import held_out_of
from ganexp.data import Hub, ImageFolder, load_cached
from ganexp.facts import UserError
from ganexp.training.execution import Machine
from tests.composing import composed
from tests.data.samples import noise, save
from tests.data.tars import png, shards, tar
from tests.data.tars import written as written_shards
from tests.small_runs import SMALL

KINDS = ("folder", "parquet", "saved", "saved_split")


@pytest.fixture(autouse=True)
def alone(tmp_path, monkeypatch):
    """Keep the library's cache here, and the library from the network."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def images_at(place, *, n=5):
    """Write images of two classes, and return them as bytes with their labels."""
    images = []
    for i, image in enumerate(noise(n, 9, 12, 3)):
        path = place / ("cat", "dog")[i >= n // 2] / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
        images.append((path.read_bytes(), int(i >= n // 2)))
    return images


def table(images, **further):
    """Return rows as a set of the library."""
    columns = {"image": [{"bytes": content, "path": None} for content, _ in images], "label": [label for _, label in images]}
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"])}
    for name, (values, feature) in further.items():
        columns[name], features[name] = values, feature
    return datasets.Dataset.from_dict(columns, datasets.Features(features))


def written(kind, place):
    """Write five images to train with and three held out, in one of the layouts."""
    train, test = images_at(place / "folder" / "train"), images_at(place / "folder" / "test", n=3)
    if kind == "parquet":
        (place / kind).mkdir()
        table(train).to_parquet(place / kind / "train.parquet")
        table(test).to_parquet(place / kind / "test.parquet")
    if kind == "saved":
        datasets.DatasetDict(train=table(train), test=table(test)).save_to_disk(place / kind)
    if kind == "saved_split":
        table(train).save_to_disk(place / kind)
    return str(place / kind)


@pytest.mark.parametrize("kind", KINDS)
def test_images_and_labels_are_those_of_an_image_folder(kind, tmp_path):
    path = written(kind, tmp_path)
    dataset = Hub(path, image_size=(8, 6))
    expected = ImageFolder(str(tmp_path / "folder" / "train"), image_size=(8, 6))
    want = torch.stack([*map(expected.load().__getitem__, range(5))])
    for workers in (0, 1):
        data = load_cached(dataset, tmp_path / f"decoded-{workers}", place="resident", workers=workers)
        assert torch.equal(torch.as_tensor(data), want)
    assert torch.equal(dataset.labels(), expected.labels())
    assert dataset.classes == expected.classes == 2
    held_out = dataset.held_out()
    if kind == "saved_split":
        assert held_out is None
    else:
        assert held_out.is_here
        assert held_out.labels().tolist() == [0, 1, 1]
        of_test = ImageFolder(str(tmp_path / "folder" / "test"), image_size=(8, 6)).load()
        assert torch.equal(held_out.load()[2], of_test[2])
        assert dataset.labels().tolist() == [0, 0, 1, 1, 1]  # which is not the other's


def test_one_channel_is_grey_as_pillow_makes_it(tmp_path):
    grey = Hub(written("saved", tmp_path), image_size=(9, 12), channels=1).load()[0]
    np.testing.assert_array_equal(grey[0], np.asarray(Image.open(tmp_path / "folder" / "train" / "cat" / "0.png").convert("L")))


def test_the_content_is_told_wherever_it_lies_and_another_one_from_it(tmp_path):
    digests = {Hub(written(kind, tmp_path / kind)).digest() for kind in KINDS}
    assert len(digests) == 1
    images = images_at(tmp_path / "other")
    relabelled = [(content, 1 - label) for content, label in images]
    for name, rows in {"labels": relabelled, "images": images[::-1], "fewer": images[:4]}.items():
        table(rows).save_to_disk(tmp_path / name)
        digests.add(Hub(str(tmp_path / name)).digest())
    assert len(digests) == 4


def test_a_set_that_has_changed_is_decoded_anew(tmp_path):
    place = tmp_path / "folder" / "train" / "cat" / "0.png"
    before = load_cached(Hub(written("folder", tmp_path), image_size=8), tmp_path / "decoded")
    Image.new("RGB", (9, 12), "white").save(place)
    after = load_cached(Hub(str(tmp_path / "folder"), image_size=8), tmp_path / "decoded")
    assert not torch.equal(before[0], after[0])
    assert after[0].min() == 255
    assert torch.equal(before[1:], after[1:])


def test_broken_images_are_left_out_and_small_ones_counted(tmp_path, caplog):
    images = images_at(tmp_path / "folder")
    images[1] = (images[1][0][:200], 0)
    table(images).save_to_disk(tmp_path / "broken")
    dataset = Hub(str(tmp_path / "broken"), image_size=11)
    assert len(load_cached(dataset, tmp_path / "decoded", place="resident")) == 4
    assert dataset.labels().tolist() == [0, 1, 1, 1]
    assert "1 of 5 images are skipped" in caplog.text
    assert "images are smaller than 11×11 pixels" in caplog.text
    table(images_at(tmp_path / "folder")).save_to_disk(tmp_path / "whole")
    load_cached(Hub(str(tmp_path / "whole"), image_size=11), tmp_path / "decoded", place="resident")
    with pytest.raises(OSError, match="smaller"):  # though it is in the cache
        load_cached(Hub(str(tmp_path / "whole"), image_size=11, strict=True), tmp_path / "decoded")
    with pytest.raises(OSError, match="cannot be decoded"):
        load_cached(Hub(str(tmp_path / "broken"), image_size=8, strict=True), tmp_path / "decoded", place="resident")


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_what_is_no_file_is_not_read_as_an_image(kind, tmp_path, caplog):
    """A device has no end, and a pipe that nobody writes to no beginning."""
    os.mkfifo(tmp_path / "pipe")
    path = {"device": "/dev/zero", "pipe": str(tmp_path / "pipe"), "folder": str(tmp_path)}[kind]
    _, *others = images_at(tmp_path / "folder")
    rows = [{"bytes": None, "path": path}, *({"bytes": content, "path": None} for content, _ in others)]
    features = datasets.Features({"image": datasets.Image(decode=False)})
    (tmp_path / "x").mkdir()
    datasets.Dataset.from_dict({"image": rows}, features).cast_column("image", datasets.Image()).to_parquet(
        tmp_path / "x" / "train.parquet"
    )
    dataset = Hub(str(tmp_path / "x"), image_size=8)
    assert len(load_cached(dataset, tmp_path / "decoded", place="resident")) == 4
    assert "there is no file" in caplog.text
    os.mkfifo(tmp_path / "x" / "test.parquet")
    with pytest.raises(OSError, match=r"test\.parquet is neither a file nor a folder"):
        Hub(str(tmp_path / "x"), image_size=8).load()


def test_columns_can_be_named_and_have_to_be_where_there_are_several(tmp_path):
    images = images_at(tmp_path / "folder")
    further = {
        "back": ([{"bytes": content, "path": None} for content, _ in images[::-1]], datasets.Image()),
        "number": ([3, 1, 2, 0, 0], datasets.Value("int64")),
        "word": (["b", "a", "b", "c", "a"], datasets.Value("string")),
        "share": ([0.5] * 5, datasets.Value("float32")),
        "kind": ([0] * 5, datasets.ClassLabel(names=["one", "two", "three"])),
    }
    table(images, **further).save_to_disk(tmp_path / "wide")
    path = str(tmp_path / "wide")
    with pytest.raises(OSError, match=r"several columns of images.* dataset.image_column from image, back"):
        Hub(path).load()
    named = {"image_column": "back", "image_size": (9, 12)}
    with pytest.raises(OSError, match=r"dataset.label_column from label, kind"):
        Hub(path, **named).labels()
    first = Hub(path, label_column="number", **named)
    assert torch.equal(first.load()[0], torch.from_numpy(noise(5, 9, 12, 3)[-1]).permute(2, 0, 1))
    assert (first.labels().tolist(), first.classes) == ([3, 1, 2, 0, 0], 4)
    assert Hub(path, label_column="word", **named).labels().tolist() == [1, 0, 1, 2, 0]
    assert Hub(path, label_column="kind", **named).class_names == ["one"]
    for key, column in (
        ("label_column", "share"),
        ("label_column", "back"),
        ("label_column", "none"),
        ("image_column", "word"),
        ("image_column", "none"),
    ):
        with pytest.raises(OSError, match=f"has no column {column} of .*: choose dataset.{key} from"):
            Hub(path, **{**named, "label_column": "kind", key: column}).labels()


def test_a_row_without_an_image_is_left_out_and_one_without_a_class_only_matters_where_classes_do(
    tmp_path, caplog, monkeypatch
):
    images = images_at(tmp_path / "folder")
    rows = [{"bytes": content, "path": f"\x1b[31m{i}.png"} for i, (content, _) in enumerate(images)]
    columns = {"image": [rows[0], None, *rows[2:]], "label": [0, 1, None, 0, 1], "id": [10**12, 2, 3, 4, 5]}
    features = {"image": datasets.Image(), "label": datasets.ClassLabel(names=["cat", "dog"]), "id": datasets.Value("int64")}
    datasets.Dataset.from_dict(columns, datasets.Features(features)).save_to_disk(tmp_path / "gaps")
    dataset = Hub(str(tmp_path / "gaps"), image_size=11)
    assert dataset.digest()
    assert len(load_cached(dataset, tmp_path / "decoded", place="resident")) == 4
    assert "1 of 5 images are skipped" in caplog.text
    assert "\x1b" not in caplog.text
    assert dataset.classes == 2
    with pytest.raises(ValueError, match="without a class"):
        dataset.labels()
    monkeypatch.setattr("ganexp.data.hub.MOST_CLASSES", 4)
    with pytest.raises(OSError, match="no classes"):
        Hub(str(tmp_path / "gaps"), label_column="id").classes  # noqa: B018
    datasets.Dataset.from_dict({"img": [content for content, _ in images]}).save_to_disk(tmp_path / "bytes")
    for column in ("auto", "img"):
        with pytest.raises(OSError, match=r"has no column .*of images, but img"):
            Hub(str(tmp_path / "bytes"), image_column=column).load()


def test_a_broken_held_out_image_costs_only_what_it_was_held_out_for(tmp_path, caplog):
    images = images_at(tmp_path / "folder")
    datasets.DatasetDict(train=table(images), test=table([(b"none", 0)])).save_to_disk(tmp_path / "half")
    dataset = Hub(str(tmp_path / "half"), image_size=8)
    assert held_out_of(dataset, 0, 4, Machine.resolved("cpu", "fp32")) is None
    assert "accuracy/held_out is not logged" in caplog.text


@pytest.mark.parametrize("numbers", [False, True])
def test_classes_are_those_that_are_trained_on(tmp_path, numbers):
    images = images_at(tmp_path / "folder", n=4)
    kind = datasets.Value("int64" if numbers else "string")
    train, test = ([7, 3], [3, 3]) if numbers else (["b", "a"], ["a", "a"])
    tables = {"train": table(images[:2], word=(train, kind)), "test": table(images[2:], word=(test, kind))}
    datasets.DatasetDict(tables).save_to_disk(tmp_path / "words")
    dataset = Hub(str(tmp_path / "words"), label_column="word")
    assert dataset.class_names == (["3", "7"] if numbers else ["a", "b"])
    assert (dataset.classes, dataset.labels().tolist(), dataset.held_out().labels().tolist()) == (2, [1, 0], [0, 0])
    others = Hub(str(tmp_path / "words"), label_column="word", split="test").held_out()
    assert others is None
    tables["test"] = table(images[2:], word=([3, 5] if numbers else ["a", "c"], kind))
    datasets.DatasetDict(tables).save_to_disk(tmp_path / "more")
    with pytest.raises(ValueError, match="not trained on"):
        Hub(str(tmp_path / "more"), label_column="word").held_out().labels()


def test_class_labels_that_do_not_occur_are_no_classes(tmp_path):
    kind = datasets.ClassLabel(names=["ant", "bee", "crane", "dog"])
    table(images_at(tmp_path / "folder", n=3), kind=([3, 1, 3], kind)).remove_columns("label").save_to_disk(tmp_path / "gaps")
    dataset = Hub(str(tmp_path / "gaps"))
    assert (dataset.classes, dataset.class_names, dataset.labels().tolist()) == (2, ["bee", "dog"], [1, 0, 1])


def test_what_a_run_lacks_is_said_before_it_begins(tmp_path):
    (tmp_path / "empty").mkdir()
    path = written("folder", tmp_path)
    for typed, sentence in {
        f"dataset.path={tmp_path}/nowhere": "path should be",
        "dataset.path=nameless": "path should be",
        "dataset.path=somebody/something": "without a network: correct dataset.path",
        f"dataset.path={path} dataset.revision=v1": "dataset.revision",
        f"dataset.path={written('saved_split', tmp_path / 'one')} dataset.split=test": "dataset.split from train",
        f"dataset.path={written('saved', tmp_path / 'two')} dataset.subset=small": "dataset.subset",
        f"dataset.path={tmp_path}/empty": "cannot be read",
        f"dataset.path={path} dataset.split=extra": "dataset.split from",
    }.items():
        with pytest.raises(UserError) as caught:
            check(composed("dataset=hub", *typed.split(), "conditional=true", "logger=[]"))
        assert sentence in str(caught.value)
    with pytest.raises(UserError, match="without a network"):
        check(composed("dataset=hub", "dataset.path=a/b", "evaluate_every=9", "evaluation.against=test", "logger=[]"))
    plain = tmp_path / "plain"
    table(images_at(tmp_path / "x")).remove_columns("label").save_to_disk(plain)
    with pytest.raises(UserError, match=r"^dataset=hub has no class labels"):
        check(composed("dataset=hub", f"dataset.path={plain}", "conditional=true", "logger=[]"))


@pytest.mark.parametrize("place", ["folder", "pattern", "list", "store"])
def test_tar_shards_give_the_images_and_classes_of_their_members(place, tmp_path, monkeypatch):
    pattern, images = written_shards(tmp_path / "shards")
    files = sorted(map(str, (tmp_path / "shards").iterdir()))
    path = {"folder": str(tmp_path / "shards"), "pattern": pattern, "list": files, "store": "memory://bucket/train-*.tar"}[
        place
    ]
    if place == "store":  # as s3:// is read
        monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", False)
        store = fsspec.filesystem("memory")
        for number, content in enumerate(shards()[0]):
            store.pipe(f"/bucket/train-{number}.tar", content)
    dataset = Hub(path, image_size=8)
    assert dataset.is_here == (place != "store")
    data = load_cached(dataset, tmp_path / "decoded", place="resident")
    np.testing.assert_array_equal(torch.as_tensor(data).permute(0, 2, 3, 1).numpy(), images)
    assert dataset.labels().tolist() == [i % 3 for i in range(10)]
    assert dataset.classes == 3
    assert dataset.held_out() is None
    other = Hub(files, image_size=8)
    assert dataset.digest() == other.digest()


def test_classes_of_shards_may_lie_in_json_and_their_test_split_is_held_out(tmp_path):
    images, classes = noise(7, 8, 8, 3), [1, 0, 2, 2, 1, 0, 2]

    def members(chosen):
        fields = {i: json.dumps({"label": classes[i], "kind": "ab"[i % 2]}).encode() for i in chosen}
        return [member for i in chosen for member in ((f"a/{i}.png", png(images[i])), (f"a/{i}.json", fields[i]))]

    folder = tmp_path / "shards"
    folder.mkdir()
    for name, chosen in {"train-0": [0, 1, 2], "train-1": [3, 4], "test-0": [5, 6]}.items():
        (folder / f"{name}.tar").write_bytes(tar(members(chosen)))
    dataset = Hub(str(folder), image_size=8)
    held_out = dataset.held_out()
    assert (dataset.labels().tolist(), held_out.labels().tolist(), dataset.classes) == (classes[:5], classes[5:], 3)
    assert torch.stack([*held_out.load()]).permute(0, 2, 3, 1).tolist() == images[5:].tolist()
    assert Hub(str(folder), label_column="json.kind").labels().tolist() == [0, 1, 0, 1, 0]


def test_a_run_on_shards_resumes_exactly_where_they_have_been_moved(tmp_path):
    def settings(folder, *further):
        data = ["dataset=hub", f"dataset.path={folder}", "dataset.image_size=8", "batch_size=6", "iterations=8", "workers=0"]
        small = [word for word in SMALL if not word.startswith("dataset")]
        return composed(*small, *data, "conditional=true", "sample_every=0", "log_every=2", *further)

    def weights(trainer):
        trainer.fit()
        return torch.cat([parameter.detach().flatten() for parameter in trainer.gan.generator.parameters()])

    written_shards(tmp_path / "shards", n=17)
    expected = weights(build(settings(tmp_path / "shards"), tmp_path / "whole"))
    weights(build(settings(tmp_path / "shards", "iterations=3"), tmp_path / "half"))
    (tmp_path / "shards").rename(tmp_path / "moved")
    last = tmp_path / "half" / "checkpoints" / "last.pt"
    resumed = weights(build(settings(tmp_path / "moved", "feed=streamed"), tmp_path / "half", checkpoint=last))
    assert torch.equal(resumed, expected)


def test_shards_that_are_broken_or_not_there_or_without_classes_are_refused(tmp_path):
    written_shards(tmp_path / "plain", labelled=False)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "0.tar").write_bytes(b"no tar file" * 100)
    for path, sentence in {
        "plain": r"^dataset=hub has no class labels",
        "broken": r"^dataset: .* cannot be read",
        "none-*.tar": r"^dataset: .* cannot be read",
    }.items():
        with pytest.raises(UserError, match=sentence):
            check(composed("dataset=hub", f"dataset.path={tmp_path}/{path}", "conditional=true", "logger=[]"))


def test_a_repository_is_asked_for_as_it_is_named(tmp_path, monkeypatch):
    images, asked = images_at(tmp_path / "x"), []

    def load_dataset(path, name=None, **settings):
        asked.append((path, name, settings))
        return datasets.DatasetDict(validation=table(images[:2]), extra=table(images))

    builder = SimpleNamespace(base_path="hf://datasets/owner/name", config=SimpleNamespace(data_files=None))
    monkeypatch.setattr(datasets, "load_dataset_builder", lambda *_, **__: builder)
    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    dataset = Hub("owner/name", split="extra", subset="small", revision="v1", image_size=8)
    assert not dataset.is_here
    assert len(dataset.load()) == 5
    assert dataset.held_out().is_here
    assert len(dataset.held_out().load()) == 2
    assert asked == [("owner/name", "small", {"revision": "v1"})]


def test_hidden_and_system_files_are_no_data_as_in_a_folder_of_images(tmp_path, monkeypatch):
    place = tmp_path / ".home" / "set"
    images = images_at(place / "train")
    for name in ("@eaDir/0.png/thumb.png", "cat/@eaDir/0.png/thumb.png", "lost+found/9.png", "cat/._0.png"):
        save(place / "train" / name)
    monkeypatch.chdir(place.parent)
    for path in (str(place), "set"):
        dataset = Hub(path, image_size=8)
        assert dataset.labels().tolist() == [label for _, label in images]
        assert dataset.classes == ImageFolder(str(place / "train"), image_size=8).classes == 2


def test_it_needs_its_package(tmp_path, monkeypatch):
    shutil.copytree(written("folder", tmp_path), tmp_path / "copy")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r'pip install "ganexp\[datasets\]"'):
        Hub(str(tmp_path / "copy"))
