"""Entries of BibTeX: that each reference in an option file leads to one, and none stands there for nothing."""

import re

import pytest

from ganexp.cli.options import options
from ganexp.cli.pages.citing import bibtex, cited_by, papers, reference
from tests.composing import CONF, composed

GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra")
OPTIONS = {(group, option.name): option.meaning for group in GROUPS for option in options(group, [CONF])}
NAME = r"(?:van den |Askari )?[A-Z][\w'-]+"
REFERENCE = re.compile(rf"{NAME}(?: et al\.| (?:&|and) {NAME})? (?:19|20)\d\d")
"""A surname or two, and a year, without a look at papers.bib."""


@pytest.fixture(scope="module")
def cited():
    return {choice: cited_by(*choice) for choice in OPTIONS}


def test_each_reference_of_an_option_leads_to_one_entry(cited):
    for (group, name), meaning in OPTIONS.items():
        named = [reference(papers()[key]) for key in cited[group, name]]
        if name == "stylegan2_ada":  # is of both papers of one reference
            assert cited[group, name] == ["karras2020-ada", "karras2020-stylegan2"]
        else:
            assert sorted(REFERENCE.findall(meaning)) == sorted(named), (group, name)


def test_each_entry_is_of_an_option(cited):
    assert set(papers()) == {key for keys in cited.values() for key in keys}


@pytest.mark.parametrize("key", papers())
def test_entries_are_complete(key):
    entry = papers()[key]
    fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", entry, re.MULTILINE))
    assert entry.count("{") == entry.count("}")
    assert {"author", "title", "year"} <= fields.keys()
    assert {"booktitle", "journal", "eprint", "howpublished", "institution"} & fields.keys()
    assert ("eprint" in fields) == (fields.get("archiveprefix") == "arXiv")
    if "eprint" in fields:  # papers are printed no earlier than the preprint's year, and few wait long
        preprinted = 2000 + int(re.fullmatch(r"(\d\d)\d\d\.\d{4,5}", fields["eprint"])[1])
        assert preprinted - 1 <= int(fields["year"]) <= preprinted + 3
    assert key.startswith(re.sub(r"[^a-z]", "", fields["author"].split(",")[0].lower())[:1])
    assert fields["year"] in key


def test_all_parts_of_runs_are_cited_once_and_nested_ones_too():
    configs = [
        composed("loss=wgan_gp", "strategy=extragradient", "wrapper=[lookahead]"),
        composed("dataset=separated", "generator=two_way", "discriminator=two_way", "loss=lsgan", "term=[cycle]"),
        composed("loss=wgan_gp", "optimizer=negative_momentum"),
    ]
    text = bibtex(configs)
    keys = re.findall(r"^@\w+\{(\S+),$", text, re.MULTILINE)
    assert len(keys) == len(set(keys))
    assert keys[0] == "ganexp"
    wanted = {"gulrajani2017", "gidel2019-extra", "chavdarova2021", "zhu2017", "mao2017", "isola2017", "gidel2019-momentum"}
    assert wanted <= set(keys)
    assert "goodfellow2014" not in keys  # of the default loss, which none of them has


def test_a_presets_paper_is_cited_by_the_command_of_its_run(tmp_path):
    (tmp_path / "provenance.json").write_text('{"command": "ganexp train experiment=sagan,nothing seed=1"}')
    assert "{zhang2019," in bibtex([{}], [tmp_path])


def test_nothing_is_cited_of_a_configuration_that_is_none():
    assert bibtex([{}, {"loss": 3, "penalty": "r1", "dataset": {"name": "../../mine"}, "evaluation": None}]) == bibtex([])
    assert bibtex([{"loss": {"name": "x" * 9999}}]) == bibtex([])
