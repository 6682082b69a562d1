"""Latents of images: read from files, decoded for pictures and measures, and made by an autoencoder of ganexp."""

import io
import json
import math
import os
from dataclasses import replace

import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from ganexp import build, load
from ganexp.batch import Batch
from ganexp.config.after_training import config_of, data_to_evaluate
from ganexp.config.check import check
from ganexp.config.decoders import show_pictures, with_decoder
from ganexp.config.loading import set_of
from ganexp.config.parsing import parse
from ganexp.config.plain import plain
from ganexp.config.untrusted import checked, is_typed_again
from ganexp.data import Latents, default_folder, load_cached
from ganexp.facts import Facts, Misfit, UserError
from ganexp.networks import BigGANGenerator, DCGANGenerator, DiTGenerator, MLPGenerator, R3GANGenerator, ResNetGenerator
from ganexp.networks.contract import declared
from ganexp.sampling.files import pixels
from tests.calling import call
from tests.composing import composed

CPU = torch.device("cpu")
N = 12


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def path(tmp_path):
    np.save(tmp_path / "z.npy", drawn(N, 5, 4, 6).numpy())
    return str(tmp_path / "z.npy")


def test_latents_of_any_channels_and_range_are_fed_as_they_are_times_their_scale(path, tmp_path):
    z, labels = 3 * drawn(N, 5, 4, 6), torch.tensor([7, 3, 3] * 4)
    np.save(tmp_path / "y.npy", labels.numpy())
    save_file({"latents": z.half(), "labels": labels, "beside": z}, tmp_path / "z.safetensors")
    save_file({"only": z.double(), "numbers": labels}, tmp_path / "w.safetensors")
    np.save(path, z.numpy().astype(">f4"))
    files = {"z.npy": z, "z.safetensors": z.half().float(), "w.safetensors": z}
    for name, expected in files.items():
        settings = {"labels": str(tmp_path / "y.npy")} if name == "z.npy" else {}
        dataset = Latents(str(tmp_path / name), scale=0.25, **settings)
        assert (dataset.shape, dataset.picture_shape) == ((5, 4, 6), (5, 4, 6))
        data = load_cached(dataset, default_folder())
        assert torch.equal(dataset.derive(Batch(data.float())).values, 0.25 * expected)
        assert dataset.classes == (0 if name.startswith("w") else 2)
        if dataset.classes:
            assert dataset.class_names == ["3", "7"]
            assert torch.equal(dataset.labels(), torch.tensor([1, 0, 0] * 4))
    assert Latents(path, shape=(4, 5, 6)).load().shape == (N, 4, 5, 6)
    np.save(tmp_path / "f.npy", np.asfortranarray(z.numpy()))
    assert torch.equal(Latents(str(tmp_path / "f.npy"), shape=(4, 5, 6)).load(), z.view(N, 4, 5, 6))
    assert Latents(path).digest() != Latents(str(tmp_path / "z.safetensors")).digest()


def size(path):
    with Image.open(path) as picture:
        return picture.size


class Harmful:
    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


def archive():
    file = io.BytesIO()
    np.savez(file, latents=np.zeros((3, 4, 8, 8), np.float32))
    return file.getvalue()


def of_header(shape):
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue() + bytes(4096)


WRONG = {
    "archive": (archive(), {}),
    "number": (np.array(1.0), {"shape": (1, 1, 1)}),
    "negative": (np.zeros((3, 4, 8, 8), np.float32), {"shape": (-4, -8, 8)}),
    "negative in the file": (of_header((2, -4, -4, 4)), {}),
    "a negative number": (of_header((-2, 4, 4, 4)), {}),
    "more than there are": (of_header((2**80, 4, 4, 4)), {}),
    "channels mixed": (np.zeros((3, 8, 8, 4), np.float32), {"shape": (4, 8, 8)}),
}


