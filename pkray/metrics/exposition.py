"""Write collections for Prometheus and for programs.

Source: Prometheus' text-based exposition format, version 0.0.4.
"""

from collections.abc import Iterator
from itertools import accumulate, groupby
from typing import Any

from pkray.metrics.collection import Collected, Distribution, Value, series_of
from pkray.metrics.metric import Metric

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def to_text(collected: Collected) -> str:
    """Write it as Prometheus reads it."""
    return "".join(f"{line}\n" for line in _lines(collected))


def to_records(collected: Collected) -> list[dict[str, Any]]:
    """Make a record a series: ``name``, ``kind``, ``unit``, ``labels``, ``value``; of a histogram
    ``buckets``, the values at most as large as each bound, ``sum`` and ``count``."""
    return [
        {
            "name": metric.name,
            "kind": metric.kind,
            "unit": metric.unit,
            "labels": labels,
            **_values(metric, value),
        }
        for metric, labels, value in series_of(collected)
    ]


def _values(metric: Metric, value: Value) -> dict[str, Any]:
    if not isinstance(value, Distribution):
        return {"value": value}
    counts = list(accumulate(value.counts))
    bounds = [*map(_number, metric.bounds), "+Inf"]
    return {
        "buckets": dict(zip(bounds, counts, strict=True)),
        "sum": value.total,
        "count": counts[-1],
    }


def _lines(collected: Collected) -> Iterator[str]:
    for metric, group in groupby(series_of(collected), key=lambda each: each[0]):
        yield f"# HELP {metric.name} {_escaped(metric.help)}"
        yield f"# TYPE {metric.name} {metric.kind}"
        for _, labels, value in group:
            inside = ",".join(f'{name}="{_quoted(each)}"' for name, each in labels.items())
            if not isinstance(value, Distribution):
                yield f"{metric.name}{_braced(inside)} {_number(value)}"
                continue
            before = f"{inside}," if inside else ""
            counts = list(accumulate(value.counts))
            for bound, count in zip(metric.bounds, counts, strict=False):
                yield f'{metric.name}_bucket{{{before}le="{_number(bound)}"}} {count}'
            yield f'{metric.name}_bucket{{{before}le="+Inf"}} {counts[-1]}'
            yield f"{metric.name}_sum{_braced(inside)} {_number(value.total)}"
            yield f"{metric.name}_count{_braced(inside)} {counts[-1]}"


def _braced(inside: str) -> str:
    return f"{{{inside}}}" if inside else ""


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
