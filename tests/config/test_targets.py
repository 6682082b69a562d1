"""A configuration runs no code but that of its group, and from a stranger only ganexp's; whatever it names."""

import sys
from typing import Any

import pytest
import torch

from ganexp import build
from ganexp.config.check import check
from ganexp.config.choices import choose
from ganexp.config.targets import target
from ganexp.data import Dataset
from ganexp.facts import UserError
from ganexp.losses import Hinge, Loss
from ganexp.penalties import Penalty
from ganexp.strategies import Strategy, detach
from tests.composing import composed
from tests.small_runs import SMALL

PLACES = ("dataset", "generator", "discriminator", "loss", "penalty.r1", "augment", "strategy", "optimizer.g", "optimizer.d")
DANGEROUS = (  # names that a stranger might write behind `_target_`: none of them is called
    *("os.system", "subprocess.Popen", "subprocess.run", "builtins.eval", "builtins.exec", "builtins.open", "shutil.rmtree"),
    *("ganexp.config.build.os.system", "ganexp.config.build.Path", "ganexp.config.build.load"),
    *("os:system", "torch.load", "pickle.Unpickler"),
)


@pytest.mark.parametrize("place", PLACES)
def test_what_is_no_member_of_a_group_is_refused_without_a_call(place, tmp_path):
    cfg = composed("penalty=[r1]")
    group, _, side = place.partition(".")
    node = cfg[group][side] if side else cfg[group]
    witness = tmp_path / "witness"
    code = {"command": f"touch {witness}", "args": f"touch {witness}", "cmd": f"touch {witness}", "file": str(witness)}
    changed = {"_target_": "os.system", **code}
    if side:
        cfg[group][side] = changed
    else:
        cfg[group] = changed
    assert node is not None
    for trust in ((), None):
        with pytest.raises(UserError, match=rf"\A{place}\._target_[^\n]*\.\Z"):
            check(cfg, trust=trust)
    assert not witness.exists()


@pytest.mark.parametrize("name", DANGEROUS)
def test_no_name_is_called_to_find_out_what_it_is(name, tmp_path):
    for trust in ((), None):
        with pytest.raises(UserError, match=r"\Aloss\._target_[^\n]*\.\Z"):
            target({"_target_": name, "command": f"touch {tmp_path}/witness"}, "loss", trust)
    assert not (tmp_path / "witness").exists()