@pytest.mark.parametrize(
    ("array", "settings"),
    [
        (np.zeros((3, 4, 8, 8), np.uint8), {}),
        (np.zeros((3, 64), np.float32), {}),
        (np.zeros((0, 4, 8, 8), np.float32), {}),
        (np.zeros((3, 4, 8, 8), np.float32), {"shape": (4, 8, 9)}),
        (np.zeros((3, 4, 8, 8), np.complex64), {}),
        (np.array([Harmful()], object), {}),
        (np.array(["text"]), {}),
        (b"", {}),
        (b"anything", {}),
        *WRONG.values(),
    ],
    ids=["integers", "vectors", "none", "other shape", "complex", "pickle", "text", "empty", "broken", *WRONG],
)
def test_what_are_no_latents_is_refused_before_a_run(tmp_path, array, settings):
    path = tmp_path / "z.npy"
    path.write_bytes(array) if isinstance(array, bytes) else np.save(path, array)
    with pytest.raises(ValueError, match=r"z\.npy|shape"):
        Latents(str(path), **settings)
    with pytest.raises(UserError, match=r"\Adataset(=latents|\.shape)"):
        check(composed("dataset=latents", f"dataset.path={path}", *(f"dataset.shape={[*s]}" for s in settings.values())))


def test_files_that_are_missing_or_of_several_arrays_and_labels_of_other_samples_are_refused(path, tmp_path):
    with pytest.raises(OSError, match="no file"):
        Latents(str(tmp_path / "nowhere.npy"))
    with pytest.raises(ValueError, match=r"no \.npy or \.safetensors"):
        Latents(__file__)
    save_file({"a": drawn(2, 1, 4, 4), "b": drawn(2, 1, 4, 4)}, tmp_path / "two.safetensors")
    with pytest.raises(ValueError, match="latents"):
        Latents(str(tmp_path / "two.safetensors"))
    with pytest.raises(ValueError, match="labels"):
        Latents(path, labels=path)
    save_file({"a": drawn(N, 1, 4, 4)}, tmp_path / "of_no_labels.safetensors")
    with pytest.raises(ValueError, match="of_no_labels"):
        Latents(str(tmp_path / "of_no_labels.safetensors"), labels=str(tmp_path / "of_no_labels.safetensors"))
    with pytest.raises(OSError, match="is a folder"):
        Latents(str(tmp_path))
    for labels in (np.zeros(N - 1, int), np.zeros(N), np.zeros((N, 1), int)):
        np.save(tmp_path / "y.npy", labels)
        with pytest.raises(ValueError, match="labels"):
            Latents(path, labels=str(tmp_path / "y.npy"))
    with pytest.raises(ValueError, match="labels"):
        Latents(path).labels()
    np.save(path, np.full((N, 1, 4, 4), np.nan, np.float32))
    words = ["dataset=latents", f"dataset.path={path}", "generator=mlp", "discriminator=mlp", "logger=[]", "batch_size=4"]
    with pytest.raises(UserError, match="finite"):
        build(composed(*words))


@pytest.mark.parametrize("typed", ["flip=true", "evaluate_every=5 evaluation.features=classifier", "conditional=true"])
def test_what_has_no_meaning_for_latents_is_refused(path, typed):
    words = ["dataset=latents", f"dataset.path={path}", "generator=mlp", "discriminator=mlp", "logger=[]"]
    check(composed(*words))
    with pytest.raises(UserError, match=r"latents|labels"):
        check(composed(*words, *typed.split()))
    with pytest.raises(UserError, match="latents"):
        check(composed("dataset=self", "dataset@dataset.of=latents", f"dataset.of.path={path}", "generator=vae", "logger=[]"))


class Twice(nn.Module):
    """Makes grey images of twice the sides."""

    def forward(self, z):
        return z[:, :1].repeat_interleave(2, 2).repeat_interleave(2, 3).tanh()


