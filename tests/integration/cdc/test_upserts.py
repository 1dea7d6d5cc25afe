"""Files of changes into tables: by ``pkray.cdc.upsert`` and ``pkray upsert``."""

import gzip
import io
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pkray
import pkray.cdc
from pkray.cdc.decoder import ChangeFormat, Decoder
from pkray.cdc.row_changes import Target
from pkray.cdc.sources import LineFile
from pkray.cli import main
from pkray.errors import ChangeRecordError, InputError, TableNotFoundError
from tests.integration.bounded_memory import peak_of

MB = 1 << 20


def event(op: str, before: Any, after: Any, lsn: int = 0) -> str:
    return json.dumps({"before": before, "after": after, "op": op, "source": {"lsn": lsn}})


def written(path: Path, *events: str) -> Path:
    path.write_text("".join(f"{each}\n" for each in events))
    return path


@pytest.fixture
def people(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("db.people", [("id", "BIGINT"), ("name", "STRING")], ["id"])


def test_files_are_read_one_after_the_other(people, tmp_path):
    one = written(tmp_path / "1.json", event("c", None, {"id": 1, "name": "Ada"}))
    two = tmp_path / "2.json.gz"
    two.write_bytes(gzip.compress(event("u", None, {"id": 1, "name": "Grace"}).encode()))
    done = pkray.cdc.upsert(people, [one, two], format="debezium-json")
    assert done.rows == 2
    assert people.to_arrow().to_pylist() == [{"id": 1, "name": "Grace"}]


def test_a_bad_record_stops_the_load_and_nothing_is_written(people, tmp_path):
    good = event("c", None, {"id": 1, "name": "Ada"})
    file = written(tmp_path / "bad.json", *[good] * 10, "{", *[good] * 10)
    with pytest.raises(ChangeRecordError) as refused:
        pkray.cdc.upsert(people, file, format="debezium-json")
    assert (refused.value.record, refused.value.offset) == (11, 10 * (len(good) + 1))
    assert refused.value.source == f"file '{file}'"
    assert people.latest_snapshot() is None


def test_a_commit_is_made_once(people, tmp_path):
    file = written(tmp_path / "e.json", event("c", None, {"id": 1, "name": "Ada"}))
    name = {"commit_user": "load", "commit_identifier": 5}
    first = pkray.cdc.upsert(people, file, format="debezium-json", **name)
    people.delete([{"id": 1}])
    again = pkray.cdc.upsert(people, file, format="debezium-json", **name)
    assert again.snapshot == first.snapshot
    assert people.to_arrow().num_rows == 0


def test_the_log_s_position_orders_events_that_come_late(catalog, tmp_path):
    table = catalog.create_table(
        "db.t",
        [("id", "BIGINT"), ("name", "STRING"), ("lsn", "BIGINT")],
        ["id"],
        options={"sequence.field": "lsn"},
    )
    newer = event("u", None, {"id": 1, "name": "new"}, 20)
    older = event("c", None, {"id": 1, "name": "old"}, 10)
    gone = event("d", {"id": 1, "name": None}, None, 15)
    file = written(tmp_path / "e.json", newer, older, gone)
    pkray.cdc.upsert(table, file, format="debezium-json", metadata={"lsn": "source.lsn"})
    assert table.to_arrow().to_pylist() == [{"id": 1, "name": "new", "lsn": 20}]


def test_columns_that_are_added_in_the_stream_are_added_to_the_table(people, tmp_path):
    file = written(
        tmp_path / "e.json",
        event("c", None, {"id": 1, "name": "Ada"}),
        event("c", None, {"id": 2, "name": "Alan", "born": 1912}),
    )
    with pytest.raises(ChangeRecordError, match=r"line 2 .*'born' is not in the table"):
        pkray.cdc.upsert(people, file, format="debezium-json")
    pkray.cdc.upsert(people, file, format="debezium-json", new_columns="add")
    assert people.to_arrow().sort_by("id").to_pylist() == [
        {"id": 1, "name": "Ada", "born": None},
        {"id": 2, "name": "Alan", "born": 1912},
    ]


def test_a_life(catalog, people, tmp_path):
    """Loaded, gone on with, loaded beside another load, then dropped and made anew."""
    load = partial(pkray.cdc.upsert, format="debezium-json", commit_user="load")
    made = written(tmp_path / "1.json", event("c", None, {"id": 1, "name": "Ada"}))
    more = written(tmp_path / "2.json", event("c", None, {"id": 2, "name": "Alan"}))
    load(people, made, commit_identifier=1)
    with people.open_writer("other") as beside:
        beside.upsert([{"id": 3, "name": "Grace"}])
        load(people, [made, more], commit_identifier=2)
        beside.commit()
    assert people.to_arrow().num_rows == 3
    catalog.drop_table("db.people")
    with pytest.raises(pkray.TableError):
        load(people, more, commit_identifier=3)
    again = catalog.create_table("db.people", [("id", "BIGINT"), ("name", "STRING")], ["id"])
    load(again, more, commit_identifier=1)
    assert again.to_arrow().to_pylist() == [{"id": 2, "name": "Alan"}]


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"id": 2, "called": "Alan"}, "'called' is not in the table"),  # renamed
        ({"id": 2}, "name"),  # dropped
        ({"id": 1 << 70, "name": "Alan"}, "id"),  # widened
    ],
)
def test_a_column_that_changed_in_the_source_is_named_and_nothing_is_written(
    people, tmp_path, row, said
):
    file = written(
        tmp_path / "e.json", event("c", None, {"id": 1, "name": "Ada"}), event("c", None, row)
    )
    with pytest.raises(ChangeRecordError, match=rf"line 2 .*{said}"):
        pkray.cdc.upsert(people, file, format="debezium-json")
    assert people.latest_snapshot() is None


