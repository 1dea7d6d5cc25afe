import pytest

import pkray
from tests.integration.cli.conftest import lines


@pytest.fixture
def warehouse(tmp_path):
    with pkray.connect(str(tmp_path)) as catalog:
        table = catalog.create_table(
            "db.t", [("k", "BIGINT"), ("v", "STRING")], ["k"], options={"bucket": "1"}
        )
        for number in range(1, 4):
            table.upsert([{"k": 0, "v": f"at {number}"}])
        table.tags.create("two", 2)
    return str(tmp_path)


def printed(run, warehouse, *arguments):
    out = run("changelog", "db.t", "-w", warehouse, "--json", *arguments)
    return [tuple(line.values()) for line in lines(out)]


@pytest.mark.parametrize(
    ("arguments", "numbers"),
    [
        ([], [1, 2, 3]),
        (["--from", "2"], [2, 3]),
        (["--to", "2"], [1, 2]),
        (["--from-tag", "two"], [2, 3]),
        (["--to-tag", "two"], [1, 2]),
        (["--from-timestamp", "99999999999999"], []),
        (["--to-timestamp", "99999999999999"], [1, 2, 3]),
        (["--from", "2", "--to", "2"], [2]),
        (["--follow", "--from", "2", "--to", "3"], [2, 3]),
        (["--mode", "latest-full"], [3]),
        (["--mode", "from-snapshot-full", "--from", "2"], [2, 3]),
    ],
)
def test_a_range_of_changes(run, warehouse, arguments, numbers):
    expected = [("+I", number, 0, f"at {number}") for number in numbers]
    assert printed(run, warehouse, *arguments) == expected


def test_normalised(run, warehouse):
    assert printed(run, warehouse, "--from", "3", "--normalize") == [
        ("-U", 3, 0, "at 2"),
        ("+U", 3, 0, "at 3"),
    ]


def test_a_consumer_goes_on_where_it_was(run, warehouse):
    assert len(printed(run, warehouse, "--consumer", "c", "--to", "2")) == 2
    assert printed(run, warehouse, "--consumer", "c") == [("+I", 3, 0, "at 3")]
    assert printed(run, warehouse, "--consumer", "c") == []


def test_what_has_expired_is_an_error(run, warehouse):
    with pkray.connect(warehouse) as catalog:
        catalog.load_table("db.t").expire_snapshots(retain_max=1, retain_min=1)
    said = run("changelog", "db.t", "-w", warehouse, "--from", "1", code=1)
    assert "those of 3 alone are there" in said
