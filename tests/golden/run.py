"""Run recorded queries and compare what they give.

::

    python tests/golden/run.py FOLDER [--bounded] [--engine local|spark|both] [--json FILE]

Each query runs continuously, one epoch an event, and its changes are compared with the recorded
ones, and what they leave with the recorded final table.

With --bounded each query runs once over the final content of its inputs, and its result is compared
with the recorded final table. A case that differs is excepted, by name and with the reason, where
its plan says that its result depends on more than the content: on time, on arrival, on what has
expired.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # run as a script
    sys.path.insert(0, str(ROOT))

import pyarrow as pa  # noqa: E402

import pkray  # noqa: E402
from pkray.errors import EvaluationError, QueryError, UnsupportedError  # noqa: E402
from pkray.relational.plan import nodes  # noqa: E402
from tests.golden.case import Case  # noqa: E402
from tests.golden.compiled import compiled_plan_faults  # noqa: E402
from tests.golden.continuous import continuous_faults  # noqa: E402

_REFUSED_WHEN_CONTINUOUS = ("TableException",)
"""Errors of running continuously: bounded, these queries are right."""
_BY_ARRIVAL = ("first", "last", "any_value", "listagg", "collect_list", "collect_set")


@dataclass(frozen=True)
class Outcome:
    """How one case ended."""

    name: str
    engine: str
    status: str
    detail: str = ""


def run_folder(folder: Path, engines: list[str]) -> Iterator[Outcome]:
    """Run every case of a folder on every engine."""
    paths = sorted(folder.glob("*.json"))
    for path in paths:
        case = Case.read(path)
        for engine in engines:
            yield run_case(case, engine)


def run_case(case: Case, engine: str) -> Outcome:
    """Run one case.

    Args:
        engine: ``continuous``, or what runs it bounded.
    """
    with tempfile.TemporaryDirectory() as folder, pkray.connect(folder) as catalog:
        try:
            if engine == "continuous":
                faults, reasons = continuous_faults(case, catalog), []
            else:
                faults, reasons = _faults(case, catalog, engine)
        except Exception as error:  # whatever it is, it is this case's failure
            return Outcome(case.name, engine, "FAIL", f"{type(error).__name__}: {error}")
    if not faults:
        return Outcome(case.name, engine, "PASS")
    if reasons:
        return Outcome(case.name, engine, "EXCEPTED", reasons[0])
    return Outcome(case.name, engine, "FAIL", faults[0])


def _faults(case: Case, catalog: pkray.Catalog, engine: str) -> tuple[list[str], list[str]]:
    """List what differs, and why it may."""
    said = case.said
    if "plan_nodes" in said:
        return compiled_plan_faults(case, catalog), []
    if error := said.get("error"):
        return _refusal_faults(case, catalog, engine, error)
    case.open(catalog)
    result = catalog.sql(case.sql, dialect="flink")
    if isinstance(result, pa.Table):
        return _listing_faults(case, result), []
    faults = []
    given = [f"{each.name} {each.type}" for each in result.fields]
    if given != case.types():
        faults.append(f"types are {given}, not {case.types()}")
    rows, expected = case.rows(result.to_arrow(engine=engine)), case.final()
    if rows != expected:
        missing = [row for row in expected if row not in rows]
        extra = [row for row in rows if row not in expected]
        faults.append(f"missing {missing[:3]}, extra {extra[:3]}, {len(rows)} rows")
        return faults, list(_reasons(case, result.plan))
    return faults, []


def _refusal_faults(
    case: Case, catalog: pkray.Catalog, engine: str, error: str
) -> tuple[list[str], list[str]]:
    try:
        case.open(catalog)
        catalog.sql(case.sql, dialect="flink").to_arrow(engine=engine)
    except (QueryError, EvaluationError, UnsupportedError):
        return [], []
    except Exception as raised:
        if "SparkRuntimeException" in type(raised).__name__ or "UserDefined" in str(raised):
            return [], []
        raise
    expected = [] if any(each in error for each in _REFUSED_WHEN_CONTINUOUS) else [error]
    return [f"was not refused: {error}"], [] if expected else ["refused only when continuous"]


def _listing_faults(case: Case, result: pa.Table) -> list[str]:
    rows = [[_said(value) for value in row.values()] for row in result.to_pylist()]
    expected = [[_said(value) for value in row] for row in case.said["rows"]]
    return [] if rows == expected else [f"lists {rows}, not {expected}"]


def _said(value: Any) -> str | None:
    return None if value is None else str(value)


def _reasons(case: Case, plan: nodes.Node) -> Iterator[str]:
    """List why the result depends on more than the content of the inputs."""
    if "table.exec.state.ttl" in case.said.get("config", {}) or "STATE_TTL" in case.sql:
        yield "state expires"
    if any(table.get("computed") for table in case.said["tables"].values()):
        yield "processing time"
    late = _has_late_rows(case)
    for node in plan.walk():
        match node:
            case nodes.TemporalJoin():
                yield "versions that the final content no longer has"
            case nodes.Limit(input=below) if not isinstance(below, nodes.Sort):
                yield "LIMIT without ORDER BY"
            case nodes.Deduplicate(order_by=None):
                yield "order of arrival"
            case nodes.Deduplicate(keep_first=True) if late:
                yield "late rows"
            case nodes.Window() if late:
                yield "late rows"
            case nodes.TopN() | nodes.Deduplicate():
                yield "rows that are equal in the order, by arrival"
            case nodes.Aggregate(keys=()):
                yield "a global aggregate over no rows"
            case nodes.Aggregate() if any(c.function in _BY_ARRIVAL for _, c in node.aggregates):
                yield "an aggregate that depends on arrival"


def _has_late_rows(case: Case) -> bool:
    """Whether any row's time is behind that of a row that came before it."""
    for name, table in case.said["tables"].items():
        if not table.get("watermark"):
            continue
        place = [column for column, _ in table["columns"]].index(table["watermark"][0])
        times = [event[2][place] for event in case.said["events"] if event[0] == name]
        known = [time for time in times if time is not None]
        if known != sorted(known):
            return True
    return False


@contextmanager
def _spark(needed: bool) -> Iterator[None]:
    if not needed:
        yield
        return
    import pkray.spark

    pkray.spark.session()
    try:
        yield
    finally:
        pkray.spark.stop()


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bounded", action="store_true", help="run once over the final content")
    parser.add_argument("--engine", choices=["local", "spark", "both"], default="local")
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    arguments = parser.parse_args()
    engines = ["local", "spark"] if arguments.engine == "both" else [arguments.engine]
    if not arguments.bounded:
        if arguments.engine != "local":
            parser.error("--engine says what runs bounded: say --bounded too")
        engines = ["continuous"]
    outcomes = []
    with _spark("spark" in engines):
        for outcome in run_folder(arguments.folder, engines):
            outcomes.append(outcome)
            if outcome.status != "PASS":
                place = f"{outcome.name} on {outcome.engine}" if len(engines) > 1 else outcome.name
                print(f"{outcome.status} {place}: {outcome.detail}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(each) for each in outcomes], indent=1))
    passed = sum(each.status == "PASS" for each in outcomes)
    failed = sum(each.status == "FAIL" for each in outcomes)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
