"""Files cut short, and files with one changed bit: an error that names the file, or no harm."""

import random
import re
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pkray
from pkray.errors import CorruptFileError, MissingFileError, PkrayError, UnsupportedError
from pkray.schema.table_schema import TableSchema
from pkray.storage.opening import open_store
from pkray.storage.parquet import ParquetWriter, read_batches
from tests.damaged_json import mutations
from tests.effort import examples
from tests.faults import script

MANY = 400
"""Rows of the first commit: data files have pages worth damaging."""
KINDS = {
    "schema": r"schema/schema-0",
    "snapshot": r"snapshot/snapshot-\d+",
    "earliest hint": r"snapshot/EARLIEST",
    "latest hint": r"snapshot/LATEST",
    "manifest list": r"manifest/manifest-list-.*",
    "manifest": r"manifest/manifest-(?!list).*",
    "index manifest": r"manifest/index-manifest-.*",
    "tag": r"tag/tag-.*",
    "consumer": r"consumer/consumer-.*",
    "schema of a branch": r"branch/.*/schema/schema-0",
    "snapshot of a branch": r"branch/.*/snapshot/snapshot-\d+",
    "changelog": r"changelog/changelog-\d+",
    "hint of changelogs": r"changelog/(EARLIEST|LATEST)",
    "data file": r".*bucket-\d+/data-.*",
    "changelog file": r".*bucket-\d+/changelog-.*",
    "hash index": r"index/.*-crc.*",
    "deletion vectors": r"index/(?!.*-crc).*",
}
HEALED = ("earliest hint", "latest hint", "hint of changelogs")


def _plain(catalog: pkray.Catalog) -> None:
    """A table with changelogs that outlived their snapshots, a branch, a tag and a consumer."""
    for step in (
        script.create(
            changelog_producer="input",
            write_only="true",
            **{"changelog.num-retained.min": "50", "changelog.num-retained.max": "100"},
        ),
        script.commit("a", 0, {(n, "xy"[n % 2]): n * n for n in range(MANY)}),
        script.commit("a", 1, {(n, "x"): n for n in range(0, MANY, 7)}, deleted=((1, "y"),)),
        script.expire(1),
        script.commit("b", 0, {(3, "y"): 33}),
        script.compact(full=True),
        script.tag("v1"),
        script.branch("side", "v1"),
        script.commit("a", 2, {(4, "x"): 44}),
        script.on_table(lambda table: table.consumers.reset("reader", 3)),
    ):
        step(catalog)


def _marked(catalog: pkray.Catalog) -> None:
    """A table with dynamic buckets and deletion vectors."""
    dynamic = {"deletion-vectors.enabled": "true", "dynamic-bucket.target-row-num": "300"}
    for step in (
        script.create(bucket="-1", partitioned=False, **dynamic),
        script.commit("a", 0, {(n, "x"): n for n in range(MANY)}),
        script.compact(full=True),
        script.commit("a", 1, {(n, "y"): -n for n in range(0, MANY, 9)}),
    ):
        step(catalog)


def everything(root: Path, process: Any) -> Any:
    """All that can be read of the table, in a new process; and what would be written to it."""
    with process(str(root)) as catalog:
        table = catalog.load_table(script.NAME)
        ids = table.snapshots()["snapshot_id"].to_pylist()
        found = {
            "rows": _rows(table.to_arrow()),
            "some": _rows(table.to_arrow(filter="k = 21 OR v > 155000")),
            "snapshots": [(number, _rows(table.to_arrow(snapshot_id=number))) for number in ids],
            "tags": [
                (name, _rows(table.to_arrow(tag=name)))
                for name in table.tags.list()["tag_name"].to_pylist()
            ],
            "branches": [
                (name, _rows(table.branch(name).to_arrow()))
                for name in table.branches.list()["branch_name"].to_pylist()
            ],
            "consumers": table.consumers.list().select([0, 1]).to_pylist(),
            "lookup": table.lookup(_keys(table), visibility="committed").to_pylist(),
        }
        if "changelog-producer" in table.options:
            found["changelog"] = table.changelog(1).to_pylist()
        else:
            with table.open_writer("reader") as writer:  # where do its hashes say keys are?
                writer.upsert([{"k": n, "dt": "z", "v": 1} for n in range(0, MANY, 50)])
                found["latest"] = table.lookup(_keys(table)).num_rows
    return found


