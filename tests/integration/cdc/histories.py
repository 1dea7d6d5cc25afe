"""Random histories of a table in a database, and what its connectors write of them.

Written from the connectors' documentation, with the standard library, and fastavro for Avro:
nothing of `pkray.cdc` is used.
"""

import base64
import io
import json
import math
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1)
MARKER = "__debezium_unavailable_value"

TYPES = {
    "id": "BIGINT NOT NULL",
    "part": "STRING NOT NULL",
    "truth": "BOOLEAN",
    "tiny": "TINYINT",
    "small": "SMALLINT",
    "whole": "INT",
    "big": "BIGINT NOT NULL",
    "real": "FLOAT",
    "wide": "DOUBLE",
    "price": "DECIMAL(10, 2)",
    "exact": "DECIMAL(38, 10)",
    "code": "CHAR(3)",
    "name": "STRING",
    "raw": "BYTES",
    "day": "DATE",
    "clock": "TIME(3)",
    "millis": "TIMESTAMP(3)",
    "micros": "TIMESTAMP(6)",
    "zoned": "TIMESTAMP_LTZ(6)",
    "numbers": "ARRAY<INT>",
    "pair": "ROW<a INT, b STRING>",
}
KEYS = ("id", "part")

_context = Context(prec=60)
_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_floats = st.floats(width=32, allow_nan=False)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, _context))


_millis = _moments.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "truth": st.booleans(),
    "tiny": st.integers(-128, 127),
    "small": st.integers(-(2**15), 2**15 - 1),
    "whole": st.integers(-(2**31), 2**31 - 1),
    "big": st.integers(-(2**63), 2**63 - 1),
    "real": _floats,
    "wide": st.floats(allow_nan=False),
    "price": _decimals(10, 2),
    "exact": _decimals(38, 10),
    "code": st.text('abc é"\\', max_size=3),
    "name": _texts,
    "raw": st.binary(max_size=6),
    "day": st.dates(date(1900, 1, 1), date(2200, 1, 1)),
    "clock": st.integers(0, 86_399_999).map(lambda n: (EPOCH + timedelta(milliseconds=n)).time()),
    "millis": _millis,
    "micros": _moments,
    "zoned": _moments.map(lambda at: at.replace(tzinfo=UTC)),
    "numbers": st.lists(st.integers(-9, 9) | st.none(), max_size=3),
    "pair": st.fixed_dictionaries({"a": st.integers(-9, 9) | st.none(), "b": _texts | st.none()}),
}


@dataclass(frozen=True)
class Change:
    """One change of a row: ``c``, ``r``, ``u`` or ``d``, and its place in the log."""

    op: str
    before: Row | None
    after: Row | None
    lsn: int


@dataclass(frozen=True)
class History:
    """What happened to a table, and the rows that it has in the end."""

    changes: list[Change]
    content: list[Row]


@st.composite
def histories(draw: st.DrawFn, most: int = 12, *, finite: bool = False) -> History:
    """Inserts, updates and deletes of few keys; an update may change the key.

    Args:
        finite: whether no number is infinite.
    """
    chosen = draw(st.permutations(list(VALUES)))[: draw(st.integers(1, len(VALUES)))]
    of_columns = dict(VALUES)
    if finite:
        of_columns["real"] = st.floats(width=32, allow_nan=False, allow_infinity=False)
        of_columns["wide"] = st.floats(allow_nan=False, allow_infinity=False)
    values = st.fixed_dictionaries(
        {
            name: each if name == "big" else st.none() | each if name in chosen else st.none()
            for name, each in of_columns.items()
        }
    )
    keys = st.tuples(st.integers(0, 3), st.sampled_from(["a", "é"]))
    rows: dict[tuple[int, str], Row] = {}
    changes: list[Change] = []

    def put(op: str, before: Row | None, after: Row | None) -> None:
        changes.append(Change(op, before, after, 100 + 7 * len(changes)))

    for _ in range(draw(st.integers(0, most))):
        key = draw(keys)
        before = rows.get(key)
        if before is None:
            rows[key] = {"id": key[0], "part": key[1], **draw(values)}
            put(draw(st.sampled_from("cr")), None, rows[key])
        elif draw(st.integers(0, 3)) == 0:
            del rows[key]
            put("d", before, None)
        else:
            kept = draw(st.sets(st.sampled_from(list(VALUES))))
            changed = draw(values)
            moved = draw(keys)
            key_after = moved if moved not in rows and draw(st.booleans()) else key
            after = {**changed, **{name: before[name] for name in kept}}
            after = {"id": key_after[0], "part": key_after[1], **after}
            del rows[key]
            rows[key_after] = after
            put("u", before, after)
    return History(changes, list(rows.values()))


