"""From one schema to the next."""

import pyarrow as pa
import pytest

from pkray.errors import OptionError, SchemaError, UnsupportedError
from pkray.schema.changes import (
    AddColumn,
    ChangeNullability,
    ChangeType,
    CommentColumn,
    CommentTable,
    DropColumn,
    MoveColumn,
    RenameColumn,
    SetOptions,
    UnsetOptions,
)
from pkray.schema.schema_update import apply_changes
from pkray.schema.table_schema import TableSchema

COLUMNS = [
    ("dt", "STRING"),
    ("id", "INT"),
    ("v", "INT"),
    ("w", "VARCHAR(5) NOT NULL"),
    ("r", "ROW<x INT, y STRING>"),
    ("items", "ARRAY<ROW<p INT, q INT>>"),
]


def table(columns=COLUMNS, keys=("dt", "id"), partition=("dt",), **options) -> TableSchema:
    named = {key.replace("__", ".").replace("_", "-"): value for key, value in options.items()}
    return TableSchema.create(columns, list(keys), list(partition), named)


def change(schema, *changes, has_snapshots=True) -> TableSchema:
    return apply_changes(schema, changes, has_snapshots=has_snapshots, now_millis=7)


def types(schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in schema.fields}


def test_a_column_is_added_at_the_end_with_an_id_of_its_own():
    before = table()
    after = change(before, AddColumn("n", "BIGINT", "how many"))
    assert after.names == (*before.names, "n")
    assert after.field("n").id == before.highest_field_id + 1 == after.highest_field_id
    assert after.field("n").description == "how many"
    assert (after.id, after.time_millis) == (1, 7)
    assert TableSchema.from_json(after.to_json()) == after


def test_a_column_is_added_first_and_behind_another():
    after = change(table(), AddColumn("a", "INT", first=True), AddColumn("b", "INT", after="id"))
    assert after.names == ("a", "dt", "id", "b", "v", "w", "r", "items")


def test_an_added_rows_fields_get_ids_too():
    before = table()
    after = change(before, AddColumn("n", "ROW<a INT, b ARRAY<ROW<c INT>>>"))
    top = before.highest_field_id + 1
    a, b = after.field("n").type.fields
    assert (after.field("n").id, a.id, b.id, b.type.element.fields[0].id) == (
        top,
        top + 1,
        top + 2,
        top + 3,
    )
    assert after.highest_field_id == top + 3


def test_ids_are_never_used_again():
    before = table()
    after = change(before, AddColumn("n", "INT"), DropColumn("n"), AddColumn("n", "INT"))
    assert after.field("n").id == before.highest_field_id + 2


def test_a_dropped_column_is_gone():
    assert change(table(), DropColumn("v")).names == ("dt", "id", "w", "r", "items")


def test_a_renamed_column_keeps_its_id_and_place():
    before = table()
    after = change(before, RenameColumn("v", "value"))
    assert after.names == ("dt", "id", "value", "w", "r", "items")
    assert after.field("value").id == before.field("v").id


def test_two_columns_swap_their_names():
    before = table([("id", "INT"), ("a", "INT"), ("b", "STRING")], ["id"], [])
    after = change(before, RenameColumn("a", "t"), RenameColumn("b", "a"), RenameColumn("t", "b"))
    assert types(after) == {"id": "INT NOT NULL", "b": "INT", "a": "STRING"}


