"""Errors as plain data: what is written comes back, what is none does not."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pytest

from pkray import errors, plain_error
from pkray.errors import InputError, OptionError, PkrayError

KINDS = [
    each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, PkrayError)
]


def there_and_back(error: PkrayError) -> PkrayError:
    found = plain_error.decode(plain_error.encode(error))
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_error_comes_back(kind):
    found = there_and_back(kind("said", key="k", rows=[1, 2.5, None, True]))
    assert type(found) is kind
    assert (found.message, found.key, found.rows) == ("said", "k", [1, 2.5, None, True])


def test_an_error_of_elsewhere_comes_back_as_the_nearest_of_pkrays():
    class Special(InputError):
        pass

    assert type(there_and_back(Special("said"))) is InputError


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        ((1, "a"), [1, "a"]),
        ({1: {"b": (2,)}}, {"1": {"b": [2]}}),
        (np.int32(7), 7),
        (Decimal("1.50"), "1.50"),
        (dt.date(2024, 2, 29), "2024-02-29"),
        (2**70, 2**70),
        pytest.param(10**5000, "(a value of int, not written)", id="digits"),
        ("\udc00", "\\udc00"),
    ],
)
def test_values_become_plain(value, plain):
    assert there_and_back(InputError("said", value=value)).value == plain


def test_an_objects_fields_are_not_written_out():
    class Location:
        def __init__(self):
            self.secret_access_key = "TOPSECRET"

        def __repr__(self):
            return "Location(***)"

    data = plain_error.encode(OptionError("said", location=Location()))
    assert b"TOPSECRET" not in data
    assert b"Location(***)" in data


def test_large_values_stay_behind_and_a_long_message_is_cut():
    found = there_and_back(InputError("m" * 100_000, text="x" * 20_000, row=3))
    assert found.values == {"row": 3}
    assert found.message == "m" * 65_536


def test_a_value_nested_without_end_is_named():
    endless: list[object] = []
    endless.append(endless)
    assert "not written" in there_and_back(InputError("said", value=endless)).value


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "SystemExit"},
        {"kind": "Exception"},
        {"kind": "Any"},
        {"kind": "annotations"},
        {"kind": 5},
        {"message": None},
        {"values": []},
        {"more": 1},
    ],
)
def test_what_is_no_error_of_pkrays_is_none(change):
    written = json.loads(plain_error.encode(InputError("said")))
    assert plain_error.decode(json.dumps(written | change).encode()) is None


def test_values_do_not_take_the_place_of_what_an_error_is():
    data = json.dumps({"kind": "InputError", "message": "said", "values": {"__class__": "x"}})
    found = plain_error.decode(data.encode())
    assert (type(found), str(found)) == (InputError, "said")
