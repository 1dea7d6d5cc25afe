"""Tables with deletion vectors, from every side, after each commit."""

import random
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pkray
from pkray.commit.index_files import index_files
from pkray.format.deletion_vector import write_index
from pkray.format.index_file import DELETION_VECTORS
from pkray.lsm.deletion_files import read_vectors
from pkray.metadata.snapshots import SnapshotStore
from pkray.storage.opening import open_store
from tests.integration.readers import RustCatalog, rows_of

COLUMNS = [("k", "BIGINT NOT NULL"), ("v", "STRING"), ("n", "INT")]
KEYS = 3_000
FILTERS = ["k < 40", "k = 7", "n >= 3", "v = 'new'", "k >= 2990 AND v <> 'new'"]
ENGINES: dict[str, dict[str, str]] = {
    "deduplicate": {},
    "partial-update": {"merge-engine": "partial-update"},
    "aggregation": {"merge-engine": "aggregation", "fields.n.aggregate-function": "max"},
}


class Marked:
    """A table beside a dict of what it must hold.

    Its first commit is large enough that later ones leave its file where it is.
    """

    def __init__(self, folder: Path, engine: str = "deduplicate", **options: str) -> None:
        self.folder = str(folder)
        self.engine = engine
        self.rust = RustCatalog(self.folder)
        self.open()
        self.table = self.catalog.create_table(
            "db.t",
            COLUMNS,
            ["k"],
            options={
                "bucket": "2",
                "deletion-vectors.enabled": "true",
                **ENGINES[engine],
                **{name.replace("_", "-"): value for name, value in options.items()},
            },
        )
        self.rows: dict[int, tuple[Any, ...]] = {}
        self.commit([(key, f"value {key}", key % 5) for key in range(KEYS)])

    def open(self) -> None:
        self.catalog = pkray.connect(self.folder)

    def reopen(self) -> None:
        self.catalog.close()
        self.open()
        self.table = self.catalog.load_table("db.t")

    def commit(self, upserts: list[tuple[Any, ...]], deletes: tuple[int, ...] = ()) -> None:
        with self.table.open_writer("w") as writer:
            self.put(writer, upserts, deletes)
            writer.commit()

    def put(
        self, writer: Any, upserts: list[tuple[Any, ...]], deletes: tuple[int, ...] = ()
    ) -> None:
        if upserts:
            keys, values, numbers = zip(*upserts, strict=True)
            writer.write(pa.table({"k": keys, "v": values, "n": pa.array(numbers, pa.int32())}))
        if deletes:
            writer.delete(pa.table({"k": deletes}))
        for key, *values in upserts:
            self.rows[key] = (key, *self.merged(self.rows.get(key), values))
        for key in deletes:
            self.rows.pop(key, None)

    def merged(self, old: tuple[Any, ...] | None, new: list[Any]) -> list[Any]:
        if old is None or self.engine == "deduplicate":
            return new
        value = new[0] if new[0] is not None else old[1]
        numbers = [n for n in (old[2], new[1]) if n is not None]
        if self.engine == "aggregation":
            return [value, max(numbers, default=None)]
        return [value, new[1] if new[1] is not None else old[2]]

    def check(self) -> None:
        """Reads, filters and lookups, here and by the other reader."""
        expected = sorted(self.rows.values())
        assert rows_of(self.table.to_arrow(), ["k"]) == expected
        assert rows_of(self.rust.read("db.t"), ["k"]) == expected
        for condition in FILTERS:
            mine = rows_of(self.table.to_arrow(filter=condition), ["k"])
            assert mine == rows_of(self.rust.read("db.t", condition), ["k"]), condition
            assert set(mine) <= set(expected), condition
        keys = [*range(-3, 60), *range(KEYS - 60, KEYS + 60)]
        asked = pa.table({"k": keys})
        present = [self.rows[key] for key in keys if key in self.rows]
        for visibility in ("committed", "latest"):
            found = self.table.lookup(asked, visibility=visibility)
            assert list(zip(*found.to_pydict().values(), strict=True)) == present, visibility

    def vector_files(self) -> int:
        snapshot = self.table.latest_snapshot()
        found = index_files(self.table.location.open(), snapshot, DELETION_VECTORS)
        return sum(map(len, found.values()))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    made: list[Marked] = []

    def create(*arguments: Any, **options: str) -> Marked:
        made.append(Marked(tmp_path / f"w{len(made)}", *arguments, **options))
        return made[-1]

    yield create
    for marked in made:
        marked.catalog.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("producer", ["none", "input", "lookup"])