def test_a_renamed_key_column_stays_the_key():
    after = change(table(bucket_key="id"), RenameColumn("id", "key"))
    assert after.primary_keys == ("dt", "key")
    assert after.options["bucket-key"] == "key"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TINYINT", "SMALLINT"),
        ("SMALLINT", "INT"),
        ("INT", "BIGINT"),
        ("INT", "DOUBLE"),
        ("SMALLINT", "FLOAT"),
        ("INT", "DECIMAL(12, 2)"),
        ("BIGINT", "DECIMAL(19, 0)"),
        ("FLOAT", "DOUBLE"),
        ("DECIMAL(10, 2)", "DECIMAL(12, 4)"),
        ("CHAR(3)", "VARCHAR(3)"),
        ("VARCHAR(5)", "VARCHAR(9)"),
        ("VARCHAR(5)", "STRING"),
        ("BINARY(3)", "BYTES"),
        ("DATE", "TIMESTAMP(3)"),
        ("TIME(0)", "TIME(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP(6)"),
        ("TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(9)"),
        ("ARRAY<INT>", "ARRAY<BIGINT>"),
        ("MAP<STRING, INT>", "MAP<STRING, BIGINT>"),
    ],
)
def test_a_type_is_widened(old, new):
    before = table([("id", "INT"), ("v", old)], ["id"], [])
    assert types(change(before, ChangeType("v", new)))["v"] == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("BIGINT", "INT"),
        ("BIGINT", "DOUBLE"),
        ("INT", "FLOAT"),
        ("DOUBLE", "FLOAT"),
        ("DOUBLE", "INT"),
        ("INT", "DECIMAL(9, 0)"),
        ("DECIMAL(10, 2)", "DECIMAL(11, 4)"),
        ("DECIMAL(10, 2)", "DOUBLE"),
        ("STRING", "VARCHAR(9)"),
        ("VARCHAR(9)", "VARCHAR(5)"),
        ("CHAR(3)", "CHAR(5)"),
        ("STRING", "INT"),
        ("INT", "STRING"),
        ("BYTES", "STRING"),
        ("TIMESTAMP(6)", "TIMESTAMP(3)"),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)"),
        ("TIMESTAMP(3)", "DATE"),
        ("ARRAY<BIGINT>", "ARRAY<INT>"),
        ("ARRAY<INT>", "ARRAY<INT NOT NULL>"),
        ("ARRAY<INT>", "INT"),
        ("INT", "BOOLEAN"),
    ],
)
def test_a_type_that_could_lose_values_is_refused(old, new):
    before = table([("id", "INT"), ("v", old)], ["id"], [])
    with pytest.raises(SchemaError, match="'v"):
        change(before, ChangeType("v", new))


def test_widening_leaves_a_column_nullable_or_not():
    assert types(change(table(), ChangeType("w", "STRING")))["w"] == "STRING NOT NULL"


def test_a_row_as_a_whole_has_no_new_type():
    with pytest.raises(UnsupportedError, match="one by one"):
        change(table(), ChangeType("r", "ROW<x BIGINT, y STRING>"))


def test_not_null_is_loosened_and_never_tightened():
    assert types(change(table(), ChangeNullability("w")))["w"] == "VARCHAR(5)"
    for tightening in (ChangeNullability("v", False), ChangeType("v", "BIGINT NOT NULL")):
        with pytest.raises(SchemaError, match=r"'v'.*NOT NULL.*nulls"):
            change(table(), tightening)


def test_columns_move():
    assert change(table(), MoveColumn("v", first=True)).names[0] == "v"
    assert change(table(), MoveColumn("dt", after="v")).names[:3] == ("id", "v", "dt")


@pytest.mark.parametrize(
    "move", [MoveColumn("v"), MoveColumn("v", after="v"), MoveColumn("v", True, "w")]
)
def test_a_move_to_nowhere_is_refused(move):
    with pytest.raises(SchemaError, match="'v'"):
        change(table(), move)


@pytest.mark.parametrize(
    "wrong",
    [
        CommentTable(5),
        CommentColumn("v", 5),
        AddColumn("z", "INT", 5),
        AddColumn(5, "INT"),
        AddColumn(("r", 5), "INT"),
        RenameColumn("v", 5),
        RenameColumn("r.x", 5),
        DropColumn(None),
    ],
)
def test_names_and_comments_are_text(wrong):
    with pytest.raises(SchemaError, match=r"names are text|give text"):
        change(table(), wrong)


def test_a_type_may_be_arrows():
    after = change(table(), AddColumn("z", pa.decimal128(5, 2)))
    assert types(after)["z"] == "DECIMAL(5, 2)"


def test_comments_come_and_go():
    after = change(table(), CommentColumn("v", "a value"), CommentTable("a table"))
    assert (after.field("v").description, after.comment) == ("a value", "a table")
    after = change(after, CommentColumn("v", None), CommentTable(None))
    assert (after.field("v").description, after.comment) == (None, None)


