"""Classes and held-out images where people put them, in folders and archives alike."""

import json

import pytest

from ganexp.data import Hub, ImageFolder
from tests.data.samples import save, zipped


@pytest.fixture(params=["folder", "archive"])
def dataset_of(request, tmp_path):
    """Return a function that writes images, each of its own colour, and reads them as a folder or as an archive of it."""

    def make(colour_of, documents=()):
        for name, colour in colour_of.items():
            save(tmp_path / "set" / name, colour)
        for name, content in dict(documents).items():
            (tmp_path / "set" / name).write_text(content if isinstance(content, str) else json.dumps(content))
        folder = tmp_path / "set"
        return ImageFolder(str(folder if request.param == "folder" else zipped(folder)), image_size=4)

    return make


def classes_by_colour(dataset):
    colours = [int(image[0, 0, 0]) for image in dataset.load()]
    return {colour: dataset.class_names[label] for colour, label in zip(colours, dataset.labels().tolist(), strict=True)}


@pytest.mark.parametrize("inside", ["", "all/", "a/b/"])
def test_classes_below_single_folders_are_found(dataset_of, inside):
    dataset = dataset_of({f"{inside}dog/1.png": 1, f"{inside}cat/old/2.png": 2, f"{inside}cat/3.png": 3})
    assert dataset.class_names == ["cat", "dog"]
    assert classes_by_colour(dataset) == {1: "dog", 2: "cat", 3: "cat"}
    assert dataset.held_out() is None


@pytest.mark.parametrize("inside", ["", "all/"])
def test_images_in_one_folder_have_no_classes(dataset_of, inside):
    dataset = dataset_of({f"{inside}img_align/1.png": 1, f"{inside}img_align/2.png": 2})
    assert dataset.classes == 0
    assert len(dataset.load()) == 2


@pytest.mark.parametrize(("inside", "images"), [("", ""), ("all/", ""), ("", "images/")])
@pytest.mark.parametrize("held_out", [["test"], ["val"], ["Test", "valid"]])
def test_split_folders_are_no_classes_and_one_is_held_out(dataset_of, inside, images, held_out):
    parts = {part: f"{inside}{part}/{images}" for part in ("train", *held_out)}
    colour_of = {f"{parts['train']}ant/1.png": 1, f"{parts['train']}bee/2.png": 2, f"{parts['train']}cow/3.png": 3}
    for place, part in enumerate(held_out):
        colour_of |= {f"{parts[part]}cow/1.png": 11 + 10 * place, f"{parts[part]}ant/2.png": 12 + 10 * place}
    dataset = dataset_of(colour_of)
    assert classes_by_colour(dataset) == {1: "ant", 2: "bee", 3: "cow"}
    others = dataset.held_out()
    assert classes_by_colour(others) == {11: "cow", 12: "ant"}
    assert others.held_out() is None
    assert others.labels().tolist() == [0, 2]
    assert others.digest() != dataset.digest()


def test_a_class_that_is_not_trained_on_is_no_label_of_what_is_held_out(dataset_of):
    dataset = dataset_of({"train/a/1.png": 1, "train/b/2.png": 2, "test/a/1.png": 3, "test/c/1.png": 4})
    assert dataset.classes == 2
    with pytest.raises(ValueError, match="the class c"):
        dataset.held_out().labels()


def test_splits_without_classes_have_none(dataset_of):
    dataset = dataset_of({"train/1.png": 1, "train/2.png": 2, "test/1.png": 3})
    assert (dataset.classes, len(dataset.load()), len(dataset.held_out().load())) == (0, 2, 1)


@pytest.mark.parametrize("extra", ["unlabeled/1.png", "1.png"])
def test_what_to_train_on_must_be_clear(dataset_of, extra):
    dataset = dataset_of({"train/a/1.png": 1, "test/a/1.png": 2, extra: 3})
    with pytest.raises(OSError, match=r"dataset\.path"):
        dataset.load()


def test_train_may_be_a_class_among_others(dataset_of):
    assert dataset_of({"train/1.png": 1, "bus/2.png": 2}).class_names == ["bus", "train"]


@pytest.mark.parametrize("labels", [[7, 3, 7], ["heron", "crane", "heron"]])
def test_the_labels_of_stylegan_are_read_and_their_gaps_are_no_classes(dataset_of, labels):
    names = ["00000/img1.png", "00000/img2.png", "00001/img3.png"]
    document = {"labels": [[name.replace("/", "\\"), label] for name, label in zip(names, labels, strict=True)]}
    dataset = dataset_of(dict(zip(names, (1, 2, 3), strict=True)), {"dataset.json": document})
    assert dataset.class_names == [str(label) for label in sorted(set(labels))]
    assert classes_by_colour(dataset) == dict(zip((1, 2, 3), map(str, labels), strict=True))
    assert dataset.labels().tolist() == [1, 0, 1]


def test_its_folders_are_no_classes_where_it_has_no_labels(dataset_of):
    assert dataset_of({"00000/1.png": 1, "00001/2.png": 2}, {"dataset.json": {"labels": None}}).classes == 0


def test_another_document_of_that_name_is_none_of_stylegan(dataset_of):
    assert dataset_of({"a/1.png": 1, "b/2.png": 2}, {"dataset.json": {"license": "CC0"}}).class_names == ["a", "b"]


@pytest.mark.parametrize(
    "content",
    ["{", "[" * 100_000, {"labels": 3}, {"labels": [["a/1.png", 0]]}]
    + [{"labels": [["a/1.png", label], ["b/2.png", 1]]} for label in (0.5, True, [0, 1], "0", None, {"x": 1})],
)
def test_labels_that_are_none_are_refused(dataset_of, content):
    with pytest.raises(OSError, match=r"dataset\.json"):
        _ = dataset_of({"a/1.png": 1, "b/2.png": 2}, {"dataset.json": content}).classes


def test_other_labels_are_other_data(dataset_of):
    before = dataset_of({"a/1.png": 1, "b/2.png": 2}, {"dataset.json": {"labels": [["a/1.png", 0], ["b/2.png", 1]]}}).digest()
    assert before != dataset_of({}, {"dataset.json": {"labels": [["a/1.png", 1], ["b/2.png", 0]]}}).digest()


def test_the_package_datasets_is_not_asked_for_labels_that_it_does_not_read(tmp_path):
    save(tmp_path / "00000" / "1.png")
    (tmp_path / "dataset.json").write_text('{"labels": [["00000/1.png", 3]]}')
    with pytest.raises(OSError, match="image_folder"):
        Hub(str(tmp_path)).load()
