"""Lookups as bytes: a call to an actor costs by the objects it carries, and one is enough."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from pkray.service.protocol import Lookup, LookupAnswer


def encode_request(asked: Lookup) -> bytes:
    """Encode what an owner is asked as bytes."""
    return _encoder.encode(asked)


def decode_request(data: bytes) -> Lookup:
    """Decode what an owner is asked."""
    return _requests.decode(data)


def encode_answer(positions: np.ndarray, rows: pa.Table, snapshot_id: int) -> bytes:
    """Encode an owner's answer as bytes; ``positions``: int64, of each row, in the keys asked."""
    return _encoder.encode((positions, rows, snapshot_id))


def decode_answer(data: bytes) -> LookupAnswer:
    """Decode an owner's answer: positions, rows and the snapshot."""
    return _answers.decode(data)


def _to_bytes(value: Any) -> bytes:
    if isinstance(value, np.ndarray):
        return value.astype(np.int64).tobytes()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as writer:
        writer.write(value)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _from_bytes(kind: type, data: bytes) -> Any:
    if kind is np.ndarray:
        return np.frombuffer(data, np.int64)
    rows = pa.ipc.open_stream(data)
    return rows.read_next_batch() if kind is pa.RecordBatch else rows.read_all()


_encoder = msgspec.msgpack.Encoder(enc_hook=_to_bytes)
_requests = msgspec.msgpack.Decoder(Lookup, dec_hook=_from_bytes)
_answers = msgspec.msgpack.Decoder(LookupAnswer, dec_hook=_from_bytes)
