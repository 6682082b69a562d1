"""A torch dataset of one's own: the batches that a hand-written loader gives, and what cannot be trained on."""

import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from PIL import Image
from torchvision.transforms.v2.functional import pil_to_tensor, resize

from ganexp import build
from ganexp.config.check import check
from ganexp.data import DecodingError, Torch
from ganexp.facts import UserError
from tests.composing import composed
from tests.data.own import Floats, Listed, Own, Pictures, Points, WithoutLength, pixels
from tests.tiny import iterate

SMALL = ["generator=mlp", "discriminator=mlp", "generator.width=4", "discriminator.width=4", "batch_size=4", "latent_dim=3"]
SMALL += ["logger=[]", "device=cpu", "dataset=torch", "workers=0"]
GREY = torch.zeros(1, 4, 4, dtype=torch.uint8)


def configured(name, *overrides):
    return composed(*SMALL, f"dataset.dataset._target_={name}", *overrides)


def test_images_that_networks_do_not_take_have_a_remedy_that_is_there():
    networks = ("generator=dcgan", "discriminator=dcgan", "+dataset.dataset.side=28")
    with pytest.raises(UserError, match=r"not 28×28; set dataset\.image_size"):
        check(configured("tests.data.own.Own", *networks), trust="tests")


@pytest.mark.parametrize("kind", [Own, Floats, Pictures])
@pytest.mark.parametrize("channels", [1, 3])
def test_samples_are_those_of_the_dataset_on_the_usual_scale(kind, channels):
    dataset = Torch(dataset=kind(channels=channels))
    assert dataset.shape == (channels, 32, 32)
    assert dataset.classes == 3
    assert dataset.labels().tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2]
    data, expected = dataset.load(), pixels(9, channels)
    for index in range(9):
        sample = (data[index] + 1) * 127.5 if kind is Floats else data[index]
        torch.testing.assert_close(sample, expected[index].to(sample.dtype), atol=1e-4, rtol=0)
    assert len(data) == 9


def test_a_run_sees_each_sample_once_an_epoch():
    trainer = build(configured("tests.data.own.Own", "+dataset.dataset.n=12", "+dataset.dataset.side=4"), trust="tests")
    drawn = torch.cat([next(trainer.reals).values for _ in range(3)])
    expected = pixels(12, 3, 4) / 127.5 - 1
    order = [(expected - image).abs().amax((1, 2, 3)).argmin().item() for image in drawn]
    assert sorted(order) == [*range(12)]
    torch.testing.assert_close(drawn, expected[order], atol=1e-6, rtol=0)
    iterate(trainer, 3)
    assert all(p.isfinite().all() for p in trainer.gan.generator.parameters())


def test_labels_condition_the_networks():
    trainer = build(configured("tests.data.own.Own", "conditional=true"), trust="tests")
    batch, own = next(trainer.reals), Own()
    for image, label in zip(batch.values, batch.conditions[0], strict=True):
        index = (own.pixels / 127.5 - 1 - image).abs().amax((1, 2, 3)).argmin()
        assert own.targets[index] == label
    iterate(trainer, 3)


@pytest.mark.parametrize(
    ("names", "called"), [(None, ["3", "7"]), (["x"] * 7 + ["heron"], ["x", "heron"]), (["a"], ["3", "7"])]
)
def test_targets_that_do_not_occur_are_no_classes(names, called):
    listed = Listed([(GREY, 0)] * 3)
    listed.targets, listed.classes = [7, 3, 7], names
    dataset = Torch(dataset=listed)
    assert (dataset.classes, dataset.labels().tolist(), dataset.class_names) == (2, [1, 0, 1], called)


def test_points_are_taken_as_they_are():
    assert Torch(dataset=Points()).shape == (2,)
    trainer = build(configured("tests.data.own.Points"), trust="tests")
    assert (next(trainer.reals).values[:, 1] == -3).all()


def test_without_targets_there_are_no_labels():
    dataset = Torch(dataset=Listed([(GREY, 1)]))
    assert dataset.classes == 0
    with pytest.raises(ValueError, match=r"^Listed should have targets"):
        dataset.labels()
    with pytest.raises(UserError, match=r"^dataset=torch has no class labels"):
        check(configured("tests.data.own.Points", "conditional=true"), trust=None)