def test_a_partial_update_table_keeps_what_events_do_not_bring(catalog, tmp_path):
    options = {"merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"}
    table = catalog.create_table(
        "db.t", [("id", "BIGINT"), ("text", "STRING"), ("n", "INT")], ["id"], options=options
    )
    marker = "__debezium_unavailable_value"
    file = written(
        tmp_path / "e.json",
        event("c", None, {"id": 1, "text": "long", "n": 1}),
        event("u", {"id": 1, "text": None, "n": 1}, {"id": 1, "text": marker, "n": 2}),
        event("c", None, {"id": 2, "text": "gone", "n": 1}),
        event("d", {"id": 2, "text": None, "n": None}, None),
    )
    pkray.cdc.upsert(table, file, format="debezium-json")
    assert table.to_arrow().to_pylist() == [{"id": 1, "text": "long", "n": 2}]


MARKER = "__debezium_unavailable_value"


def test_a_value_that_did_not_change_is_kept(people, tmp_path):
    long = event("c", None, {"id": 1, "name": "a long text"})
    pkray.cdc.upsert(people, written(tmp_path / "1.json", long), format="debezium-json")
    people.alter.add_column("n", "INT")
    kept = [event("u", None, {"id": 1, "name": MARKER, "n": n}) for n in range(3)]
    pkray.cdc.upsert(people, written(tmp_path / "2.json", *kept), format="debezium-json")
    assert people.to_arrow().to_pylist() == [{"id": 1, "name": "a long text", "n": 2}]


def test_a_value_that_did_not_change_is_that_of_a_row_not_yet_committed(people, tmp_path):
    one = written(tmp_path / "1.json", event("c", None, {"id": 1, "name": "a long text"}))
    two = written(tmp_path / "2.json", event("u", None, {"id": 1, "name": MARKER}))
    pkray.cdc.upsert(people, [one, two], format="debezium-json")
    assert people.to_arrow().to_pylist() == [{"id": 1, "name": "a long text"}]


@pytest.mark.parametrize("deleted", [False, True])
def test_a_value_that_no_row_has_ends_the_load(people, tmp_path, deleted):
    before = event("c", None, {"id": 1, "name": "x"}), event("d", {"id": 1, "name": "x"}, None)
    events = [*(before if deleted else ()), event("u", None, {"id": 1, "name": MARKER})]
    file = written(tmp_path / "e.json", *events)
    with pytest.raises(InputError, match=r"lines 1 to \d: column 'name' of the row \{'id': 1\}"):
        pkray.cdc.upsert(people, file, format="debezium-json")
    assert people.latest_snapshot() is None


def test_an_aggregation_table_refuses_values_that_events_do_not_bring(catalog, tmp_path):
    options = {"merge-engine": "aggregation", "fields.name.aggregate-function": "listagg"}
    columns = [("id", "BIGINT"), ("name", "STRING")]
    table = catalog.create_table("db.t", columns, ["id"], options=options)
    file = written(tmp_path / "e.json", event("u", None, {"id": 1, "name": MARKER}))
    with pytest.raises(ChangeRecordError, match="does not bring column 'name'"):
        pkray.cdc.upsert(table, file, format="debezium-json")


def test_bad_records_go_to_a_table_of_their_own(catalog, people, tmp_path):
    good = [event("c", None, {"id": n, "name": "x"}) for n in range(3)]
    wrong = event("c", None, {"id": "one", "name": "x"})
    file = written(tmp_path / "e.json", good[0], "{", good[1], wrong, good[2])
    errors = pkray.cdc.open_errors(catalog, "db.people_errors")
    for _ in range(2):
        done = pkray.cdc.upsert(people, file, format="debezium-json", errors=errors)
        assert (done.rows, done.bad) == (3, 2)
    assert sorted(people.to_arrow()["id"].to_pylist()) == [0, 1, 2]
    first, second = errors.to_arrow().sort_by("record").to_pylist()
    source = f"file '{file}'"
    assert (first["source"], first["record"], first["text"]) == (source, 2, b"{\n")
    assert (second["record"], second["offset"]) == (4, sum(map(len, good[:2])) + 4)
    assert second["reason"] == "Column(/after/id) changed from number to string"
    assert json.loads(second["text"]) == json.loads(wrong)


