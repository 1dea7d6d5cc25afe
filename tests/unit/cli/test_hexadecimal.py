"""Binary columns as hexadecimal text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pkray.cli.hexadecimal import from_hex, to_hex
from pkray.errors import InputError


@given(st.lists(st.none() | st.binary(max_size=20)), st.integers(0, 3))
def test_there_and_back(values, skipped):
    column = pa.array(values, pa.binary())[skipped:]
    text = to_hex(column)
    assert text.to_pylist() == [None if v is None else v.hex() for v in values[skipped:]]
    assert from_hex(text, "c").equals(column)
    assert from_hex(text[1:], "c").equals(column[1:])


@pytest.mark.parametrize("text", ["0", "0g", "00 ", "é0"])
def test_text_that_is_not_hexadecimal(text):
    with pytest.raises(InputError, match=r"column 'c' .* which '"):
        from_hex(pa.array(["00", text, "zz"]), "c")
