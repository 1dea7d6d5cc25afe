"""One recorded query."""

import json
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import pkray
from pkray.relational import Changelog
from pkray.schema.types import DataType


@dataclass(frozen=True)
class Case:
    """One recorded query, as its JSON file holds it."""

    name: str
    said: dict[str, Any]

    @classmethod
    def read(cls, path: Path) -> "Case":
        said = json.loads(path.read_text())
        return cls(said["name"], said)

    @property
    def sql(self) -> str:
        return str(self.said["sql"])

    def open(self, catalog: pkray.Catalog) -> None:
        """Register the input tables, with all their events, and the views."""
        for name, source in self.register(catalog).items():
            events = [event for event in self.said["events"] if event[0] == name]
            if events:
                source.push(_batch(self._columns(name), events))
            source.finish()

    def register(self, catalog: pkray.Catalog) -> dict[str, Changelog]:
        """Register the input tables, without events, and the views."""
        for key, value in self.said.get("config", {}).items():
            catalog.sql(f"SET '{key}' = '{value}'", dialect="flink")
        tables = self.said["tables"].items()
        sources = {name: self._registered(catalog, name, table) for name, table in tables}
        for statement in self.said.get("setup", ()):
            catalog.sql(statement, dialect="flink")
        return sources

    def push(self, source: Changelog, event: list[Any]) -> None:
        """Push one event to its input table."""
        source.push(_batch(self._columns(event[0]), [event]))

    def _columns(self, name: str) -> list[tuple[str, DataType]]:
        columns = self.said["tables"][name]["columns"]
        return [(column, DataType.parse(kind)) for column, kind in columns]

    def _registered(self, catalog: pkray.Catalog, name: str, table: dict[str, Any]) -> Changelog:
        columns = self._columns(name)
        source = pkray.relational.changelog(
            {column: str(kind) for column, kind in columns},
            primary_key=table.get("primary_key"),
            mode=table.get("mode") or "all",
            watermark=table.get("watermark"),
        )
        computed = table.get("computed", ())
        relation = source.with_columns(**dict(computed)) if computed else source
        catalog.create_view(name, relation, temporary=True)
        return source

    def final(self) -> list[tuple[str, ...]]:
        """List the rows that are expected, as text."""
        kinds = [DataType.parse(_plain(kind)) for _, kind in self.said["columns"]]
        return sorted(
            tuple(_text(_value(value, kind), kind) for value, kind in zip(row, kinds, strict=True))
            for row in self.said["final"]
        )

    def changelog(self) -> list[tuple[str, tuple[str, ...]]]:
        """List the changes that are expected, as kinds and text."""
        kinds = [DataType.parse(_plain(kind)) for _, kind in self.said["columns"]]
        return [
            (said, tuple(_text(_value(v, kind), kind) for v, kind in zip(row, kinds, strict=True)))
            for said, row in self.said["changelog"]
        ]

    def rows(self, result: pa.Table) -> list[tuple[str, ...]]:
        """List the rows of a result, as text, sorted."""
        return sorted(self.texts(result))

    def texts(self, result: pa.Table) -> list[tuple[str, ...]]:
        """List the rows of a result, as text, in their order."""
        kinds = [DataType.parse(_plain(kind)) for _, kind in self.said["columns"]]
        columns = [
            [_text(value, kind) for value in column.to_pylist()]
            for column, kind in zip(result.columns, kinds, strict=True)
        ]
        return list(zip(*columns, strict=True))

    def types(self) -> list[str]:
        """List the columns and types that are expected."""
        return [f"{name} {DataType.parse(_plain(kind))}" for name, kind in self.said["columns"]]


def _plain(kind: str) -> str:
    return kind.replace(" *ROWTIME*", "").replace(" *PROCTIME*", "")


def _batch(columns: list[tuple[str, DataType]], events: list[Any]) -> pa.Table:
    arrays = {"_row_kind": pa.array([event[1] for event in events])}
    for index, (name, kind) in enumerate(columns):
        values = [_value(event[2][index], kind) for event in events]
        arrays[name] = pa.array(values, kind.arrow)
    return pa.table(arrays)


def _value(value: Any, kind: DataType) -> Any:
    if value is None:
        return None
    match kind.root:
        case "DECIMAL":
            return Decimal(str(value)).quantize(Decimal(1).scaleb(-(kind.scale or 0)))
        case "FLOAT" | "DOUBLE":
            return float(value)
        case "DATE":
            return date.fromisoformat(value)
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            return datetime.fromisoformat(value)
    return value


def _text(value: Any, kind: DataType) -> str:
    """Write a value so that equal ones, and NaNs, are equal texts."""
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.replace(tzinfo=None).isoformat(" ", "microseconds")
    if kind.root in ("FLOAT", "DOUBLE"):
        return f"{value:.12g}"  # sums that took rows back have other last digits
    return str(value)
