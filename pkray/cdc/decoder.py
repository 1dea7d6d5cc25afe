"""Records into changes; those that cannot be read are found one by one and named."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray import constants
from pkray.cdc.avro.debezium import DebeziumAvro
from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.canal import canal_json
from pkray.cdc.debezium import DebeziumJson
from pkray.cdc.envelopes import NewColumns
from pkray.cdc.maxwell import maxwell_json
from pkray.cdc.parsing import checked_texts
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import Changes, Target
from pkray.errors import ChangeRecordError, InputError, OptionError, UnsupportedError
from pkray.rows.input import Missing
from pkray.schema.table_schema import TableSchema

NewColumnsPolicy: TypeAlias = Literal["refuse", "add"]
"""Says what becomes of columns that events have and the table has not."""
UnavailablePolicy: TypeAlias = Literal["refuse", "null", "mark"]
"""Says what becomes of values that did not change and that events do not bring: such an event is
bad, or they are null, as `partial-update` keeps a column, or `Changes.unavailable` says which they
are.
"""

_SHOWN = 200
"""Characters of a record that an error shows."""


class ChangeFormat(StrEnum):
    """The formats of events that are records."""

    debezium_json = "debezium-json"
    debezium_avro = "debezium-avro"
    canal_json = "canal-json"
    maxwell_json = "maxwell-json"

    @classmethod
    def named(cls, name: str) -> ChangeFormat:
        """Give the format of a name.

        Raises:
            OptionError: there is none.
        """
        try:
            return cls(name)
        except ValueError:
            raise OptionError(
                f"{name!r} is no format of changes: use one of {', '.join(cls)}", value=name
            ) from None


class _Reader(Protocol):
    @property
    def target(self) -> Target: ...

    def read(self, texts: pa.Array) -> list[Changes]: ...


_READERS: Mapping[ChangeFormat, Callable[[Target, Handling], _Reader]] = {
    ChangeFormat.debezium_json: DebeziumJson,
    ChangeFormat.canal_json: canal_json,
    ChangeFormat.maxwell_json: maxwell_json,
}


@dataclass(frozen=True)
class Records:
    """Some records in their order.

    Args:
        texts: binary or text, one a record; null for a tombstone.
        source: where they are from, as an error says it, such as ``file 'a.json'``.
        first: the number of the first one.
        offsets: where each begins in its source, in bytes; None where that says nothing.
        unit: what a number counts.
        schema: Avro's, of records of a file; None: they bring theirs, or have none.
    """

    texts: pa.Array
    source: str
    first: int = 0
    offsets: Any = None
    unit: str = "record"
    schema: str | None = None

    def slice(self, start: int, stop: int) -> Records:
        """Take some of them."""
        return Records(
            self.texts.slice(start, stop - start),
            self.source,
            self.first + start,
            None if self.offsets is None else self.offsets[start:stop],
            self.unit,
            self.schema,
        )


@dataclass(frozen=True)
class BadRecord:
    """A record that cannot be read.

    Args:
        source: where it is from.
        number: which of the source's it is.
        offset: where it begins there, in bytes; None where that is not known.
        reason: what is wrong with it.
        record: what it is.
    """

    source: str
    number: int
    offset: int | None
    reason: str
    record: bytes
    unit: str = "record"

    def error(self) -> ChangeRecordError:
        """Make the error that names it."""
        start = self.record[:_SHOWN]
        shown = start.hex(" ") if b"\0" in start else start.decode("utf-8", "replace")
        more = "…" if len(self.record) > _SHOWN else ""
        where = "" if self.offset is None else f" (at byte {self.offset})"
        return ChangeRecordError(
            f"{self.source} {self.unit} {self.number}{where}: {self.reason}; it is {shown}{more}",
            source=self.source,
            record=self.number,
            offset=self.offset,
            reason=self.reason,
            text=shown,
        )


def stop(bad: BadRecord) -> None:
    """Raise the error of a bad record."""
    raise bad.error()


@dataclass
class Decoder:
    """Decodes records of one format, in the order in which they come.

    Args:
        target: the columns wanted; it grows by those that are added.
        new_columns: as `NewColumnsPolicy`.
        unavailable: as `UnavailablePolicy`.
        on_bad: takes each bad record, in order; raising ends the decoding.
        schemas: of Avro's messages.
    """

    format: ChangeFormat
    target: Target
    handling: Handling = field(default_factory=Handling)
    new_columns: NewColumnsPolicy = "refuse"
    unavailable: UnavailablePolicy = "refuse"
    on_bad: Callable[[BadRecord], None] = stop
    schemas: AvroSchemas = field(default_factory=AvroSchemas)

    def __post_init__(self) -> None:
        check_word("new_columns", self.new_columns, NewColumnsPolicy)
        check_word("unavailable", self.unavailable, UnavailablePolicy)
        self._reader = self._open()

    def _open(self) -> _Reader | DebeziumAvro:
        target = replace(self.target, passes_nulls=self.new_columns == "add")
        if self.format is ChangeFormat.debezium_avro:
            return DebeziumAvro(target, self.schemas)
        return _READERS[self.format](target, self.handling)

    def decode(self, records: Records) -> Changes:
        """Decode records; tombstones are passed over.

        Raises:
            ChangeRecordError: of the first bad record, where ``on_bad`` is `stop`.
            UnsupportedError: a column of the target is not read from this format.
        """
        while True:
            before = self.target
            parts = self._decoded(records)
            if self.target is before:
                return Changes.joined(parts, self.target)
            # Columns were found: all parts are to have them.

    def _decoded(self, records: Records) -> list[Changes]:
        count = len(records.texts)
        if not count:
            return []
        try:
            return self._read(records)
        except (InputError, pa.ArrowInvalid, UnsupportedError) as error:
            if count == 1:
                self.on_bad(_bad(records, error))
                return []
        middle = count // 2
        halves = records.slice(0, middle), records.slice(middle, count)
        return [part for half in halves for part in self._decoded(half)]

    def _read(self, records: Records) -> list[Changes]:
        """Read records, all or none.

        Raises:
            InputError, pa.ArrowInvalid, UnsupportedError: one is not as it must be.
        """
        is_avro = self.format is ChangeFormat.debezium_avro
        checked = (
            records.texts.drop_null().cast(pa.large_binary())
            if is_avro
            else checked_texts(_without_tombstones(records.texts))
        )
        while True:
            try:
                return [self._checked(part) for part in self._parts(checked, records.schema)]
            except NewColumns as found:
                if self.new_columns == "refuse":
                    names = ", ".join(map(repr, found.names))
                    raise InputError(
                        f"column {names} is not in the table: it has "
                        f"{', '.join(self.target.columns)}; add it, or say new_columns='add'",
                        columns=found.names,
                    ) from None
                self.target = self.target.extended(found.columns)
                self._reader = self._open()

    def _parts(self, records: pa.Array, schema: str | None) -> list[Changes]:
        if isinstance(self._reader, DebeziumAvro):
            return self._reader.read(records, schema)
        return self._reader.read(records)

    def _checked(self, part: Changes) -> Changes:
        if self.unavailable == "refuse" and part.unavailable:
            name = next(iter(part.unavailable))
            raise InputError(
                f"the event does not bring column {name!r}, which did not change: keep its value "
                "by pkray.cdc.upsert, or in a partial-update table, or give the source's table "
                "the replica identity FULL",
                column=name,
            )
        return Changes(part.rows, {}) if self.unavailable == "null" else part


def check_word(name: str, word: object, words: Any) -> None:
    """Check that an argument is one of some words.

    Raises:
        OptionError: it is not.
    """
    if word not in get_args(words):
        raise OptionError(
            f"{name} = {word!r} is none of {', '.join(get_args(words))}", key=name, value=word
        )


def _bad(records: Records, failure: Exception) -> BadRecord:
    text = records.texts[0].as_py()
    record = text.encode() if isinstance(text, str) else bytes(text)
    return BadRecord(
        records.source,
        records.first,
        None if records.offsets is None else int(records.offsets[0]),
        _reason(failure),
        record,
        records.unit,
    )


def _reason(failure: Exception) -> str:
    said = failure.message if isinstance(failure, InputError | UnsupportedError) else str(failure)
    return said.removeprefix("JSON parse error: ").removesuffix(" in row 0").rstrip(".")


_TOMBSTONE = constants.texts(["", "null"]).cast(pa.large_binary())
_LONGEST_TOMBSTONE = 8
"""Bytes of ``null`` and the ends of its line: a longer one is read as JSON, and refused."""


def _without_tombstones(texts: pa.Array) -> pa.Array:
    texts = texts.drop_null()
    short = pc.less_equal(pc.binary_length(texts), _LONGEST_TOMBSTONE)
    if not pc.any(short).as_py():
        return texts
    plain = texts.filter(short).cast(pa.large_string())
    plain = pc.ascii_trim_whitespace(plain).cast(pa.large_binary())
    is_tombstone = pc.is_in(plain, value_set=_TOMBSTONE)
    dropped = pc.replace_with_mask(pa.array(np.zeros(len(texts), bool)), short, is_tombstone)
    return texts.filter(pc.invert(dropped))


def decode(
    data: bytes | str | Sequence[bytes | str | None] | pa.Array | pa.ChunkedArray,
    *,
    format: str,
    schema: TableSchema | pa.Schema,
    metadata: Mapping[str, str] | None = None,
    decimal_handling_mode: str | None = None,
    time_precision_mode: str | None = None,
    binary_handling_mode: str | None = None,
    avro_schema: Given | None = None,
    new_columns: NewColumnsPolicy = "refuse",
    unavailable: Literal["refuse", "null"] = "refuse",
    missing: Missing = "error",
) -> pa.Table:
    """Decode records of changes into rows that ``writer.write(rows, "_row_kind")`` takes.

    Args:
        data: one record, or some: text or bytes; None is a tombstone.
        format: ``debezium-json``, ``debezium-avro``, ``canal-json`` or ``maxwell-json``.
        schema: the columns wanted, as `Table.schema` has them.
        metadata: columns that are members of the envelope, such as ``{"lsn": "source.lsn"}``.
        decimal_handling_mode: how decimals are written where events bring no schema: ``precise``,
            ``double`` or ``string``, as Debezium's option of this name.
        time_precision_mode: what numbers of times are there: ``adaptive``,
            ``adaptive_time_microseconds``, ``connect``, ``microseconds``, ``nanoseconds`` or
            ``isostring``.
        binary_handling_mode: ``base64`` (default), ``base64-url-safe`` or ``hex``.
        avro_schema: of ``debezium-avro``, whose messages begin with a zero byte and the id of their
            schema: JSON, or the path of a file that has it; or a mapping of ids to such. One schema
            alone is that of one id, whichever it is.
        new_columns: ``add`` gives rows the columns that events have and the schema lacks.
        unavailable: ``null`` gives a null for a value that did not change and that the event does
            not bring, as a partial-update table keeps it; ``refuse`` makes such an event bad.
        missing: ``null`` gives nulls where events lack columns.

    Returns:
        The columns, and ``_row_kind`` ('+I', '-U', '+U', '-D').

    Raises:
        ChangeRecordError: a record cannot be read; it names its number and the reason.
    """
    check_word("missing", missing, Missing)
    check_word("unavailable", unavailable, Literal["refuse", "null"])
    target = Target.from_schema(
        schema, metadata, may_lack=missing == "null" or new_columns == "add"
    )
    handling = Handling(decimal_handling_mode, time_precision_mode, binary_handling_mode)
    schemas = AvroSchemas.given(avro_schema)
    decoder = Decoder(
        ChangeFormat.named(format), target, handling, new_columns, unavailable, schemas=schemas
    )
    return decoder.decode(Records(_texts(data), "data")).rows


def _texts(data: object) -> pa.Array:
    if isinstance(data, bytes | str):
        data = [data]
    if isinstance(data, pa.ChunkedArray):
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if isinstance(data, Sequence):
        plain = [each.encode() if isinstance(each, str) else each for each in data]
        if all(each is None or isinstance(each, bytes) for each in plain):
            return pa.array(plain, pa.large_binary())
    elif isinstance(data, pa.Array) and _is_text(data.type):
        return data.cast(pa.large_binary())
    said = str(data.type) if isinstance(data, pa.Array) else type(data).__name__
    raise InputError(f"records are text or bytes, and these are {said}", type=said)


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
