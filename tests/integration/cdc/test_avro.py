"""Files of Avro into tables: object containers and single messages."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import fastavro
import pytest

import pkray
import pkray.cdc
from pkray.cdc.avro.files import AvroFile
from pkray.cdc.decoder import ChangeFormat, Decoder
from pkray.cdc.row_changes import Target
from pkray.errors import ChangeRecordError, InputError
from tests.integration.bounded_memory import peak_of
from tests.integration.cdc.test_upserts import run
from tests.unit.cdc.test_debezium_avro import ID, NAME, PEOPLE, envelope, message

MB = 1 << 20


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"before": before, "after": after, "source": {"lsn": 1}, "op": op}


def written(path: Path, *events: Any, schema: Any = PEOPLE, codec: str = "null") -> Path:
    with path.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(schema), events, codec)
    return path


@pytest.fixture
def people(catalog: pkray.Catalog) -> pkray.Table:
    return catalog.create_table("db.people", [("id", "INT"), ("name", "STRING")], ["id"])


ADA = {"id": 1, "name": "Ada"}


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
def test_a_container_brings_its_schema(people, tmp_path, codec):
    events = [event("c", None, ADA), event("u", None, {**ADA, "name": "Grace"})]
    file = written(tmp_path / "e.avro", *events, codec=codec)
    assert pkray.cdc.upsert(people, file, format="debezium-avro").rows == 2
    assert people.to_arrow().to_pylist() == [{"id": 1, "name": "Grace"}]


def test_files_of_several_schemas_follow_each_other_and_columns_are_added(people, tmp_path):
    one = written(tmp_path / "1.avro", event("c", None, ADA))
    wide = envelope(ID, NAME, {"name": "born", "type": ["null", "int"], "default": None})
    two = written(
        tmp_path / "2.avro", event("c", None, {"id": 2, "name": "Al", "born": 1912}), schema=wide
    )
    with pytest.raises(ChangeRecordError, match=r"2\.avro' record 1: column 'born'"):
        pkray.cdc.upsert(people, [one, two], format="debezium-avro")
    pkray.cdc.upsert(people, [one, two], format="debezium-avro", new_columns="add")
    assert people.to_arrow().sort_by("id").to_pylist() == [
        {**ADA, "born": None},
        {"id": 2, "name": "Al", "born": 1912},
    ]


def test_a_bad_record_goes_to_the_table_of_errors(catalog, people, tmp_path):
    file = written(tmp_path / "e.avro", event("c", None, ADA), event("c", None, None))
    errors = pkray.cdc.open_errors(catalog, "db.errors")
    done = pkray.cdc.upsert(people, file, format="debezium-avro", errors=errors)
    assert (done.rows, done.bad) == (1, 1)
    [row] = errors.to_arrow().to_pylist()
    assert (row["record"], row["reason"]) == (2, "an event of op 'c' has no image after")
    again = fastavro.schemaless_reader(io.BytesIO(row["text"]), fastavro.parse_schema(PEOPLE), None)
    assert again == event("c", None, None)


def test_every_cut_and_every_damaged_byte_of_a_file_leaves_the_table_as_it_was(people, tmp_path):
    whole = written(tmp_path / "e.avro", event("c", None, ADA)).read_bytes()
    file = tmp_path / "cut.avro"
    for size in range(0, len(whole), 7):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"file '.*cut\.avro'"):
            pkray.cdc.upsert(people, file, format="debezium-avro")
    file.write_bytes(whole[:-20] + b"\xff" * 4 + whole[-16:])
    with pytest.raises(InputError, match=r"cut\.avro"):
        pkray.cdc.upsert(people, file, format="debezium-avro")
    assert people.latest_snapshot() is None


def test_a_file_of_rows_says_that_it_has_no_events(people, tmp_path):
    rows = {"type": "record", "name": "row", "fields": [ID]}
    file = written(tmp_path / "rows.avro", {"id": 1}, schema=rows)
    with pytest.raises(InputError, match=r"describes no rows.*this one has id"):
        pkray.cdc.upsert(people, file, format="debezium-avro")


def test_the_standard_input_is_a_container_or_a_message(people, tmp_path, monkeypatch):
    container = written(tmp_path / "e.avro", event("c", None, ADA)).read_bytes()
    for data, given in ((container, None), (message("d", ADA), json.dumps(PEOPLE))):
        stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))
        monkeypatch.setattr(sys, "stdin", stdin)
        pkray.cdc.upsert(people, "-", format="debezium-avro", avro_schema=given)
    assert people.to_arrow().num_rows == 0
    assert people.latest_snapshot().id == 2


def test_the_command_line_takes_schemas_by_ids(capsys, people, tmp_path):
    schema = tmp_path / "people.avsc"
    schema.write_text(json.dumps(PEOPLE))
    file = tmp_path / "message.bin"
    file.write_bytes(message("c", None, ADA))
    warehouse = people.location.url.removesuffix("/db.db/people").removeprefix("file://")
    words = ("upsert", "db.people", file, "--format", "debezium-avro", "-w", warehouse, "--json")
    assert "the ids given are none" in run(capsys, *words, code=1)
    assert "ids given are 8" in run(capsys, *words, "--avro-schema", f"8={schema}", code=1)
    said = run(capsys, *words, "--avro-schema", f"8={schema}", "--avro-schema", f"7={schema}")
    assert json.loads(said)["rows"] == 1
    assert json.loads(run(capsys, *words, "--avro-schema", schema))["rows"] == 1
    assert people.to_arrow().to_pylist() == [ADA]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from /proc")
def test_memory_does_not_depend_on_the_size_of_a_file(people, tmp_path):
    row = event("c", None, {"id": 1, "name": "x" * 1000})
    file = tmp_path / "large.avro"
    with file.open("wb") as out:
        fastavro.writer(out, fastavro.parse_schema(PEOPLE), (row for _ in range(96 * 1024)))

    def decode_all() -> None:
        decoder = Decoder(ChangeFormat.debezium_avro, Target.from_schema(people.schema))
        for records, _ in AvroFile(file).records():
            assert decoder.decode(records).rows.num_rows == len(records.texts)

    assert peak_of(decode_all) < 60 * MB
