"""Streams of rows with event times, and the same rows without the late ones to compare with."""

import random
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from pkray.relational import changelog, query
from tests.unit.relational.continuous.histories import Continuous, rows_of

BEGIN = datetime(1969, 12, 31, 23, 59)
"""The times of streams go from before 1970 to after it."""
DELAY = timedelta(seconds=5)
MILLI = timedelta(milliseconds=1)
Fields = Callable[[random.Random], dict[str, Any]]


def at(seconds: float) -> datetime:
    """Give a time of a stream."""
    return BEGIN + timedelta(seconds=seconds)


class EventTimes:
    """A query over streams whose rows come out of order, and a model of what is not late.

    The model is the same query, bounded, over views of the same names, which hold the rows that
    were not late when they came. Rows carry in ``met`` the watermark that they met.

    Args:
        sql: the query; its streams are called by name.
        model: the bounded query; by default the same.
        streams: of each stream, the columns beside ``at`` and ``met``, and what makes them.
        late: whether a row is late under a watermark.
        arguments: of `Continuous`.
    """

    def __init__(
        self,
        rng: random.Random,
        sql: str,
        streams: Mapping[str, tuple[Mapping[str, str], Fields]],
        late: Callable[[str, datetime, datetime], bool],
        *,
        model: str | None = None,
        updating: bool = False,
        **arguments: Any,
    ) -> None:
        self._rng = rng
        self._makes = {name: make for name, (_, make) in streams.items()}
        self._late = late
        self._updating = updating
        self._models = {name: self._source(name, columns) for name, (columns, _) in streams.items()}
        sources = {name: self._source(name, columns) for name, (columns, _) in streams.items()}
        self.run = Continuous(query(sql, **sources), sources, **arguments)
        self._bounded = query(model or sql, **self._models)
        self._now = dict.fromkeys(streams, 0.0)
        self._watermarks: dict[str, datetime | None] = dict.fromkeys(streams)
        self._there: dict[str, list[dict[str, Any]]] = {name: [] for name in streams}
        self.late = 0

    def _source(self, name: str, columns: Mapping[str, str]) -> Any:
        whole = {**columns, "at": "TIMESTAMP(3)", "met": "TIMESTAMP(3)"}
        return changelog(
            whole,
            mode="all" if self._updating else "insert",
            watermark=("at", "at - INTERVAL '5' SECOND"),
            name=name,
        )

    @property
    def watermark(self) -> datetime | None:
        """Give what all streams have passed."""
        known = [each for each in self._watermarks.values() if each is not None]
        return min(known) if len(known) == len(self._watermarks) else None

    def epoch(self, rows: int) -> None:
        """Give each stream some rows, and run them."""
        met = self.watermark
        for name in self._makes:
            self._push(name, self._rng.randrange(rows + 1), met)
        self.run.run()

    def _push(self, name: str, rows: int, met: datetime | None) -> None:
        pushed, in_time = [], []
        for _ in range(rows):
            change = self._change(name, met)
            pushed.append(change)
            if met is not None and self._late(name, change["at"], met):
                self.late += change["_row_kind"] == "+I"
            else:
                in_time.append(change)
            if change["_row_kind"] == "+I":
                known = self._watermarks[name]
                mark = change["at"] - DELAY
                self._watermarks[name] = mark if known is None else max(known, mark)
        self.run.sources[name].push(pushed)
        self._models[name].push(in_time)

    def _change(self, name: str, met: datetime | None) -> dict[str, Any]:
        rng, there = self._rng, self._there[name]
        if self._updating and there and rng.random() < 0.3:
            return {**there.pop(rng.randrange(len(there))), "_row_kind": "-D"}
        self._now[name] += rng.choice([0, 0, 0.5, 1, 3])
        moment = at(max(self._now[name] - rng.choice([0, 0, 1, 2, 4, 12]), 0))
        row = {**self._makes[name](rng), "at": moment, "met": met}
        in_time = met is None or not self._late(name, moment, met)
        if in_time:
            there.append(row)
        return {**row, "_row_kind": "+I"}

    def expected(self) -> list[Any]:
        """Run the model."""
        return sorted(rows_of(self._bounded.to_arrow(engine="local")), key=repr)

    def given(self) -> list[Any]:
        """List the rows that came out."""
        return sorted(self.run.content.elements(), key=repr)
