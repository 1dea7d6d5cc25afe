"""Describe a metric."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

WORKER = "worker"
"""The label that says which process keeps a series."""
LATENCIES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds in seconds: from what memory answers to what people call for help about."""


@dataclass(frozen=True)
class Metric:
    """A metric: one constant of `pkray.metrics.names`.

    Args:
        name: with its unit at the end; a counter's ends in ``_total``.
        unit: ``seconds``, ``bytes``, ``ratio``, or the plural of what is counted.
        help: one sentence for people.
        labels: names, without `WORKER`.
        is_fact: it is read from the warehouse; else each process keeps its own.
        bounds: upper bounds of a histogram's buckets, growing; one above all is implied.
    """

    name: str
    kind: Kind
    unit: str
    help: str
    labels: tuple[str, ...] = ()
    is_fact: bool = False
    bounds: tuple[float, ...] = ()

    @property
    def is_of_warehouse(self) -> bool:
        """Whether it tells of a table or a query; else of a process."""
        return "table" in self.labels or "query" in self.labels

    @property
    def is_of_bucket(self) -> bool:
        """Whether it has a series for each bucket: it is left out unless it is asked for."""
        return "bucket" in self.labels

    @property
    def all_labels(self) -> tuple[str, ...]:
        """Name the labels of a collection: of a kept series also the process."""
        return self.labels if self.is_fact else (*self.labels, WORKER)