@pytest.mark.parametrize(
    ("samples", "sentence"),
    [
        ([], "^Listed should have samples, and has none$"),
        ([3], "^sample 0 should be a tensor or a PIL image, or a pair of that and a label, and is of type int$"),
        ([{"image": GREY}], "^sample 0 should be a tensor .* is of type dict$"),
        ([GREY.long()], r"^sample 0 should be a uint8 tensor .* and is a tensor \(1, 4, 4\) of int64$"),
        ([GREY[0]], r"^sample 0 should be a uint8 tensor \(C, H, W\)"),
        (
            [torch.zeros(4, 4)],
            r"^sample 0 should be an image \(C, H, W\) or a point \(2,\), and is a tensor \(4, 4\) of float32$",
        ),
        (
            [GREY.float() + 255],
            r"^sample 0 should have its values in \[-1, 1\], and has them in \[255, 255\]: scale it, or return",
        ),
        ([GREY.float() / 0], r"^sample 0 should have its values in \[-1, 1\]"),
        ([Image.new("I;16", (4, 4))], r"^sample 0 should have eight bits per channel, and is a PIL image of mode I;16$"),
    ],
)
def test_first_samples_that_cannot_be_trained_on_are_refused(samples, sentence):
    with pytest.raises(ValueError, match=sentence):
        Torch(dataset=Listed(samples))


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (
            torch.zeros(1, 4, 5, dtype=torch.uint8),
            r"^sample 1 should be uint8 of shape \(1, 4, 4\), as the first, and is uint8 of",
        ),
        (GREY.float(), r"^sample 1 should be uint8 .* and is float32 of shape \(1, 4, 4\): have"),
        (GREY.float() + 2, r"^sample 1 should have its values in \[-1, 1\]"),
    ],
)
def test_later_samples_are_refused_when_they_are_read_a_few_before_the_run_begins(second, sentence):
    with pytest.raises(DecodingError, match=sentence):
        Torch(dataset=Listed([GREY, second])).load()
    data = Torch(dataset=Listed([GREY, second, *[GREY] * 98])).load()
    assert torch.equal(data[0], GREY)
    with pytest.raises(DecodingError, match=sentence):
        data[1]


@pytest.mark.parametrize("targets", [[0], [0, -1], [0.5, 1.0], ["cat", "dog"], [[0], [1]], [True, False]])
def test_targets_that_are_no_classes_are_refused(targets):
    with pytest.raises(ValueError, match=r"^targets of Listed should be 2 integers"):
        Torch(dataset=Listed([GREY, GREY], targets))


def test_a_dataset_without_a_length_and_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"^WithoutLength should have a length"):
        Torch(dataset=WithoutLength())
    assert Torch(dataset=Listed([GREY]), shape=(1, 4, 4)).shape == (1, 4, 4)
    with pytest.raises(ValueError, match=r"^sample 0 should be of shape \(3, 4, 4\)"):
        Torch(dataset=Listed([GREY]), shape=(3, 4, 4))


@pytest.mark.parametrize(
    ("overrides", "sentence"),
    [
        (
            ["dataset.dataset._target_=tests.data.own.Endless"],
            r"must be a subclass of torch\.utils\.data\.Dataset, and no Iter",
        ),
        (["dataset.dataset._target_=tests.data.own.pixels"], r"must be a subclass of torch\.utils\.data\.Dataset"),
        (
            ["dataset.dataset._target_=tests.data.own.Own", "+dataset.dataset.size=3"],
            r"^Unknown key dataset\.dataset\.size\. .*side\?$",
        ),
        (["dataset.dataset._target_=tests.data.own.Own", "+dataset.dataset.n=x"], r"^dataset\.dataset\.n needs an integer"),
        (["dataset.dataset=3"], r"^dataset\.dataset should be a class .*dataset\.dataset\._target_=mine\.Faces\.$"),
        ([], r"^dataset\.dataset\._target_ must name a class"),
        (["dataset.dataset._target_=tests.data.own.WithoutLength"], r"^dataset=torch: WithoutLength should have a length"),
    ],
)
def test_configurations_are_refused_in_a_sentence(overrides, sentence):
    with pytest.raises(UserError, match=sentence):
        check(composed(*SMALL, *overrides), trust=None)


FOLDER = "torchvision.datasets.ImageFolder"
SIZED = {"_target_": "torchvision.transforms.v2.Resize", "size": [4, 6]}
COMPOSED = {"_target_": "torchvision.transforms.Compose"}
FLIPPED = {"_target_": "torchvision.transforms.v2.RandomHorizontalFlip", "p": 1}