def delivered(draw: st.DrawFn, events: list[Any]) -> list[Any]:
    """Deliver events at least once: after a restart the stream goes on somewhat earlier."""
    if events and draw(st.booleans()):
        stopped = draw(st.integers(0, len(events)))
        return events[:stopped] + events[draw(st.integers(0, stopped)) :]
    return events


# --- Debezium -------------------------------------------------------------------------------------


def _micros(at: datetime) -> int:
    return (at.replace(tzinfo=None) - EPOCH) // timedelta(microseconds=1)


def _of_day(at: time) -> int:
    return (datetime.combine(EPOCH, at) - EPOCH) // timedelta(milliseconds=1)


def _unscaled(value: Decimal, scale: int) -> str:
    number = int(value.scaleb(scale, _context))
    size = max(1, (number.bit_length() + 8) // 8)
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def _number(value: float) -> Any:
    """As Jackson writes it: what JSON has no number for is text."""
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def debezium_value(name: str, value: Any, decimals: str) -> Any:
    """One value, with ``time.precision.mode`` adaptive."""
    if value is None:
        return None
    match name:
        case "real" | "wide":
            return _number(value)
        case "price" | "exact":
            scale = 2 if name == "price" else 10
            if decimals == "precise":
                return _unscaled(value, scale)
            return format(value, "f")
        case "raw":
            return base64.b64encode(value).decode()
        case "day":
            return (value - EPOCH.date()).days
        case "clock":
            return _of_day(value)
        case "millis":
            return _micros(value) // 1000
        case "micros":
            return _micros(value)
        case "zoned":
            return value.isoformat().replace("+00:00", "Z")
    return value


_LOGICAL = {
    "price": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "2", "connect.decimal.precision": "10"},
    },
    "exact": {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "version": 1,
        "parameters": {"scale": "10", "connect.decimal.precision": "38"},
    },
    "day": {"type": "int32", "name": "io.debezium.time.Date", "version": 1},
    "clock": {"type": "int32", "name": "io.debezium.time.Time", "version": 1},
    "millis": {"type": "int64", "name": "io.debezium.time.Timestamp", "version": 1},
    "micros": {"type": "int64", "name": "io.debezium.time.MicroTimestamp", "version": 1},
    "zoned": {"type": "string", "name": "io.debezium.time.ZonedTimestamp", "version": 1},
    "numbers": {"type": "array", "items": {"type": "int32", "optional": True}},
    "pair": {
        "type": "struct",
        "fields": [
            {"type": "int32", "optional": True, "field": "a"},
            {"type": "string", "optional": True, "field": "b"},
        ],
    },
}
_PLAIN = {
    "id": "int64",
    "truth": "boolean",
    "tiny": "int8",
    "small": "int16",
    "whole": "int32",
    "big": "int64",
    "real": "float",
    "wide": "double",
    "raw": "bytes",
}