def _keys(table: pkray.Table) -> list[dict[str, Any]]:
    if "dt" in table.schema.primary_keys:
        return [{"k": n, "dt": "xy"[n % 2]} for n in range(0, MANY, 5)]
    return [{"k": n} for n in range(0, MANY, 5)]


def _rows(rows: Any) -> list[dict[str, Any]]:
    found = rows.sort_by([("k", "ascending"), ("dt", "ascending")]).to_pylist()
    return sorted(found, key=repr)


@pytest.fixture(scope="module")
def warehouses(tmp_path_factory) -> dict[str, Path]:
    made = {}
    for make in (_plain, _marked):
        root = tmp_path_factory.mktemp(make.__name__)
        options = {"owners": 1, "local_directory": str(root / "local")}
        with pkray.connect(str(root / "w"), runtime_options=options) as catalog:
            make(catalog)
        made[make.__name__] = root / "w"
    return made


def damages(data: bytes, count: int, rng: random.Random) -> list[tuple[str, bytes]]:
    """The file cut at ``count`` places, and with one bit changed in others: its ends above all."""
    cuts = [0, len(data) // 2, len(data) - 1, max(0, len(data) - 9), 1, len(data) // 3][:count]
    found = [(f"cut to {size} of {len(data)} bytes", data[:size]) for size in sorted({*cuts})]
    ends = [*range(min(len(data), 12)), *range(max(0, len(data) - 12), len(data))]
    places = {rng.choice(ends) for _ in range(max(1, count // 4))}
    places |= {rng.randrange(len(data)) for _ in range(count)}
    for place in sorted(places):
        changed = bytearray(data)
        changed[place] ^= 1 << rng.randrange(8)
        found.append((f"a bit changed in byte {place} of {len(data)}", bytes(changed)))
    return found


def times(few: int, many: int) -> pytest.MarkDecorator:
    slow = pytest.param(many, id="many", marks=pytest.mark.slow)
    return pytest.mark.parametrize("most", [pytest.param(examples(few), id="few"), slow])


@times(3, 24)
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_named_and_never_read_wrongly(kind, most, warehouses, process, survived):
    rng = random.Random(kind)
    wrong, count = [], 0
    named = 0
    for root in warehouses.values():
        table = root / "shop.db" / "orders"
        files = [
            path
            for path in sorted(table.rglob("*"))
            if path.is_file() and re.fullmatch(KINDS[kind], str(path.relative_to(table)))
        ]
        if not files:
            continue
        expected = everything(root, process)
        path = max(files, key=lambda each: (each.stat().st_size, each.name))
        data = path.read_bytes()
        for what, damaged in damages(data, most, rng):
            path.write_bytes(damaged)
            count += 1
            try:
                if everything(root, process) != expected:
                    wrong.append((what, "other rows"))
                continue
            except (CorruptFileError, MissingFileError) as error:
                named += 1
                if path.name not in str(error) or kind in HEALED:
                    wrong.append((what, repr(error)))
            except PkrayError as error:
                wrong.append((what, repr(error)))
            finally:
                path.write_bytes(data)
    assert count
    survived(f"{kind}: {count - len(wrong)} of {count} damages are named ({named}) or harmless")
    assert not wrong, wrong[:3]


JSON_KINDS = (
    "schema",
    "snapshot",
    "tag",
    "consumer",
    "schema of a branch",
    "snapshot of a branch",
    "changelog",
)
PLAUSIBLE = ("options = {}", "partitionKeys = []", "primaryKeys = []")
"""Changes of a schema that leave another one."""


def files_of(kind: str, table: Path) -> list[Path]:
    return [
        path
        for path in sorted(table.rglob("*"))
        if path.is_file() and re.fullmatch(KINDS[kind], str(path.relative_to(table)))
    ]


@times(6, 1000)
@pytest.mark.parametrize("kind", JSON_KINDS)
def test_a_file_that_was_edited_is_named_or_read_as_it_is(
    kind, most, warehouses, process, survived
):
    """Other values, keys that are twice there, texts that are no such file: without a checksum."""
    root = warehouses["_plain"]
    path = files_of(kind, root / "shop.db" / "orders")[-1]
    data, expected, wrong = path.read_bytes(), everything(root, process), []
    every = [each for each in mutations(data) if each[0] not in PLAUSIBLE]
    some = random.Random(kind).sample(every, min(len(every), most))
    for what, edited in some:
        path.write_bytes(edited)
        try:
            if everything(root, process) != expected:
                wrong.append((what, "other rows"))
        except (CorruptFileError, MissingFileError, UnsupportedError) as error:
            if path.name not in str(error):
                wrong.append((what, repr(error)))
        finally:
            path.write_bytes(data)
    survived(f"{kind}: {len(some) - len(wrong)} of {len(some)} edits are named or harmless")
    assert not wrong, wrong[:3]


@pytest.mark.parametrize("kind", [*JSON_KINDS, *HEALED])
@pytest.mark.parametrize("inside", [None, "notes"], ids=["empty", "with a file"])
def test_a_directory_in_the_place_of_a_file_is_named(kind, inside, warehouses, process):
    root = warehouses["_plain"]
    path = files_of(kind, root / "shop.db" / "orders")[-1]
    data, expected = path.read_bytes(), everything(root, process)
    path.unlink()
    path.mkdir()
    if inside:
        (path / inside).write_bytes(b"")
    try:
        if kind in HEALED:
            assert everything(root, process) == expected
        else:
            with pytest.raises(CorruptFileError, match=f"{path.name}' is a directory"):
                everything(root, process)
    finally:
        shutil.rmtree(path)
        path.write_bytes(data)


def test_all_of_a_data_file_is_watched(tmp_path, survived):
    """Of small pages of all encodings: a bit of every fourth byte, whatever the byte is for."""
    store = open_store(tmp_path)
    numbers = np.arange(300)
    rows = pa.table(
        {
            "k": numbers,
            "price": pa.array([Decimal(n) / 4 for n in range(300)], pa.decimal128(12, 2)),
            "name": pa.array(numbers % 7).cast(pa.string()),
            "at": pa.array(numbers, pa.timestamp("ms")),
            "maybe": pa.array([None, 1.5, 2.5] * 100),
        }
    )
    columns = [("k", "BIGINT NOT NULL")]
    options = TableSchema.create(columns, ["k"], [], {"file.block-size": "4 kb"}).core
    with ParquetWriter(store, "f", rows.schema, options) as writer:
        writer.write(rows)
    data = store.read("f")
    expected = pa.Table.from_batches(read_batches(store, "f", schema=rows.schema))
    rng, named, harmless = random.Random(7), 0, 0
    places = range(0, len(data), 4)
    for place in places:
        damaged = bytearray(data)
        damaged[place] ^= 1 << rng.randrange(8)
        store.write("f", bytes(damaged))
        try:
            found = pa.Table.from_batches(read_batches(store, "f", schema=rows.schema))
        except CorruptFileError as error:
            named += "/f'" in str(error)
        else:
            assert found == expected, f"byte {place} of {len(data)}"
            harmless += 1
    assert named + harmless == len(places)
    survived(
        f"bytes of a data file: {len(places)} of {len(places)} are named ({named}) or harmless"
    )
