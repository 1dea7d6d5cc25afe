"""Write the board for Grafana: python deploy/prometheus/board.py > deploy/prometheus/board.json

Each metric has a panel, so that what is measured can be seen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from pkray.metrics.metric import Metric
from pkray.metrics.names import METRICS

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_ROWS = {
    "Queries": "pkray_query_",
    "Tables": "pkray_table_",
    "Lookups": "pkray_lookup_",
    "Store": "pkray_store_",
    "Processes": "pkray_worker_",
}
"""Names of metrics by what they begin with, in the order of the board."""
_UNITS = {"seconds": "s", "bytes": "bytes", "ratio": "percentunit"}
_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3
_QUANTILES = (0.5, 0.99)


def board() -> dict[str, Any]:
    """Make the board."""
    return {
        "uid": "pkray",
        "title": "pkray",
        "tags": ["pkray"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": [{"name": "source", "type": "datasource", "query": "prometheus"}]},
        "panels": list(_panels()),
    }


def _panels() -> Iterator[dict[str, Any]]:
    numbers, down = count(1), 0
    for title, prefix in _ROWS.items():
        place = {"h": 1, "w": 24, "x": 0, "y": down}
        yield {"id": next(numbers), "type": "row", "title": title, "gridPos": place}
        down += 1
        metrics = [each for name, each in METRICS.items() if name.startswith(prefix)]
        for at, metric in enumerate(metrics):
            x, y = at % _ACROSS * _WIDTH, down + at // _ACROSS * _HEIGHT
            place = {"h": _HEIGHT, "w": _WIDTH, "x": x, "y": y}
            yield {"id": next(numbers), **_panel(metric), "gridPos": place}
        down += -(-len(metrics) // _ACROSS) * _HEIGHT


def _panel(metric: Metric) -> dict[str, Any]:
    unit = _UNITS.get(metric.unit, "short")
    if metric.kind == "counter" and unit == "short":
        unit = "cps"
    return {
        "type": "timeseries",
        "title": metric.name.removeprefix("pkray_").removesuffix("_total").replace("_", " "),
        "description": metric.help,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": _SOURCE, "expr": text, "legendFormat": name}
            for at, (text, name) in enumerate(_expressions(metric))
        ],
    }


def _expressions(metric: Metric) -> Iterator[tuple[str, str]]:
    """Write what a panel draws, and what a line is called: what differs by process is added up, but
    for what processes say of themselves."""
    labels = metric.labels if metric.labels and metric.name != "pkray_worker_memory_bytes" else ()
    labels = labels or metric.all_labels
    by, legend = ", ".join(labels), " ".join(f"{{{{{each}}}}}" for each in labels)
    if metric.kind == "gauge":
        how = "sum" if "worker" not in labels and not metric.is_fact else "max"
        yield f"{how} by ({by}) ({metric.name})", legend
    elif metric.kind == "counter":
        yield f"sum by ({by}) (rate({metric.name}[$__rate_interval]))", legend
    else:
        rate = f"sum by ({by}, le) (rate({metric.name}_bucket[$__rate_interval]))"
        for quantile in _QUANTILES:
            yield f"histogram_quantile({quantile}, {rate})", f"{legend} {quantile:.0%}"


if __name__ == "__main__":
    print(json.dumps(board(), indent=2))
