"""Lines are named so that two files of one name are told apart, whatever folder a script goes to."""

import sys
from types import SimpleNamespace

from ganexp.watching import places


def called(file):
    """Return the place of a call in a file."""
    there = {"place": places.place}
    exec(compile("\n\nhere = place()", str(file), "exec"), there)
    return there["here"]


def test_files_of_one_name_are_told_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places.begin()
    assert called(tmp_path / "train.py") == "train.py:3"
    assert called(tmp_path / "gan" / "train.py") == "gan/train.py:3"
    assert called("/elsewhere/train.py") == "/elsewhere/train.py:3"
    assert called("train.py") == "train.py:3"  # as `python train.py` calls it


def test_a_file_keeps_its_name_where_the_script_goes_to_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    places.begin()
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path / "runs")
    assert called(tmp_path / "train.py") == "train.py:3"


def test_a_folder_that_was_deleted_is_no_error(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    places.begin()
    assert called("/elsewhere/train.py") == "/elsewhere/train.py:3"


def test_an_installed_package_is_named_without_the_folder_that_holds_all():
    assert places.named("/venv/lib/python3/site-packages/trainers/loop.py") == "trainers/loop.py"


def test_a_cell_of_a_notebook_has_its_number(monkeypatch):
    shell = SimpleNamespace(compile=SimpleNamespace(_filename_map={"/kernel_1/2.py": 7}))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert called("/kernel_1/2.py") == "In[7]:3"
