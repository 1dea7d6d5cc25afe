"""Random histories of a table in a database, and what its connectors write of them.

Written from the connectors' documentation, with the standard library, and fastavro for Avro:
nothing of `pkray.cdc` is used.
"""

import base64
import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any, TypeVar

import fastavro
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

import pkray
from tests.effort import examples

Row = dict[str, Any]
T = TypeVar("T")
EPOCH = datetime(1970, 1, 1)
MARKER = "__debezium_unavailable_value"

KEYS = ("id", "part")

EVOLUTIONS = ("added", "renamed", "widened", "dropped")
"""What becomes of one of the source's columns in the middle of a history."""
OLD, NEW = "whole", "total"
DROPPED = "code"
WIDENED, WIDER = "small", "BIGINT"

_context = Context(prec=60)
_texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_moments = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1))
_floats = st.floats(width=32, allow_nan=False)


def _decimals(digits: int, scale: int) -> st.SearchStrategy[Decimal]:
    most = 10**digits - 1
    return st.integers(-most, most).map(lambda n: Decimal(n).scaleb(-scale, _context))


_millis = _moments.map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
_COLUMNS: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "truth": ("BOOLEAN", st.booleans()),
    "tiny": ("TINYINT", st.integers(-128, 127)),
    "small": ("SMALLINT", st.integers(-(2**15), 2**15 - 1)),
    "whole": ("INT", st.integers(-(2**31), 2**31 - 1)),
    "big": ("BIGINT NOT NULL", st.integers(-(2**63), 2**63 - 1)),
    "real": ("FLOAT", _floats),
    "wide": ("DOUBLE", st.floats(allow_nan=False)),
    "price": ("DECIMAL(10, 2)", _decimals(10, 2)),
    "exact": ("DECIMAL(38, 10)", _decimals(38, 10)),
    "code": ("CHAR(3)", st.text('abc é"\\', max_size=3)),
    "name": ("STRING", _texts),
    "raw": ("BYTES", st.binary(max_size=6)),
    "day": ("DATE", st.dates(date(1900, 1, 1), date(2200, 1, 1))),
    "clock": (
        "TIME(3)",
        st.integers(0, 86_399_999).map(lambda n: (EPOCH + timedelta(milliseconds=n)).time()),
    ),
    "millis": ("TIMESTAMP(3)", _millis),
    "micros": ("TIMESTAMP(6)", _moments),
    "zoned": ("TIMESTAMP_LTZ(6)", _moments.map(lambda at: at.replace(tzinfo=UTC))),
    "numbers": ("ARRAY<INT>", st.lists(st.integers(-9, 9) | st.none(), max_size=3)),
    "pair": (
        "ROW<a INT, b STRING>",
        st.fixed_dictionaries({"a": st.integers(-9, 9) | st.none(), "b": _texts | st.none()}),
    ),
}
VALUES = {name: values for name, (_, values) in _COLUMNS.items()}
TYPES = {
    "id": "BIGINT NOT NULL",
    "part": "STRING NOT NULL",
    **{name: kind for name, (kind, _) in _COLUMNS.items()},
}


@dataclass(frozen=True)
class Change:
    """One change of a row: ``c``, ``r``, ``u`` or ``d``, and its place in the log."""

    op: str
    before: Row | None
    after: Row | None
    lsn: int

    @property
    def has_moved(self) -> bool:
        """Whether it is an update that changes the key."""
        if self.before is None or self.after is None:
            return False
        return any(self.before[name] != self.after[name] for name in KEYS)


@dataclass(frozen=True)
class History:
    """What happened to a table, and the rows that it has in the end.

    Args:
        content: each row as the last event of it says it, whatever becomes of columns later.
        columns: types by name.
    """

    changes: list[Change]
    content: list[Row]
    columns: dict[str, str] = field(default_factory=lambda: TYPES)


@dataclass(frozen=True)
class Evolving:
    """A history in whose middle one of the columns changes.

    Args:
        before, after: the parts of the history, ``after`` with the content of all of it.
    """

    evolution: str
    before: History
    after: History


@st.composite
def histories(draw: st.DrawFn, most: int = 12, *, finite: bool = False) -> History:
    """Inserts, updates and deletes of few keys; an update may change the key.

    Args:
        finite: whether no number is infinite.
    """
    source = _Source(draw, finite)
    source.go_on(most)
    return source.history()