@pytest.fixture
def exported(tmp_path):
    z = torch.zeros(2, 5, 4, 6)
    program = torch.export.export(Twice(), (z,), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    torch.export.save(program, tmp_path / "decoder.pt2")
    return str(tmp_path / "decoder.pt2")


def test_a_file_of_torch_export_decodes(path, exported):
    dataset = with_decoder(Latents(path, scale=0.5, decode=exported), CPU)
    z = dataset.derive(Batch(dataset.load())).values
    torch.testing.assert_close(dataset.pictures(z), Twice()(2 * z))
    assert dataset.picture_shape == (1, 8, 12)
    torch.testing.assert_close(dataset.pictured(Batch(dataset.load())).values, Twice()(dataset.load()))


def test_code_is_opened_for_those_alone_who_name_it(exported):
    values = {"dataset": {"_target_": "ganexp.data.Latents", "path": "z.npy", "decode": exported}}
    with pytest.raises(UserError, match=r"dataset\.decode=.*run code"):
        checked(values, "anyone's")
    assert checked(values, "anyone's", typed=["dataset.decode"])
    assert checked(values, "my own", trust=None)
    assert checked({"dataset": values["dataset"] | {"decode": "outputs/run"}}, "anyone's")
    assert is_typed_again(f"dataset.decode={exported}")
    with pytest.raises(UserError, match=r"dataset\.decode=hf://.*download"):
        checked({"dataset": values["dataset"] | {"decode": "hf://someone/decoder"}}, "anyone's")
    assert not is_typed_again("dataset.decode=outputs/run")


def test_a_file_on_the_hub_is_fetched(path, monkeypatch):
    def fetched(repo, name, *, revision, repo_type, **_):
        asked.append((repo, name, revision, repo_type))
        return path

    asked = []
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetched)
    assert torch.equal(Latents("hf://datasets/someone/set@v1/of/z.npy").load(), Latents(path).load())
    assert Latents("hf://datasets/someone/set/z.npy").shape == Latents(path).shape
    assert {*asked} == {("someone/set", "of/z.npy", "v1", "dataset"), ("someone/set", "z.npy", None, "dataset")}
    with pytest.raises(ValueError, match="hf://datasets/owner/name"):
        Latents("hf://someone/z.npy")
    monkeypatch.undo()
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match="cannot be fetched"):
        Latents("hf://datasets/someone/never-fetched/z.npy")


def test_a_run_whose_decoder_is_code_is_evaluated_and_drawn_by_the_decoder_that_is_named(path, exported, tmp_path):
    words = ["dataset=latents", f"dataset.path={path}", f"dataset.decode={exported}", "generator=mlp", "discriminator=mlp"]
    run = tmp_path / "run"
    build(composed(*words, "batch_size=4", "iterations=1", "logger=[]", "device=cpu"), run).fit()
    with pytest.raises(UserError, match=r"dataset\.decode=.*run code.*--decode"):
        config_of(run / "checkpoints/last.pt", {})
    config, _ = config_of(run / "checkpoints/last.pt", {}, decode=exported)
    assert config.dataset["decode"] == exported
    call("sample", run, "--n", 8, "--output", tmp_path / "of_first_channels.png")
    assert size(tmp_path / "of_first_channels.png") == (8 * (6 + 2) + 2, 4 + 4)
    call("sample", run, "--n", 8, "--decode", exported, "--output", tmp_path / "decoded.png")
    assert size(tmp_path / "decoded.png") == (8 * (12 + 2) + 2, 8 + 4)
    for scale in ("x", None, 0, math.nan, -1):
        trained = load(run)
        trained.origin = replace(trained.origin, dataset=trained.origin.dataset | {"scale": scale})
        with pytest.raises(UserError, match=r"dataset\.scale"):
            show_pictures(trained, exported)
    with pytest.raises(SystemExit, match="latents"):
        call("evaluate", tmp_path, "--dataset", "latents", "--set", f"dataset.path={path}", "--output", tmp_path / "e")


@pytest.mark.parametrize("decode", ["nowhere", "nowhere.pt2", "z.npy", "decoder.pt2", "pipe", "pipe.pt2"])
def test_decoders_that_are_none_or_of_other_latents_are_refused(path, exported, tmp_path, decode):
    other = tmp_path / "other.npy"
    np.save(other, drawn(N, 5, 4, 7).numpy())
    if "pipe" in decode:
        os.mkfifo(tmp_path / decode)
    words = ["dataset=latents", f"dataset.path={other}", f"dataset.decode={tmp_path / decode}", "generator=mlp"]
    with pytest.raises(UserError, match=r"dataset=latents has decode.*dataset\.decode=null"):
        check(composed(*words, "discriminator=mlp", "logger=[]"))
    with pytest.raises(UserError, match=r"dataset=latents has decode.*dataset\.decode=null"):
        data_to_evaluate(parse(plain(composed(*words, "discriminator=mlp", "logger=[]"))))


AUTOENCODER = [
    *("experiment=vae_gan", "dataset.of.image_size=16", "generator.depth=2", "generator.length=5", "generator.width=4"),
    *("discriminator.layers=1", "discriminator.width=2", "iterations=3", "batch_size=4", "logger=[]", "device=cpu"),
]


def grey(path):
    with Image.open(path) as picture:
        return np.array(picture)


