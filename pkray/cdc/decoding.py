"""Records that a program has at hand, as Arrow for a writer."""

from collections.abc import Mapping, Sequence
from typing import Literal

import pyarrow as pa

from pkray.cdc.avro.schemas import AvroSchemas, Given
from pkray.cdc.decoder import ChangeFormat, Decoder, NewColumnsPolicy, Records, check_word
from pkray.cdc.readings import Handling
from pkray.cdc.row_changes import Target
from pkray.errors import InputError
from pkray.rows.input import Missing
from pkray.schema.table_schema import TableSchema


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
