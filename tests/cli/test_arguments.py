"""Numbers on the command line that no command could use."""

import pytest

from ganexp.cli.arguments import parser


def read(line):
    return parser().parse_args(line.split())


@pytest.mark.parametrize(
    "line",
    [
        "sample RUN --n 99999999999999999999",
        "sample RUN --seed 1e9",
        "sample RUN --indices 1 99999999999999999999",
        "dynamics RUN --rate 0",
        "dynamics RUN --rate nan",
        "dynamics RUN --rate -1",
        "average RUN --width 0.1 --iteration 0",
        *(
            f"sample RUN --{one} 0"
            for one in ("n", "steps", "shard-size", "frames", "tiles", "enlarge", "nearest", "batch-size")
        ),
    ],
)
def test_they_are_refused_with_the_option_and_what_it_should_be(line, capsys):
    with pytest.raises(SystemExit):
        read(line)
    *_, option, _ = line.split()
    assert f"argument {'--indices' if 'indices' in line else option}: should be" in capsys.readouterr().err


def test_others_are_read():
    options = read("sample RUN --n 12 --seed -3 --first 0 --indices 5 999999999999999999")
    assert (options.n, options.seed, options.first, options.indices) == (12, -3, 0, [5, 10**18 - 1])
    assert read("dynamics RUN --rate 1e-3").rate == 1e-3
