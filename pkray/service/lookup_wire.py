"""Lookups as bytes: a call to an actor costs by the objects it carries, and one is enough."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pyarrow as pa

from pkray.service.protocol import Slice, Visibility

Request = tuple[pa.RecordBatch, Sequence[Slice], Visibility, Sequence[str], int | None, int | None]
Answer = tuple[np.ndarray, pa.Table, int]


class _Request(msgspec.Struct, array_like=True):
    keys: bytes
    slices: list[Slice]
    visibility: Visibility
    columns: list[str]
    snapshot_id: int | None
    schema_id: int | None


class _Answer(msgspec.Struct, array_like=True):
    positions: bytes
    rows: bytes
    snapshot_id: int


_requests = msgspec.msgpack.Decoder(_Request)
_answers = msgspec.msgpack.Decoder(_Answer)


def encode_request(
    keys: pa.RecordBatch,
    slices: Sequence[Slice],
    visibility: Visibility,
    columns: Sequence[str],
    snapshot_id: int | None = None,
    schema_id: int | None = None,
) -> bytes:
    request = _Request(
        _to_bytes(pa.Table.from_batches([keys])),
        list(slices),
        visibility,
        list(columns),
        snapshot_id,
        schema_id,
    )
    return msgspec.msgpack.encode(request)


def decode_request(data: bytes) -> Request:
    request = _requests.decode(data)
    (keys,) = _to_table(request.keys).to_batches()
    return (
        keys,
        request.slices,
        request.visibility,
        request.columns,
        request.snapshot_id,
        request.schema_id,
    )


def encode_answer(positions: np.ndarray, rows: pa.Table, snapshot_id: int) -> bytes:
    answer = _Answer(positions.astype(np.int64).tobytes(), _to_bytes(rows), snapshot_id)
    return msgspec.msgpack.encode(answer)


def decode_answer(data: bytes) -> Answer:
    answer = _answers.decode(data)
    return np.frombuffer(answer.positions, np.int64), _to_table(answer.rows), answer.snapshot_id


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _to_table(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
