"""Hold the series of one moment as plain data."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from pkray.metrics.metric import Metric
from pkray.metrics.names import METRICS

Labels: TypeAlias = tuple[str, ...]
"""Values, in the order of the metric's labels."""


@dataclass(frozen=True)
class Distribution:
    """Counts the values that a histogram has seen.

    Args:
        counts: values in each bucket alone; the last one is above all bounds.
        total: of the values.
    """

    counts: tuple[int, ...]
    total: float


Value: TypeAlias = float | Distribution
Collected: TypeAlias = dict[str, dict[Labels, Value]]
"""Series by the name of the metric and the values of its labels."""
Reading: TypeAlias = tuple[Metric, Labels, float]
"""One value of a series, as it is read."""
IsGone: TypeAlias = Callable[[str, str], bool]
"""Says by a label and its value whether that is of a table or a query that is no more."""


def of(readings: Iterable[Reading]) -> Collected:
    """Gather readings; those of one series are added up."""
    found: Collected = {}
    for metric, labels, value in readings:
        series = found.setdefault(metric.name, {})
        series[labels] = added(series.get(labels, 0.0), value)
    return found


def added(one: Value, other: Value) -> Value:
    """Add up two values of a series."""
    if isinstance(one, Distribution) and isinstance(other, Distribution):
        counts = tuple(map(sum, zip(one.counts, other.counts, strict=True)))
        return Distribution(counts, one.total + other.total)
    assert not isinstance(one, Distribution), "a histogram is no number"
    assert not isinstance(other, Distribution), "a histogram is no number"
    return one + other


def of_workers(collected: Mapping[str, Collected]) -> Collected:
    """Unite what processes keep; their names become the label ``worker``.

    A metric that this version does not know, as a newer process may send, is left out.
    """
    found: Collected = {}
    for worker, metrics in collected.items():
        for name, series in metrics.items():
            if name in METRICS:
                into = found.setdefault(name, {})
                into.update({(*labels, worker): value for labels, value in series.items()})
    return found


def unless_there(tables: Collection[str], queries: Collection[str]) -> IsGone:
    """Tell what is gone from these tables and queries, by name."""

    def is_gone(label: str, value: str) -> bool:
        if label == "table":
            return value.partition("$branch_")[0] not in tables
        return label == "query" and value not in queries

    return is_gone


def any_gone(metric: Metric, labels: Labels, is_gone: IsGone) -> bool:
    """Whether a series is of something that is gone."""
    return any(map(is_gone, metric.labels, labels))


def without(collected: Collected, is_gone: IsGone) -> Collected:
    """Leave out the series of what is gone."""
    return {
        name: {
            labels: value
            for labels, value in series.items()
            if not any_gone(METRICS[name], labels, is_gone)
        }
        for name, series in collected.items()
    }


def series_of(collected: Collected) -> Iterator[tuple[Metric, dict[str, str], Value]]:
    """Yield each series with its labels by name, in the order in which metrics are declared."""
    for name, metric in METRICS.items():
        for labels, value in sorted(collected.get(name, {}).items(), key=lambda each: each[0]):
            yield metric, dict(zip(metric.all_labels, labels, strict=True)), value
