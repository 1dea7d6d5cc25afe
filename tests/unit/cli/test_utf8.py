"""Bytes that are no UTF-8 are found wherever reads divide them."""

import io

import pytest

from pkray.cli.utf8 import Utf8
from pkray.errors import InputError

TEXT = "id,name\n1,€\n2,Ada\n".encode()


def read(data: bytes, size: int) -> bytes:
    source = Utf8(io.BytesIO(data), "its text")
    return b"".join(iter(lambda: source.read(size), b""))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_text_comes_as_it_is(size):
    assert read(TEXT, size) == TEXT
    assert Utf8(io.BytesIO(TEXT), "its text").read() == TEXT


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
@pytest.mark.parametrize(
    ("data", "place"),
    [
        (TEXT + b"3,\xffx\n", "offset 22 (line 4) is 0xff"),
        (TEXT + b"3,\xe2\x82\n", "offset 22 (line 4) is 0xe2"),
        (b"\xe2\x82", "offset 0 (line 1) is 0xe2"),
        (b"a\n\xed\xa0\x80", "offset 2 (line 2) is 0xed"),
    ],
)
def test_the_first_wrong_byte_is_named(data, place, size):
    with pytest.raises(InputError, match="its text is not UTF-8: the byte at") as error:
        read(data, size)
    assert place in str(error.value)