def debezium_schema() -> dict[str, Any]:
    fields = [
        {
            **_LOGICAL.get(name, {"type": _PLAIN.get(name, "string")}),
            "optional": "NOT NULL" not in kind,
            "field": name,
        }
        for name, kind in TYPES.items()
    ]
    image = {"type": "struct", "fields": fields, "optional": True, "name": "s.public.t.Value"}
    source = {
        "type": "struct",
        "fields": [{"type": "int64", "optional": True, "field": "lsn"}],
        "optional": False,
        "name": "io.debezium.connector.postgresql.Source",
        "field": "source",
    }
    return {
        "type": "struct",
        "fields": [
            {**image, "field": "before"},
            {**image, "field": "after"},
            source,
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        "optional": False,
        "name": "s.public.t.Envelope",
        "version": 1,
    }


def _image(row: Row | None, decimals: str) -> Row | None:
    if row is None:
        return None
    return {name: debezium_value(name, row[name], decimals) for name in TYPES}


def debezium_event(op: str, before: Row | None, after: Row | None, change: Change) -> Row:
    return {
        "before": before,
        "after": after,
        "source": {
            "version": "3.6.3.Final",
            "connector": "postgresql",
            "ts_ms": 1_700_000_000_000 + change.lsn,
            "snapshot": "true" if op == "r" else "false",
            "txId": change.lsn // 20,
            "lsn": change.lsn,
            "xmin": None,
        },
        "op": op,
        "ts_ms": 1_700_000_000_001 + change.lsn,
        "transaction": None,
    }


@st.composite
def debezium_streams(
    draw: st.DrawFn, history: History, *, schema: bool, decimals: str, full: bool
) -> list[str | None]:
    """Records of a topic: events, tombstones and heartbeats, delivered at least once.

    Args:
        full: whether the replica identity is FULL; else images before have the key alone.
    """
    events: list[Row | None] = []

    def before_of(row: Row | None) -> Row | None:
        if row is None or full:
            return _image(row, decimals)
        # Of columns that are NOT NULL Debezium writes a default.
        return {name: row[name] if name in KEYS else 0 if name == "big" else None for name in TYPES}

    for change in history.changes:
        before, after = before_of(change.before), _image(change.after, decimals)
        moved = change.op == "u" and any(change.before[k] != change.after[k] for k in KEYS)
        if moved or change.op == "d":
            events.append(debezium_event("d", before, None, change))
            events.append(None)
            if moved:
                events.append(debezium_event("c", None, after, change))
        else:
            shown = before if full else None
            events.append(debezium_event(change.op, shown, after, change))
        if draw(st.integers(0, 7)) == 0:
            events.append({"ts_ms": 1_700_000_000_000})
    described = debezium_schema()
    space = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    ascii_only = draw(st.booleans())

    def text(event: Row | None) -> str | None:
        if event is not None and schema:
            heartbeat = {"type": "struct", "fields": [{"type": "int64", "field": "ts_ms"}]}
            event = {"schema": described if "op" in event else heartbeat, "payload": event}
        if event is None:
            return None
        return json.dumps(event, separators=space, ensure_ascii=ascii_only)

    return delivered(draw, [text(event) for event in events])


def debezium_avro_schema(name: str = "s.public.t") -> dict[str, Any]:
    """As Confluent's Avro converter writes it."""
    plain = {"int64": "long", "int32": "int", "int8": "int", "int16": "int"}

    def avro(connect: Row, field: str = "") -> Any:
        kind = connect["type"]
        if kind == "array":
            return {"type": "array", "items": ["null", avro(connect["items"])]}
        if kind == "struct":
            inner = [
                {"name": each["field"], "type": ["null", avro(each)], "default": None}
                for each in connect["fields"]
            ]
            return {"type": "record", "name": f"{field}_record", "fields": inner}
        found: Row = {"type": plain.get(kind, kind)}
        if kind in ("int8", "int16"):
            found["connect.type"] = kind
        if "name" in connect:
            found |= {"connect.name": connect["name"], "connect.version": 1}
        if "parameters" in connect:
            found["connect.parameters"] = connect["parameters"]
            found |= {"logicalType": "decimal", "scale": int(connect["parameters"]["scale"])}
            found["precision"] = int(connect["parameters"]["connect.decimal.precision"])
        if connect.get("name", "").endswith("time.Date"):
            found["logicalType"] = "date"
        return found

    columns = [
        {"name": each["field"], "type": ["null", avro(each, each["field"])], "default": None}
        if each["optional"]
        else {"name": each["field"], "type": avro(each, each["field"])}
        for each in debezium_schema()["fields"][0]["fields"]
    ]
    value = {"type": "record", "name": "Value", "fields": columns, "connect.name": f"{name}.Value"}
    source = {
        "type": "record",
        "name": "Source",
        "fields": [{"name": "lsn", "type": ["null", "long"], "default": None}],
    }
    return {
        "type": "record",
        "name": "Envelope",
        "namespace": name,
        "fields": [
            {"name": "before", "type": ["null", value], "default": None},
            {"name": "after", "type": ["null", "Value"], "default": None},
            {"name": "source", "type": source},
            {"name": "op", "type": "string"},
            {"name": "ts_ms", "type": ["null", "long"], "default": None},
        ],
        "connect.name": f"{name}.Envelope",
    }


def _avro_value(name: str, value: Any) -> Any:
    """Values as fastavro takes them: it makes bytes of decimals, and days of dates."""
    if value is None or name in ("real", "wide", "raw", "price", "exact", "day"):
        return value
    return debezium_value(name, value, "precise")


def avro_message(schema: Any, event: Row, header: bytes) -> bytes:
    out = io.BytesIO()
    out.write(header)
    fastavro.schemaless_writer(out, schema, event)
    return out.getvalue()


HEARTBEAT = {
    "type": "record",
    "name": "io.debezium.connector.common.Heartbeat",
    "fields": [{"name": "ts_ms", "type": "long"}],
}


@st.composite
def debezium_avro_events(draw: st.DrawFn, history: History, *, full: bool) -> list[Row | None]:
    """Events of a topic whose values are in Avro, and tombstones: each once.

    Args:
        full: as of `debezium_streams`.
    """

    def image(row: Row | None, whole: bool = True) -> Row | None:
        if row is None:
            return None
        if whole:
            return {name: _avro_value(name, row[name]) for name in TYPES}
        return {name: row[name] if name in KEYS else 0 if name == "big" else None for name in TYPES}

    events: list[Row | None] = []
    for change in history.changes:
        before, after = image(change.before, full), image(change.after)
        moved = change.op == "u" and any(change.before[k] != change.after[k] for k in KEYS)
        if moved or change.op == "d":
            events += [debezium_event("d", before, None, change), None]
            if moved:
                events.append(debezium_event("c", None, after, change))
            continue
        if change.op == "u" and change.before is not None and after is not None:
            for name, marker in (("name", MARKER), ("raw", MARKER.encode())):
                if change.before[name] == change.after[name] is not None and draw(st.booleans()):
                    after[name] = marker
        shown = before if full else None
        events.append(debezium_event(change.op, shown, after, change))
        if draw(st.integers(0, 7)) == 0:
            events.append({"ts_ms": 1_700_000_000_000})
    return events


@st.composite
def shortened(draw: st.DrawFn, history: History) -> list[str | None]:
    """Debezium's events, in which large values that did not change are left out."""
    marker = base64.b64encode(MARKER.encode()).decode()
    events: list[str | None] = []
    for change in history.changes:
        before, after = _image(change.before, "string"), _image(change.after, "string")
        moved = change.op == "u" and any(change.before[k] != change.after[k] for k in KEYS)
        if moved:
            events.append(json.dumps(debezium_event("d", before, None, change)))
            events.append(json.dumps(debezium_event("c", None, after, change)))
            continue
        if change.op == "u":
            for name, shown in (("name", MARKER), ("raw", marker)):
                same = change.before[name] == change.after[name] is not None
                if same and draw(st.booleans()):
                    after[name] = shown
            before = None
        events.append(json.dumps(debezium_event(change.op, before, after, change)))
    return events


# --- Maxwell and Canal ----------------------------------------------------------------------------

MYSQL = [name for name in TYPES if name not in ("zoned", "numbers", "pair")]
"""Columns that MySQL has, and of which its connectors' events say all."""


def _text_of_time(value: Any) -> str:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()


def maxwell_value(name: str, value: Any) -> Any:
    if value is None:
        return None
    match name:
        case "truth":
            return int(value)
        case "real" | "wide":
            return float(value)
        case "raw":
            return base64.b64encode(value).decode()
        case "day" | "clock" | "millis" | "micros":
            return _text_of_time(value)
    return value


def canal_value(name: str, value: Any) -> str | None:
    if value is None:
        return None
    match name:
        case "truth":
            return str(int(value))
        case "real" | "wide":
            return repr(value)
        case "price" | "exact":
            return format(value, "f")
        case "raw":
            return value.decode("latin-1")
        case "day" | "clock" | "millis" | "micros":
            return _text_of_time(value)
    return str(value)


def _json(value: Any) -> str:
    """JSON with decimals as numbers of all their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_json, value)) + "]"
    return format(value, "f") if isinstance(value, Decimal) else json.dumps(value)


def _old(change: Change) -> Row:
    assert change.before is not None
    assert change.after is not None
    return {n: change.before[n] for n in MYSQL if change.before[n] != change.after[n]}


@st.composite
def maxwell_streams(draw: st.DrawFn, history: History) -> list[str | None]:
    """Events as Maxwell writes them: floats are finite, as MySQL's are."""
    events = []
    for change in history.changes:
        row = change.after or change.before
        assert row is not None
        kind = {"c": "insert", "r": "bootstrap-insert", "u": "update", "d": "delete"}[change.op]
        event = {
            "database": "db",
            "table": "t",
            "type": kind,
            "ts": 1_477_053_217 + change.lsn,
            "xid": change.lsn,
            "commit": True,
            "primary_key": [row["id"], row["part"]],
            "data": {name: maxwell_value(name, row[name]) for name in MYSQL},
        }
        if change.op == "u":
            event["old"] = {n: maxwell_value(n, v) for n, v in _old(change).items()}
        events.append(_json(event))
        if draw(st.integers(0, 7)) == 0:
            events.append('{"database":"db","table":"t","type":"table-alter","ts":1}')
    return delivered(draw, events)


@st.composite
def canal_streams(draw: st.DrawFn, history: History) -> list[str | None]:
    """Events as Canal writes them: one may list several rows of one kind."""
    events: list[Row] = []
    for change in history.changes:
        row = change.after or change.before
        assert row is not None
        kind = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op]
        data = {name: canal_value(name, row[name]) for name in MYSQL}
        old = None
        if kind == "UPDATE":
            old = [{n: canal_value(n, v) for n, v in _old(change).items()}]
        if events and events[-1]["type"] == kind and draw(st.booleans()):
            events[-1]["data"].append(data)
            if old:
                events[-1]["old"].extend(old)
            continue
        if draw(st.integers(0, 7)) == 0:
            events.append({"data": None, "isDdl": True, "old": None, "type": "ALTER"})
        events.append({"data": [data], "es": 1, "isDdl": False, "old": old, "type": kind})
    return delivered(draw, [json.dumps(each) for each in events])


