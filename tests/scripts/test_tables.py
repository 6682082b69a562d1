"""Generated tables say what parts declare, and a stale one is named. `.ci/run` checks those of the pages."""

import pytest

import tables
from tests.composing import options

PAGE = "Before.\n<!-- table: loss -->\n| old |\n<!-- end -->\nBetween.\n<!-- table: measured -->\n<!-- end -->\nAfter.\n"


def test_tables_are_written_between_their_marks_and_stay(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    with pytest.raises(SystemExit, match="True"):
        tables.main(["--check", str(page)])
    stale = [line.partition(" is stale")[0] for line in capsys.readouterr().out.splitlines()]
    assert stale == ["page.md: the table loss", "page.md: the table measured"]
    assert page.read_text() == PAGE
    for arguments in ([], ["--check"]):
        with pytest.raises(SystemExit, match="False"):
            tables.main([*arguments, str(page)])
    lines = page.read_text().splitlines()
    assert [line for line in lines if not line.startswith("| ")] == [
        line for line in PAGE.splitlines() if not line.startswith("| ")
    ]
    losses = lines[lines.index("<!-- table: loss -->") + 3 : lines.index("<!-- end -->")]
    assert [line.split("`")[1] for line in losses] == options("loss")
    assert "| `loss=began` | `began/k_t` | BEGAN's control variable |" in lines


def test_a_table_that_nobody_knows_is_refused():
    with pytest.raises(SystemExit, match="weather"):
        tables.table("weather")


def test_underscores_stay_where_the_page_is_rendered():
    from markdown_it import MarkdownIt

    assert "dataset.dataset._target_=mine.Faces" in MarkdownIt().enable("table").render(tables.table("dataset"))