@st.composite
def evolving_histories(
    draw: st.DrawFn, most: int = 8, *, finite: bool = False, evolution: str | None = None
) -> Evolving:
    """As `histories`, with a column that changes in the middle.

    Args:
        evolution: what becomes of it; default any.
    """
    source = _Source(draw, finite)
    source.go_on(most)
    before = source.history()
    evolution = evolution or draw(st.sampled_from(EVOLUTIONS))
    source.alter(evolution)
    source.go_on(most)
    return Evolving(evolution, before, source.history())


class _Source:
    """A table to which something happens by chance."""

    def __init__(self, draw: st.DrawFn, finite: bool) -> None:
        self._draw = draw
        self._values = dict(VALUES)
        if finite:
            self._values["real"] = st.floats(width=32, allow_nan=False, allow_infinity=False)
            self._values["wide"] = st.floats(allow_nan=False, allow_infinity=False)
        self._columns = dict(TYPES)
        self._chosen = {*draw(st.permutations(list(VALUES)))[: draw(st.integers(1, len(VALUES)))]}
        self._rows: dict[tuple[int, str], Row] = {}
        self._told: dict[tuple[int, str], Row] = {}
        self._changes: list[Change] = []
        self._lsn = 100

    def history(self) -> History:
        """Give what happened since the last time."""
        changes, self._changes = self._changes, []
        return History(changes, list(self._told.values()), dict(self._columns))

    def alter(self, evolution: str) -> None:
        if evolution == "widened":
            self._columns[WIDENED], self._values[WIDENED] = WIDER, st.integers(-(2**62), 2**62)
        elif evolution == "dropped":
            del self._columns[DROPPED], self._values[DROPPED]
        else:
            take = dict.pop if evolution == "renamed" else dict.__getitem__
            self._columns[NEW], self._values[NEW] = (
                take(self._columns, OLD),
                take(self._values, OLD),
            )
        self._chosen.add(NEW)
        self._rows = {key: altered(row, evolution) for key, row in self._rows.items()}

    def go_on(self, most: int) -> None:
        draw = self._draw
        values = st.fixed_dictionaries({name: self._values_of(name) for name in self._values})
        keys = st.tuples(st.integers(0, 3), st.sampled_from(["a", "é"]))
        for _ in range(draw(st.integers(0, most))):
            key = draw(keys)
            before = self._rows.get(key)
            if before is None:
                self._put(draw(st.sampled_from("cr")), None, _row(key, draw(values)))
            elif draw(st.integers(0, 3)) == 0:
                self._put("d", before, None)
            else:
                kept = draw(st.sets(st.sampled_from(list(self._values))))
                moved = draw(keys)
                key_after = moved if moved not in self._rows and draw(st.booleans()) else key
                changed = {**draw(values), **{name: before[name] for name in kept}}
                self._put("u", before, _row(key_after, changed))

    def _values_of(self, name: str) -> st.SearchStrategy[Any]:
        if name == "big":  # it is NOT NULL
            return self._values[name]
        return st.none() | self._values[name] if name in self._chosen else st.none()

    def _put(self, op: str, before: Row | None, after: Row | None) -> None:
        self._changes.append(Change(op, before, after, self._lsn))
        self._lsn += 7
        for rows in (self._rows, self._told):
            if before is not None:
                del rows[before["id"], before["part"]]
            if after is not None:
                rows[after["id"], after["part"]] = after


def altered(row: Row, evolution: str) -> Row:
    """Give a row that was there as it is once the column has changed."""
    row = dict(row)
    if evolution == "dropped":
        del row[DROPPED]
    elif evolution != "widened":
        row[NEW] = row.pop(OLD) if evolution == "renamed" else None
    return row


def alter(table: pkray.Table, evolution: str) -> None:
    """Change the column of a table."""
    if evolution == "added":
        table.alter.add_column(NEW, TYPES[OLD])
    elif evolution == "renamed":
        table.alter.rename_column(OLD, NEW)
    elif evolution == "dropped":
        table.alter.drop_column(DROPPED)
    else:
        table.alter.change_type(WIDENED, WIDER)


