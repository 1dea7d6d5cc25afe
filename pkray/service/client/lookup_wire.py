"""Lookups as bytes: a call to an actor costs by the objects it carries, and one is enough."""

from __future__ import annotations

import msgspec
import numpy as np
import pyarrow as pa

from pkray.service.protocol import Holding, Lookup, LookupAnswer, Slice, Visibility


class _Request(msgspec.Struct, array_like=True):
    keys: bytes
    slices: list[Slice]
    visibility: Visibility
    columns: list[str]
    snapshot_id: int | None
    schema_id: int | None
    schema_digest: str | None
    by_prefix: bool
    expected: tuple[Holding, ...]


class _Answer(msgspec.Struct, array_like=True):
    positions: bytes
    rows: bytes
    snapshot_id: int


_requests = msgspec.msgpack.Decoder(_Request)
_answers = msgspec.msgpack.Decoder(_Answer)


def encode_request(asked: Lookup) -> bytes:
    """Encode what an owner is asked as bytes."""
    request = _Request(
        _to_bytes(pa.Table.from_batches([asked.keys])),
        list(asked.slices),
        asked.visibility,
        list(asked.columns),
        asked.snapshot_id,
        asked.schema_id,
        asked.schema_digest,
        asked.by_prefix,
        tuple(asked.expected),
    )
    return msgspec.msgpack.encode(request)


def decode_request(data: bytes) -> Lookup:
    """Decode what an owner is asked."""
    request = _requests.decode(data)
    (keys,) = _to_table(request.keys).to_batches()
    return Lookup(
        keys,
        request.slices,
        request.visibility,
        request.columns,
        request.snapshot_id,
        request.schema_id,
        request.schema_digest,
        request.by_prefix,
        request.expected,
    )


def encode_answer(positions: np.ndarray, rows: pa.Table, snapshot_id: int) -> bytes:
    """Encode an owner's answer as bytes; ``positions``: int64, of each row, in the keys asked."""
    answer = _Answer(positions.astype(np.int64).tobytes(), _to_bytes(rows), snapshot_id)
    return msgspec.msgpack.encode(answer)


def decode_answer(data: bytes) -> LookupAnswer:
    """Decode an owner's answer: positions, rows and the snapshot."""
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
