"""A saved generator is the same wherever its folder is moved, and a folder that was tampered with is refused in a sentence."""

import json
import os
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file

import ganexp
from ganexp.config.loading import set_of
from ganexp.facts import UserError
from ganexp.networks import MLPGenerator
from ganexp.sampling import Trained, save
from ganexp.sampling.trained import weights_digest
from tests.calling import call
from tests.composing import composed

SMALL = ("dataset.image_size=8", "generator=mlp", "discriminator=mlp", "generator.width=8", "discriminator.width=8")


class Own(MLPGenerator):
    pass


def trained(folder, *further, target=None, trust=()):
    cfg = composed(*SMALL, "logger=[]", "batch_size=8", "iterations=2", "conditional=true", *further)
    cfg.generator._target_ = target or cfg.generator._target_
    ganexp.build(cfg, folder, trust=trust).fit()
    return ganexp.load(folder, trust=trust)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    G = trained(folder, "data_root=/home/someone/secret", "logger=[wandb]", "logger.wandb.entity=someone")
    return G, save(G, folder / "shared")


def test_a_folder_moved_elsewhere_is_the_same_generator(kept, tmp_path):
    G, folder = kept
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    again = ganexp.load(moved)
    assert torch.equal(again.sample(5, seed=2, truncation=1.0), G.sample(5, seed=2, truncation=1.0))
    assert (again.classes, again.shape, again.digest) == (10, (1, 8, 8), G.digest)
    assert (again.origin.iterations, again.origin.figures) == (2, G.origin.figures)
    assert not any(parameter.requires_grad for parameter in again.parameters())
    twice = save(again, tmp_path / "twice")
    assert (twice / "generator.json").read_text() == (folder / "generator.json").read_text()


def test_a_discriminator_goes_along_if_it_is_given(tmp_path):
    G, D = trained(tmp_path / "run"), ganexp.load_discriminator(tmp_path / "run")
    folder = save(G, tmp_path / "pair", discriminator=D)
    moved = shutil.copytree(folder, tmp_path / "moved")
    x, labels = G.sample(5), torch.arange(5)
    assert torch.equal(ganexp.load_discriminator(moved)(x, labels), D(x, labels))
    assert torch.equal(ganexp.load(moved).sample(5), x)
    (moved / "discriminator.safetensors").unlink()
    with pytest.raises(UserError, match=r"discriminator\.safetensors is missing"):
        ganexp.load_discriminator(moved)
    save_file({"x": torch.zeros(1)}, moved / "discriminator.safetensors")
    with pytest.raises(UserError, match="is not what"):
        ganexp.load_discriminator(moved)
    save(G, folder, overwrite=True)
    assert not (folder / "discriminator.safetensors").exists()
    with pytest.raises(UserError, match="holds a generator alone"):
        ganexp.load_discriminator(folder)


def test_of_another_generator_nothing_stays(kept, tmp_path):
    """Points have no picture, and a generator alone has no discriminator."""
    run = tmp_path / "run"
    ganexp.build(composed("experiment=ring", "dataset.n=50", "logger=[]", "iterations=1", "sample_every=0"), run).fit()
    folder = save(kept[0], tmp_path / "folder", discriminator=torch.nn.Linear(2, 1))
    save(ganexp.load(run), folder, overwrite=True)
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "generator.json", "model.safetensors"]


def test_float64_stays(tmp_path):
    G = trained(tmp_path / "run", "precision=fp64")
    again = ganexp.load(save(G, tmp_path / "x"))
    assert again.sample(2).dtype == torch.float64
    assert torch.equal(again.sample(2), G.sample(2))


def test_the_card_tells_what_it_is_and_nothing_of_the_machine(kept):
    G, folder = kept
    assert sorted(path.name for path in folder.iterdir()) == ["README.md", "generator.json", "model.safetensors", "samples.png"]
    card = (folder / "README.md").read_text()
    assert card.startswith("---\nlicense:  # choose one")
    rows = dict(line.strip("| ").split(" | ") for line in card.splitlines() if line.startswith("| "))
    assert {key: rows[key] for key in ("dataset", "loss", "strategy", "batch_size")} == {
        "dataset": "digits",
        "loss": "nonsaturating",
        "strategy": "detach",
        "batch_size": "8",
    }
    assert float(rows["loss/d"]) == pytest.approx(G.origin.figures["loss/d"], rel=1e-4)
    assert "A class-conditional (10 classes) generator" in card
    for name in ("README.md", "generator.json"):
        text = (folder / name).read_text()
        assert not any(word in text for word in ("someone", "secret", str(folder.parent)))


def test_the_names_of_classes_go_with_the_weights_and_choose_samples(tmp_path, caplog):
    for name in ("heron", "crane", "\x1b[31m|x"):
        (tmp_path / "birds" / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / "birds" / name / "1.png")
    names = ["\x1b[31m|x", "crane", "heron"]
    caplog.set_level("INFO")
    G = trained(tmp_path / "run", "dataset=image_folder", f"dataset.path={tmp_path / 'birds'}", "workers=0")
    first = next(record.getMessage() for record in caplog.records if record.name.startswith(("ganexp.config", "ganexp.data")))
    assert r"3 classes (\x1b[31m|x, crane, heron)" in first
    kept = torch.load(tmp_path / "run" / "checkpoints" / "last.pt", weights_only=True)
    assert (kept["classes"], kept["class_names"]) == (3, names)
    folder = save(G, tmp_path / "saved")
    again = ganexp.load(folder)
    assert again.origin.class_names == tuple(names)
    assert torch.equal(again.sample(3, label="heron"), G.sample(3, label=2))
    assert r"| classes | \x1b[31m/x, crane, heron |" in (folder / "README.md").read_text()
    drawn = [call("sample", folder, "--label", label, "--images", "--format", "npz", "--n", "3") for label in ("heron", "2")]
    by_name, by_number = (np.load(path)["arr_0"] for path in drawn)
    assert drawn[0].name == "samples_npz_0-3_seed0_labelheron.npz"
    assert np.array_equal(by_name, by_number)
    document = json.loads((folder / "generator.json").read_text())
    for wrong in (names[:2], [1, 2, 3]):
        (folder / "generator.json").write_text(json.dumps(document | {"class_names": wrong}))
        with pytest.raises(UserError, match="is called"):
            ganexp.load(folder)


