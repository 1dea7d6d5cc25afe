"""Reads the statistics of files in manifests, by column of the schema that is read."""

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pkray.format import binary_row
from pkray.format.words import header_words
from pkray.scan.conditions import Statistics
from pkray.scan.file_set import FileSet
from pkray.schema.table_schema import TableSchema
from pkray.schema.types import DataField, DataType

Places = npt.NDArray[np.intp]
Schemas = Callable[[int], TableSchema]
Bounds = tuple[pa.Array, pa.Array, npt.NDArray[np.int64]]
"""Least and greatest values (null: unknown), and counts of nulls (below 0: unknown)."""


class FileStatistics:
    """Statistics of the files of a set.

    Files written under other schemas are understood by the ids of their columns; where a column's
    type was another one, nothing is known.

    Args:
        schema: the one that is read under.
        schemas: older ones by id.
    """

    def __init__(self, files: FileSet, schema: TableSchema, schemas: Schemas) -> None:
        self._files = files
        self._schema = schema
        self._schemas = schemas

    def of_partitions(self) -> Statistics:
        """Return one element a partition: its values are its bounds."""
        _, partitions = self._files.partitions
        names = self._schema.partition_keys
        columns = binary_row.decode(partitions, self._schema.types(names)) if names else []
        values = dict(zip(names, columns, strict=True))
        nulls = {name: _is_null(column) for name, column in values.items()}
        return Statistics(values, values, nulls, np.ones(len(partitions), np.int64))

    def select(self, columns: Iterable[str], places: Places) -> Statistics:
        """Return statistics of these columns of the files at these places."""
        schema = self._schema
        least: dict[str, pa.Array] = {}
        greatest: dict[str, pa.Array] = {}
        nulls: dict[str, npt.NDArray[np.int64]] = {}
        wanted = set(columns)
        in_partition = wanted & set(schema.partition_keys)
        if in_partition:
            codes = pa.array(self._files.partitions[0][places])
            of_partitions = self.of_partitions()
            for name in in_partition:
                least[name] = greatest[name] = of_partitions.least[name].take(codes)
                nulls[name] = of_partitions.nulls[name][codes.to_numpy()]
        for name in wanted - in_partition:
            field = schema.field(name)
            if field.type.is_nested:
                continue
            is_key = name in schema.trimmed_primary_keys
            bounds = self._key_bounds(field) if is_key else self._value_bounds(field)
            at = pa.array(places, pa.int64())
            least[name], greatest[name] = bounds[0].take(at), bounds[1].take(at)
            nulls[name] = bounds[2][places]
        return Statistics(least, greatest, nulls, self._files.numbers("rows")[places])

    def of_values(self, columns: Iterable[str]) -> Statistics:
        """Return what the files' writers said, of all files; nested columns are left out."""
        fields = [self._schema.field(name) for name in columns]
        bounds = {f.name: self._value_bounds(f) for f in fields if not f.type.is_nested}
        return Statistics(
            {name: least for name, (least, _, _) in bounds.items()},
            {name: greatest for name, (_, greatest, _) in bounds.items()},
            {name: nulls for name, (_, _, nulls) in bounds.items()},
            self._files.numbers("rows"),
        )

    def _key_bounds(self, field: DataField) -> Bounds:
        position = self._schema.trimmed_primary_keys.index(field.name)

        wanted = self._plain_key_types(self._schema)

        def layout(schema: TableSchema, _: object) -> tuple[int, list[DataType]] | None:
            types = self._plain_key_types(schema)
            return (position, types) if types == wanted else None

        # Of the first key column the smallest key has the smallest value, and it is never cut.
        low, high = ("min_key", "max_key") if position == 0 else ("key_min", "key_max")
        least, greatest = self._stitched(field, layout, low, high)
        return least, greatest, np.zeros(len(self._files), np.int64)

    @staticmethod
    def _plain_key_types(schema: TableSchema) -> list[DataType]:
        return [_plain(kind) for kind in schema.types(schema.trimmed_primary_keys)]

    def _value_bounds(self, field: DataField) -> Bounds:
        def layout(
            schema: TableSchema, named: tuple[str, ...] | None
        ) -> tuple[int, list[DataType]] | None:
            if named is not None and not set(named) <= set(schema.names):
                return None
            fields = schema.fields if named is None else [schema.field(name) for name in named]
            for position, there in enumerate(fields):
                if there.id == field.id and _plain(there.type) == _plain(field.type):
                    return position, [each.type for each in fields]
            return None

        least, greatest = self._stitched(field, layout, "value_min", "value_max")
        nulls = np.full(len(self._files), -1, np.int64)
        for schema, named, places in self._layouts():
            found = layout(schema, named)
            if found is not None:
                nulls[places] = _null_counts(
                    self._files.column("value_nulls").take(pa.array(places)), *found
                )
        return least, greatest, nulls

    def _stitched(
        self,
        field: DataField,
        layout: Callable[[TableSchema, tuple[str, ...] | None], tuple[int, list[DataType]] | None],
        low: str,
        high: str,
    ) -> tuple[pa.Array, pa.Array]:
        """Join the bounds of all files from those of each layout."""
        parts: list[tuple[pa.Array, pa.Array]] = []
        order: list[Places] = []
        for schema, named, places in self._layouts():
            found = layout(schema, named)
            order.append(places)
            if found is None:
                unknown = pa.nulls(len(places), field.type.arrow)
                parts.append((unknown, unknown))
                continue
            rows = [self._files.column(name).take(pa.array(places)) for name in (low, high)]
            parts.append((_decode(rows[0], *found), _decode(rows[1], *found)))
        if not parts:
            return pa.array([], field.type.arrow), pa.array([], field.type.arrow)
        if len(parts) == 1:
            return parts[0]
        back = pa.array(np.argsort(np.concatenate(order)))
        least, greatest = (pa.concat_arrays(each).take(back) for each in zip(*parts, strict=True))
        return least, greatest

    def _layouts(self) -> Iterable[tuple[TableSchema, tuple[str, ...] | None, Places]]:
        for schema_id, named, places in self._files.layouts:
            same = schema_id == self._schema.id
            yield (self._schema if same else self._schemas(schema_id)), named, places


def _decode(rows: pa.Array, position: int, types: list[DataType]) -> pa.Array:
    """Decode one column of stored rows; it is null in rows of other columns."""
    arity = len(types)
    fits = pc.equal(pc.binary_slice(rows, 0, 4), arity.to_bytes(4, "big"))
    if not pc.all(fits).as_py():
        rows = pc.if_else(fits, rows, _null_row(arity))
    return binary_row.decode_column(rows, position, types)


def _null_row(arity: int) -> bytes:
    header = b"\x00" + b"\xff" * (8 * header_words(arity) - 1)
    return arity.to_bytes(4, "big") + header + bytes(8 * arity)


def _null_counts(counts: pa.Array, position: int, types: list[DataType]) -> npt.NDArray[np.int64]:
    lengths = pc.list_value_length(counts)
    if not pc.all(pc.equal(lengths, len(types))).as_py():
        return np.full(len(counts), -1, np.int64)
    of_column = pc.list_element(counts, position)
    return pc.fill_null(of_column, -1).to_numpy(zero_copy_only=False)


def _is_null(column: pa.Array) -> npt.NDArray[np.int64]:
    return column.is_null().to_numpy(zero_copy_only=False).astype(np.int64)


def _plain(kind: DataType) -> DataType:
    return kind.with_nullable(True)