def test_another_table_takes_no_bad_records(catalog, people):
    with pytest.raises(InputError, match=r"db\.people is no table of bad records"):
        pkray.cdc.open_errors(catalog, "db.people")


def test_the_command_line_takes_bad_records(capsys, people, tmp_path):
    file = written(tmp_path / "e.json", "{", event("c", None, {"id": 1, "name": "Ada"}))
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    words = ("--format", "debezium-json", "--errors", "db.bad", "--json", "-w", warehouse)
    said = json.loads(run(capsys, "upsert", "db.people", file, *words))
    assert (said["rows"], said["bad"]) == (1, 1)


def test_the_errors_of_a_table_are_a_table_of_its_name(capsys, catalog, people, tmp_path):
    with pytest.raises(TableNotFoundError):
        catalog.load_table("db.people$errors")
    file = written(tmp_path / "e.json", "{", event("c", None, {"id": 1, "name": "Ada"}))
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    words = ("--format", "debezium-json", "--errors", "$errors", "-w", warehouse)
    run(capsys, "upsert", "db.people", file, *words)
    kept = catalog.load_table("db.people$errors")
    assert kept.to_arrow(columns=["record"]).to_pylist() == [{"record": 1}]
    counted = catalog.sql("SELECT count(*) AS n FROM `db`.`people$errors` WHERE reason <> ''")
    assert counted.to_arrow().to_pylist() == [{"n": 1}]
    assert pkray.cdc.open_errors(catalog, "db.people$errors").name == "db.people_errors"


def test_the_command_line_takes_words_of_kinds(capsys, people, tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("op,id,name\nI,1,Ada\nI,2,Alan\nD,1,Ada\nU,2,Turing\n")
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    run(capsys, "upsert", "db.people", file, "--row-kinds", "op", "-w", warehouse)
    assert people.to_arrow().to_pylist() == [{"id": 2, "name": "Turing"}]


def run(capsys: pytest.CaptureFixture[str], *words: object, code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    said = capsys.readouterr()
    assert ended.value.code == code, said.err
    return said.err if code else said.out


def test_the_command_line_takes_changes(capsys, people, tmp_path):
    file = written(tmp_path / "e.json", event("c", None, {"id": 1, "name": "Ada"}, 7))
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    people.alter.add_column("lsn", "BIGINT")
    words = ("--format", "debezium-json", "--metadata", "lsn=source.lsn", "--json")
    said = json.loads(run(capsys, "upsert", "db.people", file, *words, "-w", warehouse))
    assert said["rows"] == 1
    assert people.to_arrow().to_pylist() == [{"id": 1, "name": "Ada", "lsn": 7}]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "debezium-json", "--row-kinds", "op"), "changes say their kinds"),
        (("--format", "debezium-json", "--metadata", "lsn"), "COLUMN=MEMBER"),
        (("--format", "debezium-json", "--metadata", "n=source.lsn"), "column 'n'"),
        (("--format", "debezium-json", "--time-precision-mode", "x"), "time_precision_mode"),
        (("--format", "jsonl", "--metadata", "name=op"), "are for changes"),
    ],
)
def test_words_that_do_not_fit_are_refused(capsys, people, tmp_path, words, said):
    file = written(tmp_path / "e.json", event("c", None, {"id": 1, "name": "Ada"}))
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    with pytest.raises(SystemExit) as ended:
        main(["upsert", "db.people", str(file), *words, "-w", warehouse])
    assert ended.value.code
    assert said in " ".join(capsys.readouterr().err.split())


def test_new_columns_of_the_standard_input_are_refused(people, monkeypatch):
    text = event("c", None, {"id": 1, "name": "Ada", "born": 1815})
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with pytest.raises(InputError, match="stdin has columns that the table has not \\(born\\)"):
        pkray.cdc.upsert(people, "-", format="debezium-json", new_columns="add")


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_memory_does_not_depend_on_the_size_of_a_file(people, tmp_path):
    line = event("c", None, {"id": 1, "name": "x" * 1000})
    file = tmp_path / "large.json"
    with file.open("w") as out:
        for _ in range(96):
            out.write(f"{line}\n" * (MB // len(line)))

    def decode_all() -> None:
        decoder = Decoder(ChangeFormat.debezium_json, Target.from_schema(people.schema))
        for records, _ in LineFile(file).records():
            assert decoder.decode(records).rows.num_rows == len(records.texts)

    assert peak_of(decode_all) < 80 * MB