@pytest.mark.parametrize("kind", ["vae", "vq"])
@pytest.mark.slow
def test_an_autoencoder_makes_latents_on_which_a_gan_trains_whose_samples_it_decodes(tmp_path, kind, capsys):
    run, gan, file = tmp_path / "autoencoder", tmp_path / "gan", tmp_path / "z.safetensors"
    words = (
        AUTOENCODER if kind == "vae" else [*(word.replace("vae_gan", "vqgan") for word in AUTOENCODER), "wrapper.pretrain.g=1"]
    )
    build(composed(*words), run).fit()
    (tmp_path / "latest").symlink_to(run)  # the printed decoder is the run itself, since a link soon leads elsewhere
    call("sample", tmp_path / "latest", "--latents", "--output", file, "--batch-size", 100)
    printed = capsys.readouterr().out.split()
    trained = load(run)
    dataset, data = set_of(trained)
    images = dataset.derive(Batch(data.float() / 127.5 - 1)).values
    stored = load_file(file)
    with torch.no_grad():
        torch.testing.assert_close(stored["latents"], trained.network.latents(images))
        decoded = trained.network.images(stored["latents"])
        torch.testing.assert_close(decoded, trained.network(images), rtol=1e-4, atol=1e-5)
    assert torch.equal(stored["labels"], dataset.labels())
    typed = [word for word in printed if word.startswith("dataset")]
    assert {f"dataset.path={file}", f"dataset.decode={run}"} < {*typed}
    scale = float(next(word for word in typed if word.startswith("dataset.scale")).partition("=")[2])
    assert scale * stored["latents"].std().item() == pytest.approx(1, rel=1e-3)

    networks = [f"{side}.{setting}" for side in ("generator", "discriminator") for setting in ("width=8", "heads=2", "depth=1")]
    words = ["generator=dit", "generator.block=gat", "discriminator=dit", *networks, "conditional=true", "batch_size=4"]
    settings = ["iterations=2", "evaluate_every=2", "evaluation.samples=300", "measure=[fid]", "sample_every=2", "logger=[]"]
    trainer = build(composed(*typed, *words, *settings, "device=cpu"), gan)
    trainer.fit()
    G = load(gan)
    z = G.sample(8)
    with torch.no_grad():
        expected = trained.network.images(z / scale)
    call("sample", gan, "--images", "--n", 8, "--output", tmp_path / "pictures")
    pictures = np.stack([grey(tmp_path / f"pictures/{i:09d}.png") for i in range(8)])
    assert abs(pictures.astype(int) - pixels(expected)[..., 0].astype(int)).max() <= 1
    shown = with_decoder(Latents(str(file), scale=scale, decode=str(run)), CPU).pictures(trainer.reals.last.values)
    assert size(gan / "samples/real.png") == (4 * (16 + 2) + 2, 20)
    assert shown.shape == (4, 1, 16, 16)
    row = [json.loads(line) for line in (gan / "metrics.jsonl").read_text().splitlines()][-1]
    of_reals = trained.network.images(stored["latents"]).detach().flatten(1).double()
    latents = [load(gan)(z.values, *z.conditions) for z in trainer.gan.prior.in_batches(300, 250)]
    fakes = trained.network.images(torch.cat(latents) / scale).detach().flatten(1).double()
    assert fakes.shape == (300, 256)
    spread_r, spread_f = of_reals.T.cov(), fakes.T.cov()
    root = torch.linalg.eigvals(spread_r @ spread_f).real.clamp(min=0).sqrt().sum()
    by_hand = (of_reals.mean(0) - fakes.mean(0)).square().sum() + spread_r.trace() + spread_f.trace() - 2 * root
    assert row["eval/fid"] == pytest.approx(by_hand.item(), rel=1e-3)

    call("sample", gan, "--neighbours", "--n", 2, "--output", tmp_path / "near.png")
    assert size(tmp_path / "near.png")[1] == 2 * (16 + 2) + 2
    call("evaluate", gan, "--output", tmp_path / "evaluation")
    again = (tmp_path / "evaluation/evaluation.json").read_text()
    assert json.loads(again)["results"][0]["figures"]["eval/fid"]["value"] == pytest.approx(row["eval/fid"], rel=1e-6)
    call("sample", gan, "--film", "--tiles", 1, "--frames", 1, "--output", tmp_path / "walk.gif")
    assert size(tmp_path / "walk.gif") == (16, 16)


