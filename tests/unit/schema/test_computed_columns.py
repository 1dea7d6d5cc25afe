"""Computed columns in the options of tables: where they stand, and what changes do to them."""

from typing import Any

import pytest

from pkray.errors import OptionError, SchemaError
from pkray.schema import computed_columns
from pkray.schema.changes import (
    AddColumn,
    AddComputedColumn,
    ChangeType,
    CommentColumn,
    DropColumn,
    MoveColumn,
    RenameColumn,
)
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema

FLINKS = {
    "schema.1.name": "pt",
    "schema.1.data-type": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
    "schema.1.expr": "PROCTIME()",
    "schema.4.name": "twice",
    "schema.4.data-type": "INT",
    "schema.4.expr": "`price` * 2",
    "schema.4.comment": "dear",
}
OURS = {"pkray.schema.0.name": "low", "pkray.schema.0.expr": "lower(x)"}


def schema(**options: Any) -> TableSchema:
    columns = [("id", "INT"), ("x", "STRING"), ("price", "INT")]
    return TableSchema.create(columns, ["id"], options=options.pop("options", FLINKS))


def names(of: TableSchema) -> list[str]:
    return [each.name for each in computed_columns.all_columns(of.fields, of.options)]


def changed(of: TableSchema, *changes: Any) -> TableSchema:
    return apply_changes(of, changes, has_snapshots=True, now_millis=0)


def test_computed_columns_stand_where_their_keys_say():
    assert names(schema()) == ["id", "pt", "x", "price", "twice"]


def test_places_of_both_dialects_are_kept_through_writing():
    both = schema(options={**FLINKS, **OURS})
    assert names(both) == ["low", "id", "pt", "x", "price", "twice"]
    columns = computed_columns.all_columns(both.fields, both.options)
    assert computed_columns.with_columns(both.options, columns) == both.options


def test_options_that_tell_of_stored_columns_say_no_computed_ones():
    told = {"schema.0.name": "id", "schema.0.data-type": "INT NOT NULL", "schema.1.name": "x"}
    assert names(schema(options=told)) == ["id", "x", "price"]


def test_a_column_of_two_dialects_is_there_once():
    twice = {"pkray.schema.0.name": "pt", "pkray.schema.0.expr": "x"}
    assert names(schema(options={**FLINKS, **twice})) == ["id", "pt", "x", "price", "twice"]


@pytest.mark.parametrize("key", ["schema.1.nam", "schema.x.name", "other.schema.1.name"])
def test_keys_of_other_words_are_unknown(key):
    with pytest.raises(OptionError, match="no option"):
        schema(options={key: "a"})


def test_computed_columns_stay_behind_their_stored_ones():
    dropped = changed(schema(), DropColumn("x"))
    assert names(dropped) == ["id", "pt", "price", "twice"]
    assert dropped.options["schema.3.expr"] == "`price` * 2"
    assert "schema.4.expr" not in dropped.options
    moved = changed(schema(), MoveColumn("price", first=True))
    assert names(moved) == ["price", "twice", "id", "pt", "x"]
    added = changed(schema(options={**FLINKS, **OURS}), AddColumn("y", "INT", after="x"))
    assert names(added) == ["low", "id", "pt", "x", "y", "price", "twice"]
    assert (added.options["schema.5.name"], added.options["pkray.schema.0.name"]) == (
        "twice",
        "low",
    )


@pytest.mark.parametrize("change", [DropColumn("price"), RenameColumn("price", "cost")])
def test_a_column_that_a_computed_one_reads_is_not_dropped_nor_renamed(change):
    with pytest.raises(SchemaError, match="twice AS `price` \\* 2 reads it"):
        changed(schema(), change)


def test_a_field_that_a_computed_column_reads_is_not_dropped():
    read = {"schema.1.name": "a", "schema.1.expr": "`who`.`age` + 1"}
    columns = [("id", "INT"), ("who", "ROW<age INT, town STRING>")]
    of = TableSchema.create(columns, ["id"], options=read)
    with pytest.raises(SchemaError, match="reads it"):
        changed(of, DropColumn("who.age"))
    assert changed(of, DropColumn("who.town")).id == 1


@pytest.mark.parametrize("column", ["twice", "at"])
def test_a_column_that_the_watermark_reads_is_not_dropped(column):
    mark = {"schema.watermark.0.rowtime": "at", "schema.watermark.0.strategy.expr": "at - twice"}
    columns = [("id", "INT"), ("at", "TIMESTAMP(3)"), ("price", "INT")]
    of = TableSchema.create(columns, ["id"], options={**FLINKS, **mark})
    with pytest.raises(SchemaError, match="the watermark FOR at AS at - twice reads it"):
        changed(of, DropColumn(column))


def test_computed_columns_are_added_renamed_described_and_dropped():
    new = computed_columns.ComputedColumn("low", "lower(x)", "STRING", None, computed_columns.SPARK)
    of = changed(schema(), AddComputedColumn(new, after="pt"))
    assert names(of) == ["id", "pt", "low", "x", "price", "twice"]
    of = changed(of, RenameColumn("pt", "now"), CommentColumn("low", "small"), DropColumn("twice"))
    assert names(of) == ["id", "now", "low", "x", "price"]
    assert of.options["pkray.schema.2.comment"] == "small"
    assert changed(of, DropColumn("now"), DropColumn("low")).options == {"bucket": "1"}


@pytest.mark.parametrize(
    "change",
    [
        AddColumn("pt", "INT"),
        RenameColumn("x", "pt"),
        RenameColumn("twice", "x"),
        RenameColumn("twice", "pt"),
        AddComputedColumn(computed_columns.ComputedColumn("x", "1")),
        AddComputedColumn(computed_columns.ComputedColumn("pt", "1")),
        AddComputedColumn(computed_columns.ComputedColumn("_KEY_a", "1")),
        AddComputedColumn(computed_columns.ComputedColumn("a", "1"), after="nobody"),
    ],
    ids=repr,
)
def test_names_are_those_of_one_column(change):
    with pytest.raises(SchemaError):
        changed(schema(), change)


@pytest.mark.parametrize("change", [ChangeType("pt", "INT"), MoveColumn("pt", first=True)])
def test_a_computed_column_is_not_retyped(change):
    with pytest.raises(SchemaError, match="is computed: drop it"):
        changed(schema(), change)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("`a` + 1", True),
        ("A + 1", True),
        ("t.a.b", True),
        ("`a``b`", False),
        ("ab + a1", False),
        ("'a' || b", False),
        ("'it''s a'", False),
        ("a(b)", False),
        ("a (b)", False),
        (None, False),
    ],
)
def test_what_an_expression_reads_is_found_by_its_words(text, reads):
    assert computed_columns.names_column(text, "a") is reads