# --- Columns that change --------------------------------------------------------------------------

EVOLUTIONS = ("renamed", "dropped", "widened")
"""What becomes of one of the source's columns in the middle of a history."""
OLD, NEW = "whole", "total"
DROPPED = "code"
WIDENED, WIDER = "small", "BIGINT"
BEYOND = 1 << 40
"""Is added to what is written to a column that was widened."""


def evolved(record: str | None, evolution: str, lsn: int) -> str | None:
    """Give one of Debezium's records as it is after a column has changed at a place in the log."""
    event = None if record is None else json.loads(record)
    whole = event and event.get("payload", event)
    if not whole or "op" not in whole or whole["source"]["lsn"] < lsn:
        return record
    for image in (whole["before"], whole["after"]):
        if image is not None:
            _evolve(image, evolution)
    for part in event.get("schema", {}).get("fields", [])[:2]:
        fields = {field["field"]: field for field in part["fields"]}
        if evolution == "renamed":
            fields[OLD]["field"] = NEW
        elif evolution == "widened":
            fields[WIDENED]["type"] = "int64"
        else:
            part["fields"].remove(fields[DROPPED])
    return json.dumps(event)


def _evolve(image: Row, evolution: str) -> None:
    if evolution == "renamed":
        if OLD in image:
            image[NEW] = image.pop(OLD)
    elif evolution == "dropped":
        image.pop(DROPPED, None)
    elif image.get(WIDENED) is not None:
        image[WIDENED] += BEYOND


def evolved_content(history: History, evolution: str, lsn: int) -> list[Row]:
    """Give the rows as their last events say them; what was renamed has its old name."""
    rows: dict[tuple[Any, ...], Row] = {}
    for change in history.changes:
        if change.before is not None:
            del rows[tuple(change.before[name] for name in KEYS)]
        if change.after is not None:
            row = dict(change.after)
            if change.lsn >= lsn and evolution != "renamed":
                _evolve(row, evolution)
            rows[tuple(row[name] for name in KEYS)] = row
    return [{DROPPED: None, **row} for row in rows.values()]


def folded(rows: list[Row]) -> list[Row]:
    """Give a table's rows with what was renamed under its old name: events bring one of the two."""
    found = []
    for row in rows:
        new, old = row.pop(NEW, None), row.get(OLD)
        assert None in (new, old)
        found.append({**row, OLD: old if new is None else new})
    return found