def test_fields_of_rows_change():
    before = table()
    after = change(
        before,
        AddColumn("r.z", "INT", first=True),
        RenameColumn(("r", "x"), "xx"),
        ChangeType("r.xx", "BIGINT"),
        DropColumn("r.y"),
        AddColumn("items.element.s", "INT", after="p"),
        RenameColumn("items.q", "qq"),
    )
    assert types(after)["r"] == "ROW<`z` INT, `xx` BIGINT>"
    assert types(after)["items"] == "ARRAY<ROW<`p` INT, `s` INT, `qq` INT>>"
    old, new = (schema.field("r").type.fields for schema in (before, after))
    assert new[1].id == old[0].id


def test_a_column_with_a_dot_in_its_name_is_meant_by_its_name():
    before = table([("id", "INT"), ("a.b", "INT")], ["id"], [])
    assert change(before, RenameColumn("a.b", "c")).names == ("id", "c")


def test_options_follow_a_renamed_column():
    before = table(
        [("id", "INT"), ("a", "INT"), ("b", "INT"), ("c", "INT"), ("g", "INT"), ("k", "STRING")],
        ["id"],
        [],
        **{
            "merge-engine": "partial-update",
            "fields.g.sequence-group": "a,b",
            "fields.a.aggregate-function": "sum",
            "fields.a.ignore-retract": "true",
            "changelog-producer.row-deduplicate-ignore-fields": "c, a",
        },
    )
    after = change(before, RenameColumn("a", "z"), RenameColumn("g", "h"))
    assert after.options == {
        "bucket": "1",
        "merge-engine": "partial-update",
        "fields.h.sequence-group": "z,b",
        "fields.z.aggregate-function": "sum",
        "fields.z.ignore-retract": "true",
        "changelog-producer.row-deduplicate-ignore-fields": "c,z",
    }


def test_options_follow_a_renamed_field_of_rows():
    before = table(
        COLUMNS,
        **{
            "merge-engine": "aggregation",
            "fields.items.aggregate-function": "nested_update",
            "fields.items.nested-key": "p,q",
        },
    )
    after = change(before, RenameColumn("items.p", "pp"))
    assert after.options["fields.items.nested-key"] == "pp,q"
    with pytest.raises(SchemaError, match=r"'items.q'.*nested-key"):
        change(before, DropColumn("items.q"))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"sequence.field": "v"}, "sequence.field = v"),
        ({"rowkind.field": "w"}, "rowkind.field = w"),
        (
            {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum"},
            "fields.v.aggregate-function = sum",
        ),
        (
            {"record-level.time-field": "v", "record-level.expire-time": "1 h"},
            "record-level.time-field = v",
        ),
    ],
)
def test_a_column_that_options_name_is_not_dropped(options, named):
    column = "w" if "rowkind.field" in options else "v"
    with pytest.raises(SchemaError, match=f"'{column}'.*{named}"):
        change(table(**options), DropColumn(column))


def test_key_columns_are_neither_dropped_nor_retyped():
    for column, kind in (("dt", "partition"), ("id", "primary key")):
        with pytest.raises(SchemaError, match=f"'{column}'.*{kind}.*dropped"):
            change(table(), DropColumn(column))
        with pytest.raises(SchemaError, match=f"'{column}'.*{kind}.*BIGINT"):
            change(table(), ChangeType(column, "BIGINT"))
        with pytest.raises(SchemaError, match=f"'{column}'.*primary key"):
            change(table(), ChangeNullability(column))


def test_a_partition_column_keeps_its_name():
    with pytest.raises(SchemaError, match=r"'dt'.*partition.*renamed"):
        change(table(), RenameColumn("dt", "day"))


def test_a_not_null_column_is_not_added():
    with pytest.raises(SchemaError, match=r"'n'.*INT NOT NULL.*leave NOT NULL out"):
        change(table(), AddColumn("n", "INT NOT NULL"))


@pytest.mark.parametrize(
    "duplicate", [AddColumn("v", "INT"), RenameColumn("w", "v"), AddColumn("r.x", "INT")]
)
def test_a_name_that_is_taken_is_refused(duplicate):
    with pytest.raises(SchemaError, match="is there already"):
        change(table(), duplicate)


def test_names_of_the_format_are_refused():
    with pytest.raises(SchemaError, match=r"_VALUE_KIND.*reserved"):
        change(table(), RenameColumn("v", "_VALUE_KIND"))