def test_a_generator_is_no_autoencoder(tmp_path):
    words = ["generator=mlp", "discriminator=mlp", "dataset=fake", "dataset.n=8", "dataset.image_size=4", "batch_size=4"]
    build(composed(*words, "iterations=1", "logger=[]", "device=cpu"), tmp_path / "run").fit()
    with pytest.raises(SystemExit, match="autoencoder"):
        call("sample", tmp_path / "run", "--latents")
    np.save(tmp_path / "z.npy", drawn(N, 5, 4, 4).numpy())
    latents = Latents(str(tmp_path / "z.npy"), decode=str(tmp_path / "run"))
    with pytest.raises(Misfit, match="autoencoder"):
        with_decoder(latents, CPU)


def test_mirrored_latents_are_refused(path):
    with pytest.raises(Misfit, match="mirrored"):
        Latents(path).check(Facts(shape=(5, 4, 6), flip=True))


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        ("penalty=[cr]", "penalty.cr.flip=false"),
        ("penalty=[bcr]", "penalty.bcr.flip=false"),
        ("augment=ada", "augment=none"),
        ("augment=diffaugment", "augment.policy=[translation,cutout]"),
        ("discriminator=projected", "discriminator=dit"),
        ("evaluate_every=5 measure=[fid] evaluation.features=inception", "dataset.decode"),
        ("evaluate_every=5 measure=[fid] evaluation.features=dinov2_vits14", "dataset.decode"),
    ],
)
def test_parts_that_take_latents_for_images_are_refused_and_name_a_remedy(tmp_path, typed, named):
    np.save(tmp_path / "z.npy", drawn(N, 3, 32, 32).numpy())
    words = ["dataset=latents", f"dataset.path={tmp_path}/z.npy", "generator=mlp", "discriminator=mlp", "logger=[]"]
    with pytest.raises(UserError) as raised:
        check(composed(*words, *typed.split()))
    assert "latent" in str(raised.value)
    assert named in str(raised.value)
    if named.startswith(("penalty", "augment.")):
        check(composed(*words, *typed.split(), named))


@pytest.mark.parametrize(
    ("latents", "warning"),
    [
        (drawn(N, 8, 8, 4), "N, C, H, W"),
        (torch.cat([drawn(N, 4, 8, 8), drawn(N, 4, 8, 8).abs() - 20], 1), "moments"),
        (drawn(N, 4, 8, 8), None),
        (drawn(N, 8, 8, 8), None),
        (drawn(N, 1, 8, 8) - 20, None),
        (drawn(N, 4, 8, 8) - 20, None),
    ],
    ids=["channels last", "moments", "four", "eight", "one", "negative"],
)
def test_latents_that_seem_to_be_something_else_are_told(tmp_path, latents, warning):
    np.save(tmp_path / "z.npy", latents.numpy())
    facts = Facts(shape=tuple(latents.shape[1:]))
    Latents(str(tmp_path / "z.npy")).check(facts)
    assert [warning in sentence for sentence in facts.warnings] == ([True] if warning else [])


@pytest.mark.slow
def test_a_generator_that_ends_in_a_tanh_is_warned_of(tmp_path):
    np.save(tmp_path / "z.npy", drawn(N, 4, 16, 16).numpy())
    words = ["dataset=latents", f"dataset.path={tmp_path}/z.npy", "discriminator=mlp", "logger=[]"]
    for generator in ("dcgan", "mlp"):
        (warning,) = check(composed(*words, f"generator={generator}")).warnings
        assert warning.startswith(f"generator={generator} ends in a tanh")
        assert "generator=dit" in warning
    assert check(composed(*words, "generator=dit")).warnings == []
    assert not any("tanh" in sentence for sentence in check(composed("generator=dcgan", "logger=[]")).warnings)


@pytest.mark.parametrize("kind", [DCGANGenerator, MLPGenerator, BigGANGenerator, ResNetGenerator, DiTGenerator, R3GANGenerator])
def test_generators_are_bounded_as_they_declare(kind):
    generator = kind(20, (3, 32, 32), width=24).train()
    with torch.no_grad():
        for p in generator.parameters():
            p.normal_(0, 3)
        assert (generator(drawn(4, 20)).abs().max() <= 1) == declared(kind).bounded
