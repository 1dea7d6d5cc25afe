"""Values of which the newest counts, each under a number that is taken once."""

import pytest

from pkray.relational.continuous.queries.definitions.numbered_files import NumberedFiles

PREFIX = "definitions/definition-"


@pytest.fixture
def files(store) -> NumberedFiles:
    return NumberedFiles(store, PREFIX)


def test_where_nothing_was_stored_there_is_no_number(files):
    assert files.newest() == (-1, None)


def test_the_highest_number_counts_and_not_the_last_in_the_alphabet(files):
    for number in range(11):
        assert files.add(number, f"value {number}".encode())
    assert files.newest() == (10, b"value 10")
    assert not files.is_newest(9)
    assert files.is_newest(10)


def test_a_number_is_taken_once(files):
    assert files.add(0, b"the first value")
    assert not files.add(0, b"another value")
    assert files.newest() == (0, b"the first value")


def test_a_number_stays_taken_when_its_value_is_gone(files):
    for number in range(3):
        files.add(number, b"a value of some length")
    files.empty(1)
    assert files.newest() == (2, b"a value of some length")
    files.empty(2)
    assert files.newest() == (2, None)
    assert [files.add(number, b"of who slept") for number in range(4)] == [False] * 3 + [True]


def test_a_value_that_is_emptied_between_the_listing_and_the_reading_is_looked_for_again(
    files, store, monkeypatch
):
    files.add(0, b"a value of some length")
    read = type(store).read

    def late(self, path):
        if files.add(1, b"the one that came after it"):
            files.empty(0)
        return read(self, path)

    monkeypatch.setattr(type(store), "read", late)
    assert files.newest() == (1, b"the one that came after it")


def test_files_that_are_none_of_its_are_left_alone(files, store):
    store.write(f"{PREFIX}x", b"nothing of its own")
    store.write(f"{PREFIX}1.tmp", b"nothing of its own")
    assert files.newest() == (-1, None)