def test_every_commit_reads_the_same_everywhere(make: Any, engine: str, producer: str) -> None:
    marked = make(engine, changelog_producer=producer)
    chance = random.Random(f"{engine} {producer}")
    seen = 0
    for turn in range(4):
        keys = chance.sample([*range(60), *range(KEYS - 60, KEYS + 40)], 25)
        changed = [(key, chance.choice(["new", None]), chance.choice([None, 9])) for key in keys]
        deletes = tuple(keys[:5]) if engine == "deduplicate" else ()
        marked.commit(changed, deletes)
        seen += marked.vector_files()
        marked.check()
        if turn == 1:
            marked.reopen()
            marked.check()
    assert seen
    if producer == "lookup":
        check_changelog(marked)
    marked.table.compact(full=True)
    marked.check()
    assert not marked.vector_files()


def check_changelog(marked: Marked) -> None:
    """The changelog leads to every snapshot; each old image is what was there."""
    table: dict[int, tuple[Any, ...]] = {}
    changes = marked.table.changelog().to_pydict()
    newest = marked.table.latest_snapshot().id
    kinds, numbers, *columns = changes.values()
    at = list(zip(numbers, kinds, zip(*columns, strict=True), strict=True))
    for snapshot in range(1, newest + 1):
        for _, kind, row in (change for change in at if change[0] == snapshot):
            if kind in ("-U", "-D"):
                assert table.pop(row[0]) == row
            else:
                assert row[0] not in table
                table[row[0]] = row
        if marked.table.snapshot(snapshot).commit_kind == "COMPACT":
            read = marked.table.to_arrow(snapshot_id=snapshot)
            assert rows_of(read, ["k"]) == sorted(table.values())


def test_uncommitted_rows_hide_what_is_committed_from_latest_lookups_alone(make: Any) -> None:
    marked = make()
    marked.commit([(5, "first", 1)])
    before = dict(marked.rows)
    with marked.table.open_writer("w") as writer:
        marked.put(writer, [(5, "second", 2)], (6,))
        keys = [{"k": key} for key in (4, 5, 6)]
        latest = marked.table.lookup(keys).to_pydict()["v"]
        committed = marked.table.lookup(keys, visibility="committed").to_pydict()["v"]
        assert latest == ["value 4", "second"]
        assert committed == [before[key][1] for key in (4, 5, 6)]
        writer.commit()
    marked.check()


def test_older_snapshots_keep_their_vectors(make: Any) -> None:
    marked = make()
    versions = {}
    for turn in range(4):
        marked.commit([(turn, "new", turn)], (100 + turn,))
        versions[marked.table.latest_snapshot().id] = sorted(marked.rows.values())
    for snapshot, expected in versions.items():
        assert rows_of(marked.table.to_arrow(snapshot_id=snapshot), ["k"]) == expected
        found = marked.table.lookup(
            [{"k": 0}, {"k": 103}], visibility="committed", snapshot_id=snapshot
        )
        assert rows_of(found, ["k"]) == [row for row in expected if row[0] in (0, 103)]


def test_a_damaged_vector_file_is_named_by_reads(make: Any) -> None:
    marked = make()
    marked.commit([(5, "new", 1)])
    (path,) = Path(marked.table.location.url).glob("index/index-*")
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(pkray.CorruptFileError, match=path.name):
        marked.table.to_arrow()
    marked.reopen()
    with pytest.raises(pkray.CorruptFileError, match=path.name):
        marked.table.lookup([{"k": 5}])