def by_chance(strategy: st.SearchStrategy[T], few: int, number: int) -> list[T]:
    """Give ``few`` examples, or more as the effort says, the same ones for a number."""
    found: list[T] = []

    @seed(number)
    @settings(max_examples=examples(few), phases=[Phase.generate], database=None, deadline=None)
    @given(example=strategy)
    def take(example: T) -> None:
        found.append(example)

    take()
    return found


def _row(key: tuple[int, str], values: Row) -> Row:
    return {"id": key[0], "part": key[1], **values}


def folded(rows: list[Row], evolution: str) -> list[Row]:
    """Give rows in the order of their keys, all with the same columns: of what was renamed, events
    bring the one name or the other, and of some formats they say no type."""
    found = []
    for row in rows:
        new, old = row.get(NEW), row.get(OLD)
        new = None if new is None else int(new)
        is_renamed = evolution == "renamed"
        assert not is_renamed or None in (new, old)
        both = {OLD: old if new is None else new} if is_renamed else {OLD: old, NEW: new}
        found.append({DROPPED: None, **row, NEW: None, **both})
    return sorted(found, key=lambda row: tuple(row[name] for name in KEYS))


def delivered(draw: st.DrawFn, events: list[Any]) -> list[Any]:
    """Deliver events at least once: after a restart the stream goes on somewhat earlier."""
    if events and draw(st.booleans()):
        stopped = draw(st.integers(0, len(events)))
        return events[:stopped] + events[draw(st.integers(0, stopped)) :]
    return events


@st.composite
def evolving_streams(
    draw: st.DrawFn, history: Evolving, stream: Callable[[History], st.SearchStrategy[list[Any]]]
) -> tuple[list[Any], list[Any]]:
    """Give the records of both parts of a history, each delivered at least once; before the first
    of the second part may come some of the first again.

    Args:
        stream: gives records of a history.
    """
    before, after = draw(stream(history.before)), draw(stream(history.after))
    again = before[draw(st.integers(0, len(before))) :]
    return delivered(draw, before), delivered(draw, again + after)


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


_DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "version": 1}
_LOGICAL = {
    "price": _DECIMAL | {"parameters": {"scale": "2", "connect.decimal.precision": "10"}},
    "exact": _DECIMAL | {"parameters": {"scale": "10", "connect.decimal.precision": "38"}},
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
    "BOOLEAN": "boolean",
    "TINYINT": "int8",
    "SMALLINT": "int16",
    "INT": "int32",
    "BIGINT": "int64",
    "FLOAT": "float",
    "DOUBLE": "double",
    "BYTES": "bytes",
}