def test_data_whose_place_was_left_out_are_a_sentence(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png")
    cfg = ["dataset=image_folder", f"dataset.path={tmp_path}", "conditional=false", "workers=0"]
    G = trained(tmp_path / "run", *cfg)
    assert set_of(G)[1][0].shape == (3, 8, 8)
    folder = save(G, tmp_path / "shared")
    assert str(tmp_path) not in (folder / "generator.json").read_text()
    with pytest.raises(UserError, match=r"\Adataset=image_folder, on which it was trained, is not available here: [^\n]*\Z"):
        set_of(ganexp.load(folder))


def test_a_class_of_ones_own_must_be_trusted(tmp_path):
    G = trained(tmp_path / "run", target=f"{__name__}.Own", trust="tests")
    folder = save(G, tmp_path / "x")
    with pytest.raises(UserError, match=r"^generator\._target_=\S+\.Own is not ganexp's, .* add trust=tests \("):
        ganexp.load(folder)
    assert type(ganexp.load(folder, trust="tests").network).__name__ == "Own"


def put(document, key, value):
    *path, last = key.split(".")
    for part in path:
        document = document[part]
    document[last] = value


def test_a_tampered_folder_is_one_sentence(kept, tmp_path):
    _, folder = kept
    genuine = json.loads((folder / "generator.json").read_text())
    for key, value, said in [
        ("settings.generator.width", 4000, "does not fit its own configuration"),
        ("shape", [1, 16, 16], "does not fit its own configuration"),
        ("classes", 3, "does not fit its own configuration"),
        ("classes", 0, "how many classes"),
        ("shape", [0], "which shape"),
        ("shape", "x", "generator.json is missing, or does not describe"),
        ("settings.generator._target_", "os.system", r"generator\._target_=os\.system is not ganexp's"),
        ("settings.generator._target_", "ganexp.Nothing", r"generator\._target_"),
        ("settings.generator", 3, "generator"),
        ("settings.latent_dim", 10**12, "latent_dim"),
        ("settings", {}, "without a configuration"),
        ("format", 2, "does not describe a generator of this version"),
        ("weights", "0" * 64, "model.safetensors is not what generator.json was written with"),
    ]:
        broken = shutil.copytree(folder, tmp_path / "x")
        document = json.loads(json.dumps(genuine))
        put(document, key, value)
        (broken / "generator.json").write_text(json.dumps(document))
        with pytest.raises(UserError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
            ganexp.load(broken)
        shutil.rmtree(broken)


def test_broken_files_are_one_sentence(kept, tmp_path):
    _, folder = kept
    weights, document = (folder / "model.safetensors").read_bytes(), (folder / "generator.json").read_bytes()
    broken = tmp_path / "x"
    for name, content, said in [
        ("generator.json", b"{", "does not describe"),
        ("generator.json", b"[" * 100_000, "does not describe"),
        ("generator.json", None, "does not describe"),
        ("model.safetensors", weights[:-4], "model.safetensors cannot be read"),
        ("model.safetensors", b"\xff" * 100, "model.safetensors cannot be read"),
        ("model.safetensors", weights[:-1] + bytes([weights[-1] ^ 1]), "is not what generator.json was written with"),
        ("model.safetensors", None, "model.safetensors is missing"),
    ]:
        shutil.copytree(folder, broken)
        (broken / name).unlink()
        if content is not None:
            (broken / name).write_bytes(content)
        with pytest.raises(UserError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
            ganexp.load(broken)
        shutil.rmtree(broken)
    for name, said in {"generator.json": "does not describe", "model.safetensors": "cannot be read"}.items():
        shutil.copytree(folder, broken)
        (broken / name).unlink()
        os.mkfifo(broken / name)
        with pytest.raises(UserError, match=said):
            ganexp.load(broken)
        shutil.rmtree(broken)
    shutil.copytree(folder, broken)
    tensors = {name: value * float("nan") for name, value in load_file(broken / "model.safetensors").items()}
    save_file(tensors, broken / "model.safetensors")
    told = json.loads(document) | {"weights": weights_digest(tensors)}
    (broken / "generator.json").write_text(json.dumps(told))
    with pytest.raises(UserError, match="is not finite"):
        ganexp.load(broken)


def test_what_cannot_be_saved_is_one_sentence(kept, tmp_path):
    G, folder = kept
    (tmp_path / "file").touch()
    plain = Trained(MLPGenerator(3, (2,), width=4), latent_dim=3, prior="normal", shape=(2,))
    for said, attempt in {
        "shared is not empty: name another folder": lambda: save(G, folder),
        "file is a file": lambda: save(G, tmp_path / "file"),
        "has no configuration: save its state_dict": lambda: save(plain, tmp_path / "x"),
    }.items():
        with pytest.raises(UserError, match=rf"\A[^\n]*{said}[^\n]*\Z"):
            attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    with pytest.raises(UserError, match="holds one set of weights"):
        ganexp.load(folder, averaged=False)
    assert torch.equal(ganexp.load(save(G, folder, overwrite=True)).sample(2), G.sample(2))
