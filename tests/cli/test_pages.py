"""Tests of what the HTML pages share."""

import base64
import io

import numpy as np
import pytest
from PIL import Image

from ganexp.cli.pages import html


@pytest.mark.parametrize(("size", "times"), [((7, 3), 58), ((274, 138), 2), ((400, 20), 1), ((20, 530), 1)])
def test_small_pictures_are_magnified_by_a_whole_number_and_no_others(size, times):
    pixels = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)

    url = html.inlined(Image.fromarray(pixels), 700)

    with Image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))) as shown:
        np.testing.assert_array_equal(np.asarray(shown), pixels.repeat(times, 0).repeat(times, 1))