MINE = """
from pathlib import Path
from ganexp.losses import Hinge
Path("imported").touch()

class Mine(Hinge):
    pass
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """Write a module of someone's own, which leaves a trace when it is imported, and return a configuration with it."""
    (tmp_path / "mine_of_a_test.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield {"_target_": "mine_of_a_test.Mine"}
    sys.modules.pop("mine_of_a_test", None)


def test_a_module_of_ones_own_is_imported_only_if_it_is_trusted(mine, tmp_path):
    cfg = composed(*SMALL)
    cfg.loss = mine
    for trust in ((), ["other"], ["mine_of"], "mine_of_a_test.Mine.x"):
        with pytest.raises(UserError, match=r"^loss\._target_=mine_of_a_test\.Mine is not .* add trust=mine_of_a_test \("):
            build(cfg, trust=trust)
        assert not (tmp_path / "imported").exists()
    assert type(build(cfg, trust="mine_of_a_test").gan.loss).__name__ == "Mine"
    assert type(build(cfg, trust=["other", "mine_of_a_test"]).gan.loss).__name__ == "Mine"


@pytest.mark.parametrize(
    ("place", "name", "sentence"),
    [
        ("penalty.r1", "ganexp.losses.Hinge", "must be a subclass of ganexp.penalties.Penalty"),
        ("augment", "ganexp.penalties.R1", "must be a subclass of ganexp.augmentations.Augmentation"),
        ("loss", "ganexp.losses.base", "must be a subclass of ganexp.losses.Loss"),
        ("loss", "math.pi", "must be a subclass of ganexp.losses.Loss"),
        ("strategy", "ganexp.strategies.steps.d_step", r"must be a function of \(gan, reals, \*, d_steps, g_steps\)"),
        ("dataset", "ganexp.networks.MLPGenerator", "must be a subclass of ganexp.data.Dataset"),
        ("optimizer.g", "torch.nn.ReLU", "must be a subclass of torch.optim.Optimizer"),
        ("generator", "torch.zeros", "must be a subclass of torch.nn.Module"),
        ("loss", "", "must name a class or a function"),
        ("loss", 3, "must name a class or a function"),
        ("loss", "hinge", "must name a class or a function"),
        ("loss", "..hinge", "must name a class or a function"),
    ],
)
def test_each_group_takes_its_own_kind(place, name, sentence):
    with pytest.raises(UserError, match=sentence):
        target({"_target_": name}, place)


def unannotated(gan, reals, *, d_steps, g_steps, n=2, rate=1, mode="a"):
    detach(gan, reals, d_steps=d_steps, g_steps=g_steps * n)


class Around(Penalty):
    def __init__(self, *, of: Penalty):
        self.of = of


class WithSettings(Penalty):
    def __init__(self, *, settings: dict[str, Any]):
        self.settings = settings


def test_a_setting_that_is_annotated_as_a_dict_stays_one():
    settings = {"_target_": "ganexp.penalties.R1"}
    assert choose("penalty.mine", {"_target_": f"{__name__}.WithSettings", "settings": settings}).make().settings == settings


def test_a_setting_that_is_a_node_is_a_choice_in_every_group(tmp_path):
    node = {"_target_": f"{__name__}.Around", "of": {"_target_": "ganexp.penalties.R1", "weight": 3}}
    assert choose("penalty.mine", node).make().of.weight == 3
    witness = tmp_path / "witness"
    code = {"_target_": "os.system", "command": f"touch {witness}"}
    with pytest.raises(UserError, match=r"\Apenalty\.mine\.of\._target_=os\.system must be a subclass of [^\n]*\.\Z"):
        choose("penalty.mine", node | {"of": code}).make()
    with pytest.raises(UserError, match=r"\Apenalty\.mine\.of\._target_=os\.system is not ganexp's, [^\n]*\.\Z"):
        choose("penalty.mine", node | {"of": code}, trust=[__name__])
    assert not witness.exists()


def test_a_setting_without_an_annotation_is_a_number_where_its_default_is_one():
    own = [f"strategy._target_={__name__}.unannotated"]
    check(composed(*own, "+strategy.n=3", "+strategy.rate=0.5", "+strategy.mode=5"), trust=__name__)
    with pytest.raises(UserError, match=r"^strategy\.n needs a number; got banana\.$"):
        check(composed(*own, "+strategy.n=banana"), trust=__name__)


class Unfinished(Loss):
    def d_loss(self, real, fake):
        return fake.mean() - real.mean()


class Hasty(Loss):
    def __init__(self):
        self.factor = 2.0


class Silent(torch.nn.Module):
    def __init__(self, latent_dim, shape):
        super().__init__()

    def forward(self, z):
        raise NotImplementedError


class Forgetful(Loss):
    def d_loss(self, real, fake):
        (fake - real).mean()

    def g_loss(self, real, fake):
        return -fake.mean()


class Unreduced(Loss):
    def d_loss(self, real, fake):
        return fake.mean() - real.mean()

    def g_loss(self, real, fake):
        return -fake


@pytest.mark.parametrize(
    ("loss", "returned"), [("Forgetful", r"d_loss returns None,"), ("Unreduced", r"g_loss returns a tensor of shape \(\d+,\),")]
)
def test_a_loss_that_returns_no_number_is_one_sentence(loss, returned):
    with pytest.raises(UserError, match=f": {loss}.{returned} and an objective is one number"):
        check(composed(*SMALL, f"loss._target_={__name__}.{loss}"), trust="tests")


def test_a_part_that_lacks_a_method_is_one_sentence():
    with pytest.raises(UserError, match=r"cannot run one iteration: Unfinished has no g_loss\.$"):
        check(composed(*SMALL, f"loss._target_={__name__}.Unfinished"), trust="tests")
    with pytest.raises(UserError, match=r"needs super\(\).__init__\(\) in the __init__ of Hasty"):
        check(composed(*SMALL, f"loss._target_={__name__}.Hasty"), trust="tests")
    with pytest.raises(UserError, match=r"No module named 'nowhere'.* PYTHONPATH=\. "):
        check(composed(*SMALL, "loss._target_=nowhere.Loss"), trust="nowhere")
    cfg = composed()
    cfg.generator = {"_target_": f"{__name__}.Silent"}
    with pytest.raises(UserError, match=r"Silent cannot run on latents of .*\(NotImplementedError\): "):
        check(cfg, trust="tests")


class Keeping(Strategy):
    """Keeps something for the next iteration, as `keep` makes it from the gradients of both networks."""

    def __init__(self, keep="nothing"):
        self.keep, self.kept = keep, [] if keep in ("in order", "of D first") else None

    def __call__(self, gan, reals, *, d_steps, g_steps):
        d, g = gan.losses(next(reals), gan.generate(gan.sample()))
        d_gradients, g_gradients = gradients = gan.gradients(d, g)
        gan.update_both(d, g, gradients)
        self.kept = {
            "in order": [*g_gradients, *d_gradients],
            "of D first": [*d_gradients, *g_gradients],
            "tuple": gradients,
            "number": 0.5,
            "nothing": None,
        }[self.keep]

    def state_dict(self):
        return {"kept": self.kept}

    def load_state_dict(self, state):
        self.kept = state["kept"]


def keeping(keep):
    cfg = composed(*SMALL)
    cfg.strategy = {"_target_": f"{__name__}.Keeping", "keep": keep}
    return cfg


@pytest.mark.parametrize("keep", ["in order", "number", "nothing"])
def test_a_state_that_resumes_is_accepted(keep):
    trainer = build(keeping(keep), trust="tests")
    trainer.step(trainer.reals)
    build(keeping(keep), trust="tests").load_state_dict(trainer.state_dict())


@pytest.mark.parametrize(("keep", "said"), [("of D first", "should hold a tensor for each"), ("tuple", "should be None or a")])
def test_a_state_that_would_not_resume_is_refused_beforehand(keep, said):
    with pytest.raises(UserError, match=rf"^strategy.* could not be resumed, as its state\.kept {said}"):
        check(keeping(keep), trust="tests")


def test_a_data_set_without_a_shape_is_one_sentence():
    cfg = composed()
    cfg.dataset = {"_target_": f"{__name__}.Shapeless"}
    with pytest.raises(UserError, match=r"^dataset\._target_=.*Shapeless must have a shape, such as \(3, 32, 32\)"):
        check(cfg, trust="tests")


class Shapeless(Dataset):
    def load(self):
        raise AssertionError("it was read")


class Again(Hinge):
    """Stands for a class that the cell of a notebook defines anew."""


def test_a_class_that_is_defined_anew_is_the_one_that_is_built(monkeypatch):
    cfg = composed(*SMALL, "~loss", f"+loss={{_target_: {__name__}.Again}}")
    assert type(build(cfg, trust="tests").gan.loss) is Again
    anew = type("Again", (Hinge,), {"__module__": __name__})
    monkeypatch.setattr(sys.modules[__name__], "Again", anew)
    assert type(build(cfg, trust="tests").gan.loss) is anew


@pytest.mark.parametrize(
    ("size", "shape"), [("96x80", (3, 80, 96)), ("96×80", (3, 80, 96)), ([80, 96], (3, 80, 96)), (80, (3, 80, 80))]
)
def test_a_size_is_a_side_or_height_and_width_or_what_image_programs_write(size, shape):
    assert choose("dataset", {"name": "fake", "_target_": "ganexp.data.Fake", "image_size": size}).make().shape == shape


@pytest.mark.parametrize("size", ["96x0", "96x", "x", "big", "4097x1"])
def test_what_is_no_size_is_refused(size):
    with pytest.raises(UserError, match=r"^dataset\.image_size"):
        choose("dataset", {"name": "fake", "_target_": "ganexp.data.Fake", "image_size": size})