def test_rows_of_two_services_are_marked_by_whoever_compacts(make: Any) -> None:
    marked = make()
    with pkray.connect(marked.folder) as other:
        theirs = other.load_table("db.t")
        for turn in range(4):
            marked.commit([(turn, "mine", turn)], (50 + turn,))
            with theirs.open_writer("them") as writer:
                writer.write(pa.table({"k": [turn + 1], "v": ["theirs"], "n": pa.array([0], "i4")}))
                writer.commit()
            marked.rows[turn + 1] = (turn + 1, "theirs", 0)
            marked.check()


def by_java() -> list[dict[int, str]]:
    """What each commit left in the recorded table (``data/README.md``)."""
    rows = {key: f"value {key}" for key in range(400)}
    versions = [dict(rows)]
    rows |= {7: "seven", 400: "new"}
    del rows[100]
    versions.append(dict(rows))
    rows |= dict.fromkeys(range(200, 260), "range")
    versions.append(dict(rows))
    rows[210] = "again"
    del rows[7]
    return [*versions, rows]


@pytest.fixture
def java_warehouse(tmp_path: Path) -> Path:
    data = Path(__file__).parent / "data" / "deletion_vectors_java.tar.gz"
    with tarfile.open(data) as packed:
        packed.extractall(tmp_path)
    return tmp_path


def test_vectors_written_by_java_are_read_and_continued(java_warehouse: Path) -> None:
    with pkray.connect(str(java_warehouse)) as catalog:
        table = catalog.load_table("db.t")
        for number, expected in enumerate(by_java()):
            compacted = 2 * number + 2
            read = table.to_arrow(snapshot_id=compacted)
            assert rows_of(read, ["k"]) == sorted(expected.items())
        keys = [{"k": key} for key in (6, 7, 100, 210, 399, 400)]
        found = table.lookup(keys).to_pydict()
        assert dict(zip(*found.values(), strict=True)) == {
            6: "value 6",
            210: "again",
            399: "value 399",
            400: "new",
        }
        with table.open_writer("w") as writer:
            writer.write(
                pa.table({"k": pa.array([7, 210], pa.int32()), "v": ["back", "once more"]})
            )
            writer.delete(pa.table({"k": pa.array([0], pa.int32())}))
            writer.commit()
        expected = by_java()[-1] | {7: "back", 210: "once more"}
        del expected[0]
        assert rows_of(table.to_arrow(), ["k"]) == sorted(expected.items())
    rust = RustCatalog(str(java_warehouse))
    assert rows_of(rust.read("db.t"), ["k"]) == sorted(expected.items())


def test_vectors_of_java_are_written_with_the_same_bytes(java_warehouse: Path) -> None:
    store = open_store(java_warehouse / "db.db" / "t")
    files = [
        file
        for snapshot in SnapshotStore(store).all()
        for (file,) in index_files(store, snapshot, DELETION_VECTORS).values()
    ]
    assert len({file.file_name for file in files}) == 3
    for file in files:
        (written,) = write_index(read_vectors(store, [file]), 1 << 20)
        assert written[0] == store.read(f"index/{file.file_name}")
        assert [(each.offset, each.length) for each in written[1]] == [
            (each.offset, each.length) for each in file.deletion_vectors or ()
        ]


def test_a_dedicated_job_marks_what_write_only_writers_replaced(make: Any) -> None:
    marked = make(write_only="true")
    assert marked.table.to_arrow().num_rows == 0
    for turn in range(3):
        marked.table.compact_dedicated()
        marked.check()
        assert (marked.vector_files() > 0) == (turn > 0)
        before = sorted(marked.rows.values())
        marked.commit([(turn, "new", turn)], (50 + turn,))
        assert rows_of(marked.table.to_arrow(), ["k"]) == before
    marked.table.compact_dedicated(full=True)
    marked.check()
    assert not marked.vector_files()
