"""Arguments of a table's methods that are none: each is named, and nothing happens."""

from __future__ import annotations

import pytest

import pkray
from pkray.errors import InputError, OptionError, TableNotFoundError


@pytest.fixture
def table(catalog):
    table = catalog.create_table("db.t", [("id", "BIGINT"), ("v", "INT")], ["id"])
    with table.open_writer() as writer:
        writer.upsert([{"id": 1, "v": 1}])
        writer.commit()
    return table


@pytest.mark.parametrize("columns", [iter(["id"]), 5, "id"])
def test_columns_that_are_no_list(table, columns):
    for use in (
        lambda: table.to_arrow(columns=columns),
        lambda: list(table.to_batches(columns=columns)),
        lambda: table.lookup([{"id": 1}], columns=columns),
        lambda: table.stream(columns=columns, until_snapshot=1),
    ):
        with pytest.raises(InputError, match=r"columns cannot be .*: give a list"):
            use()
    assert table.latest_snapshot().id == 1


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (["nope"], "'nope' is not in the table"),
        ([5], r"columns\[0\] cannot be 5: give a list"),
        (["v", "v"], "'v' .* twice"),
    ],
)
def test_columns_that_a_lookup_has_not(table, columns, message):
    for look_up in (table.lookup, table.lookup_prefix):
        with pytest.raises(InputError, match=message):
            look_up([{"id": 1}], columns=columns)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (
            lambda table: table.stream(poll_interval="1 s"),
            "poll_interval cannot be '1 s'",
        ),
        (lambda table: table.changes(1.5, 2), "start cannot be 1.5"),
        (lambda table: table.compact_dedicated(parallelism=0), "parallelism cannot be 0"),
        (lambda table: table.compact_dedicated(parallelism="2"), "parallelism cannot be '2'"),
        (
            lambda table: table.alter.set_options(["bucket"]),
            r"options\[0\] cannot be 'bucket'",
        ),
    ],
)
def test_options_of_other_types(table, use, message):
    with pytest.raises(OptionError, match=message):
        use(table)


def test_options_that_are_no_mapping(catalog):
    with pytest.raises(OptionError, match="options cannot be 'bucket=4'"):
        catalog.create_table("db.t", [("id", "BIGINT")], ["id"], options="bucket=4")
    assert catalog.list_tables() == []


def test_a_system_table_without_a_name(table: pkray.Table):
    with pytest.raises(TableNotFoundError, match="give a system table's name"):
        table.system(None)
