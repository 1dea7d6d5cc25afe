"""Tests of the one line of text a node."""

import pytest

from pkray.relational.plan.describe import span_text


@pytest.mark.parametrize(
    ("micros", "text"),
    [
        (0, "0 s"),
        (600_000_000, "10 min"),
        (90_000_000, "90 s"),
        (-300_000_000, "-5 min"),
        (172_800_000_000, "2 d"),
        (1_500, "1500 µs"),
    ],
)
def test_a_span_of_time_is_told_in_the_largest_unit_that_divides_it(micros, text):
    assert span_text(micros) == text