@pytest.fixture
def pictures(tmp_path):
    """Return a configuration of a folder of images of several sizes, which torchvision reads."""
    for place, size in enumerate([(8, 8), (16, 12), (10, 20)]):
        path = tmp_path / "all" / "ab"[place % 2] / f"{place}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise(size, 60).save(path)
    cfg = configured(FOLDER, f"+dataset.dataset.root={tmp_path / 'all'}")
    OmegaConf.set_struct(cfg, False)
    return cfg


def test_images_of_several_sizes_are_refused_before_the_run_has_a_folder_and_the_remedy_works(pictures, tmp_path):
    with pytest.raises(UserError, match=r"transform\._target_=torchvision\.transforms\.Resize .*size=\[8,8\]"):
        build(pictures, tmp_path / "run", trust=None)
    assert not (tmp_path / "run").exists()
    pictures.dataset.dataset.transform = {"_target_": "torchvision.transforms.Resize", "size": [8, 8]}
    iterate(build(pictures, trust=None), 1)


def test_transforms_may_be_nested_and_in_lists(pictures):
    transforms = [SIZED, {"_target_": "torchvision.transforms.v2.RandomApply", "p": 1, "transforms": [FLIPPED]}]
    pictures.dataset.dataset.transform = {"_target_": "torchvision.transforms.v2.Compose", "transforms": transforms}
    data = build(pictures, trust=None).reals.source.data
    files = sorted(Path(pictures.dataset.dataset.root).rglob("*.png"))
    for place, path in enumerate(files):
        by_hand = resize(Image.open(path).convert("RGB"), [4, 6]).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        assert torch.equal(data[place], pil_to_tensor(by_hand))


@pytest.mark.parametrize("place", [lambda node: node, lambda node: {**COMPOSED, "transforms": [SIZED, node]}])
def test_transforms_are_trusted_as_other_targets_are_and_have_to_be_called(place, pictures, tmp_path):
    for wrong in (
        {"_target_": "os.system", "command": f"touch {tmp_path}/witness"},
        {"_target_": "subprocess.Popen", "args": ["touch", f"{tmp_path}/witness"]},
        {"_target_": "torchvision.transforms.Resize", "sise": 8},
        {"_target_": "torchvision.transforms.CenterCrop", "size": [1, 2, 3]},
    ):
        pictures.dataset.dataset.transform = place(wrong)
        with pytest.raises(UserError, match=r"dataset\.dataset\.transform"):
            check(pictures, trust=None)
    assert not (tmp_path / "witness").exists()
    pictures.dataset.dataset.transform = place({"_target_": "antigravity.Fly"})
    with pytest.raises(UserError, match=r"transform.*_target_=antigravity\.Fly .* add trust=antigravity"):
        build(pictures, trust="torchvision")


def test_what_is_no_dataset_is_refused_without_a_call(tmp_path):
    cfg, witness = composed(*SMALL), tmp_path / "witness"
    cfg.dataset.dataset = {"_target_": "os.system", "command": f"touch {witness}"}
    for trust in ((), None):
        with pytest.raises(UserError, match=r"\Adataset\.dataset\._target_[^\n]*\.\Z"):
            check(cfg, trust=trust)
    assert not witness.exists()


def test_a_dataset_of_an_untrusted_module_is_not_even_imported(tmp_path, monkeypatch):
    (tmp_path / "faces_of_a_test.py").write_text(
        "from pathlib import Path\nfrom tests.data.own import Own\n"
        f"Path({str(tmp_path)!r}, 'imported').touch()\n\nclass Faces(Own):\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    cfg = configured("faces_of_a_test.Faces")
    for trust in ((), "other", ["faces_of"]):
        with pytest.raises(
            UserError, match=r"^dataset\.dataset\._target_=faces_of_a_test\.Faces .* add trust=faces_of_a_test \("
        ):
            build(cfg, trust=trust)
        assert not (tmp_path / "imported").exists()
    with pytest.raises(UserError, match="would run code of torchvision"):
        build(configured("torchvision.datasets.FakeData"))
    assert type(build(cfg, trust="faces_of_a_test").reals.source.data.dataset).__name__ == "Faces"
    sys.modules.pop("faces_of_a_test")
