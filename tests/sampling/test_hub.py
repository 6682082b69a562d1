"""A generator pushed to a hub is the same when it is loaded from there, against a stand-in on the loopback interface."""

import sys

import pytest
import torch
from huggingface_hub import close_session, constants

import ganexp
from ganexp.facts import UserError
from ganexp.networks import MLPGenerator
from ganexp.sampling import Trained, push, save
from tests.calling import call
from tests.composing import composed
from tests.sampling.hub_stand_in import serving
from tests.small_runs import SMALL

pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("someones") / "run"
    ganexp.build(composed(*SMALL, "iterations=2", "checkpoint_every=2"), folder).fit()
    return folder


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with serving() as server:
        monkeypatch.setattr(constants, "ENDPOINT", server.url)
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}")
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
        monkeypatch.setenv("HF_TOKEN", server.token)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        yield server
        close_session()


def test_what_is_pushed_is_what_is_saved_and_is_loaded_again(run, hub, tmp_path, capsys):
    assert call("push", run, "hf://someone/digits", "--license", "mit", "--private") == f"{hub.url}/someone/digits"
    assert 'ganexp.load("hf://someone/digits")' in capsys.readouterr().out
    assert hub.private == {"someone/digits": True}
    G = ganexp.load(run)
    kept = save(G, tmp_path / "kept", place="hf://someone/digits", licence="mit")
    (files,) = hub.commits["someone/digits"]
    assert {name: files[name] for name in files if name != ".gitattributes"} == {
        path.name: path.read_bytes() for path in kept.iterdir()
    }
    card = files["README.md"].decode()
    assert card.startswith("---\nlicense: mit\n")
    assert 'G = ganexp.load("hf://someone/digits")' in card
    assert not any(str(run.parent).encode() in content for content in files.values())
    again = ganexp.load("hf://someone/digits")
    assert torch.equal(again.sample(3, seed=5), G.sample(3, seed=5))
    fetched = {one.rpartition("/")[2] for one in hub.asked if one.startswith("GET /someone/digits/resolve")}
    assert fetched == {"model.safetensors", "generator.json"}


def test_a_commit_can_be_named_and_what_was_fetched_is_there_without_a_connection(run, hub, monkeypatch):
    G = ganexp.load(run)
    push(G, "someone/digits")
    with torch.no_grad():
        before = G.sample(2)
        next(iter(G.network.parameters())).mul_(2)
    push(G, "someone/digits")
    assert torch.equal(ganexp.load(f"hf://someone/digits@{1:040x}").sample(2), before)
    assert torch.equal(ganexp.load("hf://someone/digits").sample(2), G.sample(2))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert torch.equal(ganexp.load("hf://someone/digits").sample(2), G.sample(2))


def test_a_discriminator_is_published_beside_its_generator(run, hub, monkeypatch):
    call("push", run, "someone/pair", "--with-discriminator")
    (files,) = hub.commits["someone/pair"]
    assert 'D = ganexp.load_discriminator("hf://someone/pair")' in files["README.md"].decode()
    D, again = ganexp.load_discriminator(run), ganexp.load_discriminator("hf://someone/pair")
    assert {name: tensor.tolist() for name, tensor in again.state_dict().items()} == {
        name: tensor.tolist() for name, tensor in D.state_dict().items()
    }
    fetched = {one.rpartition("/")[2] for one in hub.asked if one.startswith("GET /someone/pair/resolve")}
    assert fetched == {"discriminator.safetensors", "generator.json"}
    call("push", run, "someone/pair")
    assert "discriminator.safetensors" not in hub.commits["someone/pair"][-1]
    with pytest.raises(UserError, match=r"\A[^\n]*with its discriminator\Z"):
        ganexp.load_discriminator("hf://someone/pair")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"\A[^\n]*connect[^\n]*\Z"):  # of which D alone was fetched
        ganexp.load("hf://someone/pair")


def test_points_replace_images_and_their_picture(run, hub, tmp_path):
    ring = composed("experiment=ring", "dataset.n=50", "logger=[]", "iterations=1", "sample_every=0")
    ganexp.build(ring, tmp_path).fit()
    push(ganexp.load(run), "someone/any")
    push(ganexp.load(tmp_path), "someone/any")
    assert ["samples.png" in files for files in hub.commits["someone/any"]] == [True, False]


def test_samples_are_drawn_from_the_hub(run, hub, tmp_path, monkeypatch):
    push(ganexp.load(run), "someone/digits")
    monkeypatch.chdir(tmp_path)
    call("sample", "hf://someone/digits", "--n", "8")
    assert [path.name for path in (tmp_path / "generated").iterdir()] == ["grid_seed0.png"]


def test_what_cannot_be_pushed_or_loaded_is_one_sentence(run, hub, monkeypatch, tmp_path):
    G = ganexp.load(run)
    plain = Trained(MLPGenerator(3, (2,), width=4), latent_dim=3, prior="normal", shape=(2,))
    with pytest.raises(UserError, match=r"\A[^\n]*no configuration[^\n]*\Z"):
        push(plain, "someone/digits")
    for name in ("hf://someone/nothing", "hf://a/b/c", "hf://", "hf://../x"):
        with pytest.raises(UserError, match=rf"\A{name}[^\n]*\Z"):
            ganexp.load(name)
    hub.commits["someone/empty"] = [{"README.md": b""}]
    with pytest.raises(UserError, match=r"\A[^\n]*\Z"):
        ganexp.load("hf://someone/empty")
    monkeypatch.setenv("HF_TOKEN", "hf_another")
    with pytest.raises(UserError, match=r"\Asomeone/digits[^\n]*HF_TOKEN\Z"):
        push(G, "someone/digits")
    assert "someone/digits" not in hub.commits
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"\A[^\n]*connect to the internet[^\n]*\Z"):
        ganexp.load("hf://someone/unseen")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UserError, match=r"\A[^\n]*ganexp\[hub\][^\n]*\Z"):
        push(G, "someone/digits")
