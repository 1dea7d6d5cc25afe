"""One table, open in pkray and in Paimon's Java core."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import pkray
from pkray.schema.types import DataType
from tests.interop_java.java_core import JavaCore
from tests.interop_java.plain_values import from_arrow, in_order, to_arrow

Row = list[Any]
"""A row kind and plain values."""
Changes = dict[int, dict[str, list[Row]]]
"""By snapshot and key: kind and values, in their order."""

_KIND = "__kind"


class Both:
    """A table that both write and read, and say the same of.

    Args:
        columns: type by name, as SQL or as JSON.
        maker: who writes the schema, ``pkray`` or ``java``.
        unordered: columns of lists that are compared as sets.
    """

    def __init__(
        self,
        core: JavaCore,
        warehouse: Path,
        columns: Mapping[str, Any],
        primary_keys: Sequence[str],
        partition_keys: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        maker: str = "pkray",
        unordered: Sequence[str] = (),
    ) -> None:
        self._core = core
        self._unordered = list(unordered)
        self._types = {name: DataType.parse(kind) for name, kind in columns.items()}
        self._keys = list(primary_keys)
        self._identifier = 0
        self.path = str(warehouse / "db.db" / "t")
        said = {"bucket": "1", **(options or {})}
        # Thousands of keys, beside a JVM.
        self._catalog = pkray.connect(str(warehouse), runtime_options={"lookup_timeout": 60})
        if maker == "java":
            named = [
                (name, kind.with_nullable(name not in primary_keys).to_json())
                for name, kind in self._types.items()
            ]
            core.create(self.path, named, list(primary_keys), list(partition_keys), said)
        else:
            typed = list(self._types.items())
            self._catalog.create_table("db.t", typed, primary_keys, partition_keys, said)
        self.table = self._catalog.load_table("db.t")

    def write(
        self, who: str, rows: Sequence[Row], full_compact: bool = False, stay: bool = False
    ) -> None:
        """Commit rows, by ``pkray`` or ``java``.

        Args:
            stay: the Java core goes on with the same writer, as if it were the only one.
        """
        self._identifier += 1
        if who == "java":
            self._core.write(self.path, rows, self._identifier, full_compact, stay)
            return
        with self.table.open_writer("pkray") as writer:
            if rows:
                writer.write(self._arrow(rows), row_kinds=_KIND)
            writer.commit(self._identifier, full_compact=full_compact)

    def tag(self, who: str, tag: str, snapshot: int) -> None:
        """Keep a snapshot under a name, by ``pkray`` or ``java``."""
        if who == "java":
            self._core.tag(self.path, tag, snapshot)
        else:
            self.table.tags.create(tag, snapshot)

    def roll_back(self, who: str, tag: str) -> None:
        """Make a tag's snapshot the newest, by ``pkray`` or ``java``."""
        if who == "java":
            self._core.roll_back(self.path, tag)
        else:
            self.table.rollback_to(tag=tag)

    def alter(self, what: str, name: str, *to: str) -> None:
        """Change the schema: ``add``, ``drop``, ``rename`` or ``change`` (its type) a column."""
        getattr(self.table.alter, f"{what}_{'type' if what == 'change' else 'column'}")(name, *to)
        if what == "drop":
            del self._types[name]
        elif what == "rename":
            self._types = {to[0] if one == name else one: of for one, of in self._types.items()}
            self._unordered = [to[0] if one == name else one for one in self._unordered]
        else:
            self._types[name] = DataType.parse(to[0])

    def content(
        self,
        reader: str,
        snapshot: int | None = None,
        tag: str | None = None,
        branch: str | None = None,
    ) -> dict[str, Row]:
        """The rows by key, as ``pkray`` or ``java`` reads them."""
        if reader == "java":
            read = self._core.read(self.path, snapshot, tag, branch)
            rows = [self._in_order(row) for row in read]
        else:
            table = self.table.branch(branch or "main")
            rows = self._plain(table.to_arrow(snapshot_id=snapshot, tag=tag))
        found = {self._key(row): row for row in rows}
        assert len(found) == len(rows), f"{reader} reads a key twice: {rows}"
        return found

    def changes(self, reader: str) -> Changes:
        """Everything that changed, as ``pkray`` or ``java`` streams it."""
        newest = self.table.latest_snapshot()
        if newest is None:
            return {}
        found: Changes = defaultdict(lambda: defaultdict(list))
        if reader == "java":
            for snapshot, kind, *values in self._core.changes(self.path, 1, newest.id):
                row = self._in_order(values)
                found[snapshot][self._key(row)].append([kind, *row])
        else:
            table = self.table.changelog()
            heads = (table.column(name).to_pylist() for name in ("_snapshot_id", "_row_kind"))
            for snapshot, kind, row in zip(*heads, self._plain(table), strict=True):
                found[snapshot][self._key(row)].append([kind, *row])
        return {snapshot: dict(of) for snapshot, of in found.items()}

    def check(self) -> dict[str, Row]:
        """Both read the same content, and pkray finds each of its rows by key."""
        content = self.content("java")
        found = self.content("pkray")
        assert found == content
        if content:
            keys = self._arrow([["+I", *row] for row in content.values()])
            keys = keys.select(self.table.schema.primary_keys)
            for visibility in ("latest", "committed"):
                rows = self._plain(self.table.lookup(keys, visibility=visibility))
                assert rows == list(content.values()), visibility
        return content

    def check_changes(self) -> Changes:
        """Both stream the same changes."""
        changes = self.changes("java")
        assert self.changes("pkray") == changes
        return changes

    def close(self) -> None:
        self._catalog.close()

    def _arrow(self, rows: Sequence[Row]) -> pa.Table:
        kinds, *columns = zip(*rows, strict=True)
        arrays = [
            to_arrow(values, kind)
            for values, kind in zip(columns, self._types.values(), strict=True)
        ]
        return pa.table([*arrays, pa.array(kinds)], names=[*self._types, _KIND])

    def _plain(self, table: pa.Table) -> list[Row]:
        table = table.combine_chunks()
        columns = [
            [value for chunk in table.column(name).chunks for value in from_arrow(chunk, kind)]
            for name, kind in self._types.items()
        ]
        for place in map(list(self._types).index, self._unordered):
            columns[place] = [_as_set(value) for value in columns[place]]
        return [list(row) for row in zip(*columns, strict=True)]

    def _in_order(self, values: Row) -> Row:
        kinds = self._types.values()
        row = [in_order(value, kind) for value, kind in zip(values, kinds, strict=True)]
        for place in map(list(self._types).index, self._unordered):
            row[place] = _as_set(row[place])
        return row

    def _key(self, row: Row) -> str:
        names = list(self._types)
        return str([row[names.index(key)] for key in self._keys])


def _as_set(value: Any) -> Any:
    return None if value is None else sorted(value, key=str)
