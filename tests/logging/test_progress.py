"""What a run says of its progress where there is no terminal."""

import logging

from ganexp.logging import ProgressLogger


def test_rows_say_how_long_the_run_will_take(caplog):
    caplog.set_level(logging.INFO)
    shown = ProgressLogger(20_000)
    for iteration in (50, 8_000, 20_000):
        row = {"progress/iteration": iteration, "loss/d": 1.0, "loss/g": 1.0, "speed/images_per_s": 128.0}
        shown.write(row | {"time/iteration_ms": 250.0})
    remaining = [record.getMessage().partition("images/s")[2].strip() for record in caplog.records]
    assert remaining == ["1:23:07 left", "50:00 left", ""]  # 19,950 and 12,000 times a quarter of a second