def debezium_schema(columns: dict[str, str]) -> dict[str, Any]:
    fields = [
        {
            **_LOGICAL.get(name, {"type": _PLAIN.get(kind.split()[0], "string")}),
            "optional": "NOT NULL" not in kind,
            "field": name,
        }
        for name, kind in columns.items()
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
    return row and {name: debezium_value(name, value, decimals) for name, value in row.items()}


def _key_alone(row: Row | None) -> Row | None:
    """Of columns that are NOT NULL Debezium writes a default."""
    defaults = {"big": 0}
    return row and {name: row[name] if name in KEYS else defaults.get(name) for name in row}


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


def _debezium_events(
    draw: st.DrawFn,
    history: History,
    images: Callable[[Change], tuple[Row | None, Row | None]],
    full: bool,
) -> list[Row | None]:
    """Give events, tombstones and heartbeats.

    Args:
        images: gives the rows of a change as events show them.
    """
    events: list[Row | None] = []
    for change in history.changes:
        before, after = images(change)
        if change.has_moved or change.op == "d":
            events += [debezium_event("d", before, None, change), None]
            if change.has_moved:
                events.append(debezium_event("c", None, after, change))
        else:
            shown = before if full else None
            events.append(debezium_event(change.op, shown, after, change))
        if draw(st.integers(0, 7)) == 0:
            events.append({"ts_ms": 1_700_000_000_000})
    return events


@st.composite
def debezium_streams(
    draw: st.DrawFn, history: History, *, schema: bool, decimals: str, full: bool
) -> list[str | None]:
    """Records of a topic: events, tombstones and heartbeats.

    Args:
        full: whether the replica identity is FULL; else images before have the key alone.
    """

    def images(change: Change) -> tuple[Row | None, Row | None]:
        before = change.before if full else _key_alone(change.before)
        return _image(before, decimals), _image(change.after, decimals)

    events = _debezium_events(draw, history, images, full)
    described = debezium_schema(history.columns)
    space = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    ascii_only = draw(st.booleans())

    def text(event: Row | None) -> str | None:
        if event is not None and schema:
            heartbeat = {"type": "struct", "fields": [{"type": "int64", "field": "ts_ms"}]}
            event = {"schema": described if "op" in event else heartbeat, "payload": event}
        if event is None:
            return None
        return json.dumps(event, separators=space, ensure_ascii=ascii_only)

    return [text(event) for event in events]


def debezium_avro_schema(columns: dict[str, str], name: str = "s.public.t") -> dict[str, Any]:
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
        for each in debezium_schema(columns)["fields"][0]["fields"]
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

    def image(row: Row | None) -> Row | None:
        return row and {name: _avro_value(name, value) for name, value in row.items()}

    def images(change: Change) -> tuple[Row | None, Row | None]:
        after = image(change.after)
        if not change.has_moved:
            _leave_out(draw, change, after, {"name": MARKER, "raw": MARKER.encode()})
        return image(change.before) if full else _key_alone(change.before), after

    return _debezium_events(draw, history, images, full)


def _leave_out(draw: st.DrawFn, change: Change, after: Row | None, markers: Row) -> None:
    """Say of some large values of an update, which did not change, that they are left out."""
    if change.before is None or after is None:
        return
    for name, marker in markers.items():
        if change.before[name] == change.after[name] is not None and draw(st.booleans()):
            after[name] = marker


@st.composite
def shortened(draw: st.DrawFn, history: History) -> list[str | None]:
    """Debezium's events, in which large values that did not change are left out."""
    markers = {"name": MARKER, "raw": base64.b64encode(MARKER.encode()).decode()}
    events: list[str | None] = []
    for change in history.changes:
        before, after = _image(change.before, "string"), _image(change.after, "string")
        if change.has_moved:
            events.append(json.dumps(debezium_event("d", before, None, change)))
            events.append(json.dumps(debezium_event("c", None, after, change)))
            continue
        if change.op == "u":
            _leave_out(draw, change, after, markers)
            before = None
        events.append(json.dumps(debezium_event(change.op, before, after, change)))
    return events


# --- Maxwell and Canal ----------------------------------------------------------------------------

_NOT_MYSQL = ("zoned", "numbers", "pair")
MYSQL = [name for name in TYPES if name not in _NOT_MYSQL]
"""Columns that MySQL has, and of which its connectors' events say all."""


def of_mysql(row: Row) -> Row:
    """Give what MySQL has of a row."""
    return {name: value for name, value in row.items() if name not in _NOT_MYSQL}


def _text_of_time(value: Any) -> str:
    return value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat()


def maxwell_value(name: str, value: Any) -> Any:
    match name:
        case _ if value is None:
            return None
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
    match name:
        case _ if value is None:
            return None
        case "truth":
            return str(int(value))
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
    before, after = of_mysql(change.before), change.after
    return {name: value for name, value in before.items() if value != after[name]}


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
            "data": {n: maxwell_value(n, v) for n, v in of_mysql(row).items()},
        }
        if change.op == "u":
            event["old"] = {n: maxwell_value(n, v) for n, v in _old(change).items()}
        events.append(_json(event))
        if draw(st.integers(0, 7)) == 0:
            events.append('{"database":"db","table":"t","type":"table-alter","ts":1}')
    return events


@st.composite
def canal_streams(draw: st.DrawFn, history: History) -> list[str | None]:
    """Events as Canal writes them: one may list several rows of one kind."""
    events: list[Row] = []
    for change in history.changes:
        row = change.after or change.before
        assert row is not None
        kind = {"c": "INSERT", "r": "INSERT", "u": "UPDATE", "d": "DELETE"}[change.op]
        data = {n: canal_value(n, v) for n, v in of_mysql(row).items()}
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
    return [json.dumps(each) for each in events]
