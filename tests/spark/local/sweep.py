"""Calls of functions over boundary rows: what pkray and Spark give, row by row, or refuse."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.dataframe import DataFrame
from pyspark.sql.types import StructType

from pkray.errors import EvaluationError, PkrayError
from pkray.relational import from_arrow, query
from pkray.relational.functions.evaluation.compiled import compile_expression
from pkray.relational.plan.fields import Fields
from pkray.relational.plan.nodes import Project
from pkray.schema.casts import cast_column
from pkray.schema.types import DataType
from pkray.spark.types import spark_schema
from tests.spark.local.boundary_rows import NUMBERS, TYPES
from tests.spark.local.side_by_side import same

_SWEPT = re.compile(r"\b(\w+?)(\?\??)(?!\w)")
REFUSED, RAISED, UNANSWERED = "refused", "raises", "unanswered"


@dataclass(frozen=True)
class Answer:
    """What a call comes to.

    Attributes:
        type: as Spark writes it; or `REFUSED`.
        values: an array, a value a row.
        raised: bool, whether a row raises.
        remark: why it is refused, or an error that is no typed one.
    """

    type: str
    values: pa.Array | None = None
    raised: np.ndarray | None = None
    remark: str = ""


def share_of(call: str, shares: int) -> int:
    """Say in which of so many shares of all calls one is, whatever others there are."""
    return zlib.crc32(call.encode()) % shares


@dataclass(frozen=True)
class Differences:
    """Differences that are known.

    Attributes:
        lines: the kind of a difference, what its calls match, and its reason.
    """

    lines: tuple[tuple[str, ...], ...]

    @staticmethod
    def read(file: Path) -> Differences:
        """Read lines such as ``values | ^slice\\( | a length that passes the end stops there``."""
        lines = file.read_text().splitlines()
        return Differences(
            tuple(tuple(each.strip() for each in line.split(" | ")) for line in lines)
        )

    def explain(self, kind: str, call: str) -> bool:
        """Whether a difference of a call is known."""
        return any(kind == each[0] and re.search(each[1], call) for each in self.lines)

    def answered(self, calls: Sequence[str]) -> list[str]:
        """Leave out calls at which Spark fails: each would be looked for by halves."""
        return [call for call in calls if not self.explain("unanswered", call)]


def calls(file: Path, *, swept: bool = True) -> dict[str, list[str]]:
    """Read lines such as ``lpad: lpad(s?, n?, s); lpad(s, n)``.

    Each column before ``?`` becomes a column of every type in turn, while the others stay as they
    are; columns before ``??`` become all pairs of numbers as well.

    Args:
        swept: whether they do.
    """
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        name, _, templates = line.partition(": ")
        made = [call for each in templates.split("; ") for call in _swept(each, swept)]
        found[name] = list(dict.fromkeys(made))
    return found


def _swept(template: str, swept: bool) -> Iterator[str]:
    found = list(_SWEPT.finditer(template))
    plain = [each[1] for each in found]
    yield _filled(template, plain)
    if not swept:
        return
    for place in range(len(found)):
        for kind in TYPES:
            yield _filled(template, [*plain[:place], kind, *plain[place + 1 :]])
    if any(each[2] == "??" for each in found):
        for left in NUMBERS:
            for right in NUMBERS:
                yield _filled(template, [left, right])


def _filled(template: str, columns: Sequence[str]) -> str:
    rest = iter(enumerate(columns))

    def column(_: re.Match[str]) -> str:
        role, name = next(rest)
        return f"{name}_{role + 1}" if role else name

    return _SWEPT.sub(column, template)


class Here:
    """Computes calls on the local engine."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows.combine_chunks()
        self.relation = from_arrow(self.rows, name="r")

    def answer(self, call: str) -> Answer:
        """Compute a call; rows that raise are found one by one."""
        try:
            node = query(f"SELECT {call} AS v FROM r", r=self.relation).plan
            assert isinstance(node, Project), node
            expression = node.columns[0][1]
            read = expression.columns()
            names = [name for name in self.rows.column_names if name in read or name == "row"]
            fields = Fields(tuple(node.input.fields[name] for name in names))
            compiled = compile_expression(expression, fields)
        except PkrayError as error:
            return Answer(REFUSED, remark=str(error))
        kind = pa.schema([pa.field("v", expression.type.arrow)])
        written = spark_schema(kind).fields[0].dataType.simpleString()
        batch = self.rows.select(names).to_batches()[0]
        raised = np.zeros(batch.num_rows, bool)
        remark = ""
        try:
            return Answer(written, compiled.evaluate(batch), raised)
        except EvaluationError:
            pass
        except Exception as error:
            remark = repr(error)
        known: list[pa.Array] = []
        for row in range(batch.num_rows):
            try:
                known.append(compiled.evaluate(batch.slice(row, 1)))
            except EvaluationError:
                known.append(pa.nulls(1, expression.type.arrow))
                raised[row] = True
            except Exception as error:
                remark, raised[row] = repr(error), True
                known.append(pa.nulls(1, expression.type.arrow))
        return Answer(written, pa.concat_arrays(known), raised, remark)


class There:
    """Computes calls in Spark: hundreds in one query, each value tried by itself."""

    BATCH = 300

    def __init__(self, spark: SparkSession, rows: pa.Table) -> None:
        self.frame = from_arrow(rows, name="r").to_spark(spark).coalesce(1).cache()
        self.session = self.frame.sparkSession
        for name, value in (
            ("spark.sql.subexpressionElimination.enabled", "false"),
            ("spark.sql.codegen.wholeStage", "false"),
            ("spark.sql.codegen.factoryMode", "NO_CODEGEN"),
        ):
            self.session.conf.set(name, value)
        self.frame.createOrReplaceTempView("r")
        self._jvm: Any = self.session.sparkContext._jvm
        state = self.session._jsparkSession.sessionState()
        self._parser, self._analyzer = state.sqlParser(), state.analyzer()
        self._plan = self.frame._jdf.queryExecution().analyzed()

    def answers(self, calls: Sequence[str]) -> dict[str, Answer]:
        """Compute calls; those that Spark does not type are refused."""
        found: dict[str, Answer] = {}
        for start in range(0, len(calls), self.BATCH):
            parsed: dict[str, Any] = {}
            for call in calls[start : start + self.BATCH]:
                try:
                    parsed[call] = self._column(call)
                except (AnalysisException, Py4JJavaError) as error:
                    found[call] = _refused(error)
            self._compute(self._typed(parsed, found), found)
        return found

    def _typed(self, parsed: dict[str, Any], found: dict[str, Answer]) -> dict[str, Any]:
        """Give the calls with types; what the analyzer leaves without one is refused."""
        try:
            analyzed = self._analyzer.execute(self._project(parsed)).projectList()
        except (AnalysisException, Py4JJavaError) as error:
            if len(parsed) == 1:
                found[next(iter(parsed))] = _refused(error)
                return {}
            return {
                name: column
                for half in _halves(parsed)
                for name, column in self._typed(half, found).items()
            }
        typed: dict[str, Any] = {}
        for place, call in enumerate(parsed):
            column = analyzed.apply(place)
            if column.resolved():
                typed[call] = column
            else:
                found[call] = Answer(REFUSED, remark="it has no type")
        return typed

    def _compute(self, typed: dict[str, Any], found: dict[str, Answer]) -> None:
        if not typed:
            return
        try:
            ofrows = self._jvm.org.apache.spark.sql.classic.Dataset.ofRows
            chosen = ofrows(self.session._jsparkSession, self._project(typed))
            frame = DataFrame(chosen, self.session)
            table = frame.toArrow()
        except Exception as error:
            if len(typed) > 1:
                for half in _halves(typed):
                    self._compute(half, found)
            elif isinstance(error, AnalysisException):
                found[next(iter(typed))] = _refused(error)
            else:
                remark = str(error).split("\n")[0]
                found[next(iter(typed))] = Answer(UNANSWERED, remark=remark)
            return
        for call, field, column in zip(typed, frame.schema.fields, table.columns, strict=True):
            array = column.combine_chunks()
            kind = cast(StructType, field.dataType)["v"].dataType.simpleString()
            raised = array.is_null().to_numpy(zero_copy_only=False)
            found[call] = Answer(kind, array.flatten()[0], raised)

    def _project(self, columns: dict[str, Any]) -> Any:
        project = self._jvm.org.apache.spark.sql.catalyst.plans.logical.Project
        return project(self.frame._jseq(list(columns.values())), self._plan)

    def _column(self, call: str) -> Any:
        """Parse a call: a row of its value, which may be NULL; NULL where the call raises."""
        expressions = self._jvm.org.apache.spark.sql.catalyst.expressions
        named = self._parser.parseExpression(f"named_struct('v', {call}) AS v")
        row = named.child()
        key, value = (row.children().apply(place) for place in range(2))
        row = row.withNewChildren(self.frame._jseq([key, expressions.KnownNullable(value)]))
        return named.withNewChildren(self.frame._jseq([expressions.TryEval(row)]))


def _refused(error: Exception) -> Answer:
    return Answer(REFUSED, remark=str(error).split("\n")[0])


def _halves(columns: dict[str, Any]) -> Iterator[dict[str, Any]]:
    names = list(columns)
    for some in (names[: len(names) // 2], names[len(names) // 2 :]):
        yield {name: columns[name] for name in some}


def differences(ours: Answer, theirs: Answer) -> dict[str, str]:
    """Say in what two answers differ, by the kind of the difference.

    Returns:
        ``raw``: an error that is no typed one. ``refused``, ``taken``: by pkray alone. ``type``.
        ``strict``: rows that raise here and are NULL there. ``raises``: that have a value there.
        ``gives``: that have a value here, and raise there. ``values``: that have two values.
    """
    if ours.remark and ours.type != REFUSED:
        return {"raw": ours.remark}
    if REFUSED in (ours.type, theirs.type):
        if ours.type == theirs.type:
            return {}
        return {"refused": ours.remark} if ours.type == REFUSED else {"taken": theirs.remark}
    if theirs.type == UNANSWERED:
        return {"unanswered": theirs.remark}
    if ours.type != theirs.type:
        return {"type": f"{ours.type}, Spark {theirs.type}"}
    assert ours.values is not None
    assert ours.raised is not None
    assert theirs.values is not None
    assert theirs.raised is not None
    field = DataType.from_field(pa.field("v", ours.values.type))
    known = cast_column(pa.chunked_array([theirs.values]), field, "v").combine_chunks()
    null = np.asarray(known.is_null()) & ~theirs.raised
    both = ~ours.raised & ~theirs.raised
    unlike = np.zeros(len(known), bool)
    unlike[both] = [not _same(ours.values, known, int(row)) for row in np.flatnonzero(both)]
    kinds = {
        "strict": ours.raised & null,
        "raises": ours.raised & ~theirs.raised & ~null,
        "gives": theirs.raised & ~ours.raised,
        "values": unlike,
    }
    said: dict[str, str] = {}
    for kind, rows in kinds.items():
        if rows.any():
            row = int(np.argmax(rows))
            one = RAISED if ours.raised[row] else _shown(ours.values, row)
            other = RAISED if theirs.raised[row] else _shown(known, row)
            said[kind] = f"{int(rows.sum())} rows, in row {row} {one}, Spark {other}"
    return said


def _same(ours: pa.Array, theirs: pa.Array, row: int) -> bool:
    one, other = ours[row], theirs[row]
    if one.equals(other) and not _has_floats(one.type):
        return True
    try:
        return same(one.as_py(), other.as_py())
    except (OverflowError, ValueError):  # a time that Python has no value for
        return bool(one.equals(other))


def _has_floats(kind: pa.DataType) -> bool:
    return "float" in str(kind) or "double" in str(kind)


def _shown(values: pa.Array, row: int) -> str:
    try:
        return repr(values[row].as_py())
    except (OverflowError, ValueError):  # a time that Python has no value for, text that is none
        one = values.slice(row, 1)
        if not pa.types.is_temporal(one.type):
            return str(one)
        return str(one.view(pa.int32() if one.type == pa.date32() else pa.int64())[0])