@pytest.mark.parametrize(
    "missing",
    [
        DropColumn("vv"),
        RenameColumn("vv", "x"),
        ChangeType("vv", "INT"),
        AddColumn("n", "INT", after="vv"),
        MoveColumn("id", after="vv"),
        CommentColumn("vv", ""),
    ],
)
def test_a_column_that_is_not_there_is_named_with_the_nearest(missing):
    with pytest.raises(SchemaError, match="'vv' is not in the table; did you mean 'v'"):
        change(table(), missing)


def test_a_path_into_a_scalar_is_refused():
    with pytest.raises(SchemaError, match="'v' is INT, which has no field 'x'"):
        change(table(), AddColumn(("v", "x"), "INT"))


def test_the_last_field_of_a_row_stays():
    with pytest.raises(SchemaError, match="only one"):
        change(table(), DropColumn("r.x"), DropColumn("r.y"))


def test_options_are_set_and_unset():
    after = change(table(), SetOptions({"write-only": "true", "target-file-size": "64 mb"}))
    assert after.core.write_only
    assert after.core.target_file_size == 64 << 20
    assert not change(after, UnsetOptions(["write-only"])).core.write_only


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket-key", "id"),
        ("merge-engine", "partial-update"),
        ("sequence.field", "v"),
        ("rowkind.field", "w"),
        ("bucket", "4"),
        ("deletion-vectors.enabled", "true"),
        ("partition.default-name", "none"),
    ],
)
def test_options_by_which_rows_were_written_are_fixed(key, value):
    with pytest.raises(OptionError, match=key):
        change(table(), SetOptions({key: value}))
    assert change(table(), SetOptions({key: value}), has_snapshots=False).options[key] == value


def test_ignored_deletes_stay_ignored():
    assert change(table(), SetOptions({"ignore-delete": "true"})).core.ignore_delete
    ignoring = table(**{"ignore-delete": "true"})
    with pytest.raises(OptionError, match="ignore-delete"):
        change(ignoring, SetOptions({"ignore-delete": "false"}))
    with pytest.raises(OptionError, match="ignore-delete"):
        change(ignoring, UnsetOptions(["ignore-delete"]))


def test_levels_by_which_full_compactions_find_changes_stay_as_many():
    trigger = "num-sorted-run.compaction-trigger"
    before = table(**{"changelog-producer": "full-compaction", trigger: "4"})
    for more in ({trigger: "9"}, {"num-levels": "3"}):
        with pytest.raises(OptionError, match=f"'num-levels' = '5' next to '{trigger}'"):
            change(before, SetOptions(more))
        assert change(before, SetOptions(more), has_snapshots=False).core.num_levels != 5
    after = change(before, SetOptions({trigger: "9", "num-levels": "5"}))
    assert (after.core.compaction_trigger, after.core.num_levels) == (9, 5)
    with pytest.raises(OptionError, match="10 levels in place of 5"):
        change(after, UnsetOptions(["num-levels"]))
    assert change(table(), SetOptions({trigger: "9"})).core.num_levels == 10


def test_setting_a_fixed_option_to_what_it_is_changes_nothing():
    before = table(**{"merge-engine": "aggregation"})
    after = change(before, SetOptions({"merge-engine": "aggregation", "bucket": "1"}))
    assert after.options == before.options


def test_unknown_options_and_bad_values_are_refused():
    with pytest.raises(OptionError, match="did you mean 'write-only'"):
        change(table(), SetOptions({"write-onyl": "true"}))
    with pytest.raises(OptionError, match="cannot be 'maybe'"):
        change(table(), SetOptions({"write-only": "maybe"}))
    with pytest.raises(OptionError, match="'write-only' is not set"):
        change(table(), UnsetOptions(["write-only"]))


def test_options_must_fit_the_columns_after_all_changes():
    before = table(**{"merge-engine": "aggregation"})
    with pytest.raises(SchemaError, match="'nn' is not in the table"):
        change(before, SetOptions({"fields.nn.aggregate-function": "sum"}))
    both = change(before, SetOptions({"fields.n.aggregate-function": "sum"}), AddColumn("n", "INT"))
    assert both.core.of_field("n").aggregate_function == "sum"


def test_no_changes_are_refused():
    with pytest.raises(SchemaError, match="no changes"):
        change(table())


def test_something_else_than_a_change_is_refused():
    with pytest.raises(SchemaError, match="AddColumn"):
        change(table(), ("v", "INT"))
