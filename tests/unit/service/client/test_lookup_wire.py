import numpy as np
import pyarrow as pa

from pkray.service.client.lookup_wire import (
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
)
from pkray.service.protocol import Holding, Lookup, SessionId, Slice

KEYS = pa.record_batch({"id": pa.array([3, 1], pa.int64()), "s": ["é", ""]})


def test_a_request_comes_through():
    how = ("committed", ["id", "s"], 7, 3, "00ff")
    expected = (Holding(SessionId("job", 4, 1), 3, "t"),)
    sent = Lookup(KEYS, [Slice(b"\x00p", 2, 0, 2)], *how, True, expected, 5000)
    assert decode_request(encode_request(sent)) == sent


def test_an_answer_comes_through():
    rows = pa.table({"s": ["a", None], "ts": pa.array([1, 2], pa.timestamp("ns", "UTC"))})
    positions, received, snapshot = decode_answer(encode_answer(np.array([1, 0]), rows, 9))
    assert positions.tolist() == [1, 0]
    assert received.equals(rows)
    assert snapshot == 9


def test_an_empty_answer_keeps_its_schema():
    empty = pa.schema([("s", pa.string())]).empty_table()
    positions, received, _ = decode_answer(encode_answer(np.empty(0, np.int64), empty, 1))
    assert len(positions) == 0
    assert received.schema == empty.schema
