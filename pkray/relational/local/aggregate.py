"""Aggregates: in parts where that is possible, of whole groups otherwise."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pkray.columns.batches import (
    batch_of,
    batches_of,
    gathered,
    in_one_piece,
    parts,
    table_of,
    whole,
    with_schema,
)
from pkray.columns.keys import Aggregation, Codes, codes, grouped
from pkray.relational.functions.aggregates.folds import WIDE, Fold, alike, widened
from pkray.relational.functions.aggregates.kernels import fold_of, grouped_aggregate
from pkray.relational.local.engine import Engine, operator
from pkray.relational.local.memory import Memory, can_divide, drained
from pkray.relational.local.threads import ahead
from pkray.relational.plan.aggregates import facts
from pkray.relational.plan.expressions import AggregateCall
from pkray.relational.plan.nodes import Aggregate, Distinct, Node

SAMPLE_ROWS = 1 << 18
"""Rows of the first part, which shows whether parts have far fewer groups than rows."""

PART_ROWS = 1 << 20
CODE = "$code"


@operator(Aggregate)
def aggregate(node: Aggregate, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give a row a group; without keys, one row."""
    if not node.keys and not node.aggregates:
        yield batch_of((), node.fields.arrow, 1)
        return
    folding = Folding.of(node.keys, node.aggregates, node.input.fields.arrow)
    if len(folding.folds) == len(node.aggregates):
        tables = folding.run(node, engine, _columns(node, engine))
    else:
        tables = _by_parts(node, engine)
    found = None
    for found in tables:
        yield from batches_of(with_schema(found, node.fields.arrow), engine.batch_rows)
    if found is None and not node.keys:
        yield _of_no_rows(node)


Calls: TypeAlias = list[tuple[str, AggregateCall]]
Set: TypeAlias = tuple[tuple[str, ...], str | None]
"""Columns whose distinct values aggregates take, and their filter; without columns: all rows."""
ALL: Set = ((), None)


def _by_parts(node: Aggregate, engine: Engine) -> Iterator[pa.Table]:
    """Aggregate whole groups, as many as can be held; larger ones by the values that they take."""
    sets = _sets(node)
    if sets and len(sets) == 1:
        yield from _by_sets(node, engine, sets, _columns(node, engine))
        return
    schema = node.input.fields.only(_needed(node)).arrow
    for rows, fits in engine.memory.by_keys(_columns(node, engine), node.keys):
        if sets and not fits:
            yield from _by_sets(node, engine, sets, rows)
            continue
        table = table_of(rows if fits else engine.memory.held(node, rows), schema)
        if table.num_rows:
            yield of_whole_groups(node, table)


def _sets(node: Aggregate) -> dict[Set, Calls] | None:
    """Part aggregates by the distinct values that they take.

    Returns:
        None where they are not computed apart: some need a group's rows at once.
    """
    sets: dict[Set, Calls] = {}
    for name, call in node.aggregates:
        kinds = [node.input.fields[each].type.arrow for each in call.arguments]
        if fold_of(call, kinds) is None:
            return None
        chosen = (call.arguments, call.filter) if call.distinct else ALL
        plain = replace(call, distinct=False, filter=None if call.distinct else call.filter)
        sets.setdefault(chosen, []).append((name, plain))
    return sets


def _by_sets(
    node: Aggregate, engine: Engine, sets: dict[Set, Calls], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    """Aggregate each set's distinct values in parts, which are set aside if they are many."""
    if len(sets) == 1:
        ((chosen, calls),) = sets.items()
        yield from _of_set(node, engine, chosen, calls, batches)
        return
    rows = engine.memory.set_aside(batches, engine.memory.share)

    def results() -> Iterator[pa.RecordBatch]:
        for chosen, calls in sets.items():
            for table in _of_set(node, engine, chosen, calls, rows.read_again()):
                yield from _beside_others(table, node.fields.arrow).to_batches()
        rows.close()

    # a result is NULL in the rows of the other sets: its group's greatest is the only one
    only = [(name, AggregateCall("max", (name,), call.type)) for name, call in node.aggregates]
    yield from Folding.of(node.keys, only, node.fields.arrow).run(node, engine, results())


def _beside_others(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Give results of one set with the columns of the others, which are NULL."""
    nullable = pa.schema([field.with_nullable(True) for field in schema])
    columns = [
        table[field.name] if field.name in table.column_names else pa.nulls(len(table), field.type)
        for field in nullable
    ]
    return with_schema(pa.table(columns, nullable.names), nullable)


def _of_set(
    node: Aggregate, engine: Engine, chosen: Set, calls: Calls, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.Table]:
    arguments, condition = chosen
    schema = node.input.fields.arrow
    if chosen != ALL:
        names = tuple(dict.fromkeys((*node.keys, *arguments)))
        if condition is not None:
            batches = _marked(batches, condition, [schema.field(name) for name in names])
            names = (*names, MARK)
        tables = Folding(names, {}).run(node, engine, batches)
        batches = (batch for table in tables for batch in table.to_batches())
        if condition is not None:
            schema = schema.append(pa.field(MARK, pa.bool_()))
            calls = [(name, replace(call, filter=MARK)) for name, call in calls]
    yield from Folding.of(node.keys, calls, schema).run(node, engine, batches)


MARK = "$mark"


def _marked(
    batches: Iterator[pa.RecordBatch], condition: str, columns: list[pa.Field]
) -> Iterator[pa.RecordBatch]:
    """Give columns, and whether the filter is true: groups stay of which no row passes it."""
    schema = pa.schema([*columns, pa.field(MARK, pa.bool_())])
    for batch in batches:
        values = [batch[each.name] for each in columns]
        yield batch_of([*values, pc.fill_null(batch[condition], False)], schema, batch.num_rows)


@operator(Distinct)
def distinct(node: Distinct, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Keep one of equal rows."""
    if not len(node.fields):
        yield from _first_row(engine.batches(node.input))
        return
    for found in Folding(node.fields.names, {}).run(node, engine, engine.batches(node.input)):
        yield from batches_of(with_schema(found, node.fields.arrow), engine.batch_rows)


def _first_row(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.slice(0, 1) if batch.num_columns else batch_of((), batch.schema, 1)
        return


def _needed(node: Aggregate) -> list[str]:
    names = dict.fromkeys(node.keys)
    for _, call in node.aggregates:
        names |= dict.fromkeys(call.arguments)
        names |= dict.fromkeys(key.column for key in call.order_by)
        names |= {call.filter: None} if call.filter else {}
    return list(names)


def _columns(node: Aggregate, engine: Engine) -> Iterator[pa.RecordBatch]:
    """Give the input's batches with what the aggregates read alone."""
    names = _needed(node)
    if len(names) == len(node.input.fields):
        yield from engine.batches(node.input)
        return
    schema = node.input.fields.only(names).arrow
    for batch in engine.batches(node.input):
        yield batch_of([batch[name] for name in names], schema, batch.num_rows)


def _of_no_rows(node: Aggregate) -> pa.RecordBatch:
    """Give the one row of aggregates without keys over no rows."""
    empty = table_of((), node.input.fields.arrow)
    none = Codes(np.zeros(0, np.int64), 1)
    values = []
    for _, call in node.aggregates:
        folds = fold_of(call, _kinds(call, empty)) is not None
        zero = pa.array([facts(call.function).of_none], call.type.arrow) if folds else None
        values.append(_of_groups(call, empty, none) if zero is None else zero)
    return batch_of(values, node.fields.arrow, 1)


def _kinds(call: AggregateCall, table: pa.Table | pa.RecordBatch) -> list[pa.DataType]:
    return [table.schema.field(name).type for name in call.arguments]


@dataclass(frozen=True)
class Folding:
    """Aggregates by keys, in parts.

    Attributes:
        keys: names of columns.
        folds: by the name of the result: the call and how it is computed.
    """

    keys: tuple[str, ...]
    folds: dict[str, tuple[AggregateCall, Fold]]

    @staticmethod
    def of(
        keys: tuple[str, ...], calls: Sequence[tuple[str, AggregateCall]], schema: pa.Schema
    ) -> Folding:
        """Take the calls that can be computed in parts."""
        folds = {}
        for name, call in calls:
            kinds = [schema.field(argument).type for argument in call.arguments]
            fold = fold_of(call, kinds)
            if fold is not None and (facts(call.function).same_if_distinct or not call.distinct):
                folds[name] = (call, fold)
        return Folding(keys, folds)

    def run(
        self, node: Node, engine: Engine, batches: Iterator[pa.RecordBatch], level: int = 0
    ) -> Iterator[pa.Table]:
        """Aggregate a node's batches: the keys first, then the results.

        All groups are in one table, if they can be held; of no rows there is none.

        Args:
            level: how often the rows have been divided by the keys.
        """
        memory = engine.memory
        first = next(parts(batches, SAMPLE_ROWS, memory.piece), None)
        if first is None:
            return
        states = self.of_rows(first)
        if states.num_rows < first.num_rows / 2:
            more = ahead(self.of_rows, parts(batches, PART_ROWS, memory.piece))
            yield from self._of_states(node, memory, chain([states], more), level)
            return
        # parts would have as many groups as rows
        taken, passes = memory.first(chain(batches_of(first, first.num_rows), batches))
        if not passes or not can_divide(self.keys, level):
            held = memory.held(node, chain(drained(taken), batches))
            yield self.finished(self.of_rows(pa.Table.from_batches(held)))
            return
        for part in memory.divided(chain(drained(taken), batches), self.keys, level):
            yield from self.run(node, engine, part.read(), level + 1)

    def _of_states(
        self, node: Node, memory: Memory, states: Iterator[pa.Table], level: int
    ) -> Iterator[pa.Table]:
        """Merge the states of parts as they come; groups that cannot be held are divided."""
        held: list[pa.Table] = []
        size = 0
        for part in states:
            held.append(part)
            size += part.nbytes
            if size > memory.share:
                held = [self.merged(held)]
                size = held[0].nbytes
                if size > memory.share / 2 and can_divide(self.keys, level):
                    break
        else:
            once = len(held) == 1 and not level  # rows that were divided are of several parts
            yield self.finished(held[0] if once else self.merged(held))
            return
        rows = (self._widest(table) for table in chain(drained(held), states))
        batches = (batch for table in rows for batch in table.to_batches())
        for each in memory.divided(batches, self.keys, level):
            if each.rows:
                tables = parts(each.read(), PART_ROWS, memory.piece)
                yield from self._of_states(node, memory, tables, level + 1)

    def _widest(self, states: pa.Table) -> pa.Table:
        """Give the states of every part the same types."""
        for name, (exact, _) in self._states():
            kind = states.schema.field(name).type
            if exact and pa.types.is_integer(kind):
                kind = WIDE
            elif exact and pa.types.is_decimal(kind):
                kind = pa.decimal256(76, kind.scale)
            place = states.column_names.index(name)
            states = states.set_column(place, name, states[name].cast(kind))
        return states

    def of_rows(self, table: pa.Table) -> pa.Table:
        """Compute the states of a part's rows."""
        made = {name: table[name] for name in self.keys}
        wanted: dict[str, tuple[str, str]] = {}
        for call, fold in self.folds.values():
            for state in fold.states:
                column = self._column(call, fold, state.exact)
                wanted[column + " " + state.of_rows] = (column, state.of_rows)
                if column and column not in made:
                    prepared = masked(call, fold, table)
                    made[column] = widened(prepared) if state.exact else prepared
        if not made:
            made[""] = pa.nulls(table.num_rows, pa.int8())
        aggregations: list[Aggregation] = [
            (column, function) if column else ([], "count_all")
            for column, function in wanted.values()
        ]
        found = grouped(pa.table(made), self.keys, aggregations, threads=False)
        return found.rename_columns([*self.keys, *wanted])

    def merged(self, states: list[pa.Table]) -> pa.Table:
        """Merge the states of parts."""
        exact = dict(self._states())
        merging = {}
        for name in states[0].column_names:
            chunks = alike([part[name] for part in states])
            merging[name] = pa.chunked_array(
                [chunk for column in chunks for chunk in column.chunks], chunks[0].type
            )
            if exact.get(name, (False, ""))[0]:
                merging[name] = widened(merging[name])
        names = [name for name in merging if name not in self.keys]
        aggregations = [(name, exact[name][1]) for name in names]
        found = grouped(pa.table(merging), self.keys, aggregations, threads=False)
        return found.rename_columns([*self.keys, *names])

    def finished(self, states: pa.Table) -> pa.Table:
        """Compute the results from the states."""
        made = {name: states[name] for name in self.keys}
        for name, (call, fold) in self.folds.items():
            taken = [
                whole(states[self._column(call, fold, state.exact) + " " + state.of_rows])
                for state in fold.states
            ]
            made[name] = fold.finish(call, taken)
        return pa.table(made)

    def _states(self) -> Iterator[tuple[str, tuple[bool, str]]]:
        """List the states' names, whether they are exact sums, and what merges them."""
        for call, fold in self.folds.values():
            for state in fold.states:
                name = self._column(call, fold, state.exact) + " " + state.of_rows
                yield name, (state.exact, state.of_states)

    @staticmethod
    def _column(call: AggregateCall, fold: Fold, exact: bool) -> str:
        """Name the column to aggregate: the same for calls that share it; empty for all rows."""
        if not call.arguments and not call.filter:
            return ""
        return f"${fold.name} {call.arguments} {call.filter} {exact}"


def masked(call: AggregateCall, fold: Fold, table: pa.Table) -> pa.Array | pa.ChunkedArray:
    """Make the column that a call aggregates: NULL where its filter is not true."""
    columns = [table[name] for name in call.arguments]
    if not columns:
        columns = [pa.repeat(True, table.num_rows)]
    prepared = fold.prepare(columns)
    if call.filter is None:
        return prepared
    return pc.if_else(table[call.filter], prepared, pa.scalar(None, prepared.type))


def of_whole_groups(node: Aggregate, table: pa.Table) -> pa.Table:
    """Aggregate rows that are all there: also what needs a group's rows at once."""
    table = in_one_piece(table)
    numbers = codes([table[name] for name in node.keys], table.num_rows)
    made = {name: gathered(table, numbers.first_rows())[name] for name in node.keys}
    coded = table.append_column(CODE, pa.array(numbers.of_row))
    results = folded(node.aggregates, coded, numbers.count)
    for name, call in node.aggregates:
        done = results.get(name)
        made[name] = _whole_call(call, coded, numbers) if done is None else done
    return pa.table(made)


def folded(
    calls: Sequence[tuple[str, AggregateCall]], coded: pa.Table, count: int
) -> dict[str, pa.Array]:
    """Compute the calls that can be computed in parts, a value a code from 0 to count - 1."""
    folding = Folding.of((CODE,), calls, coded.schema)
    if not folding.folds or not coded.num_rows:
        return {
            name: pa.array([facts(call.function).of_none] * count, call.type.arrow)
            for name, (call, _) in folding.folds.items()
        }
    found = folding.finished(folding.of_rows(coded))
    places = np.full(count, -1, np.int64)
    places[np.asarray(found[CODE])] = np.arange(found.num_rows)
    rows = pa.array(places, mask=places < 0)
    results = {name: whole(found[name]).take(rows) for name in folding.folds}
    for name, (call, _) in folding.folds.items():
        none = facts(call.function).of_none
        if none is not None:
            results[name] = pc.fill_null(results[name], none)
    return results


def _whole_call(call: AggregateCall, coded: pa.Table, numbers: Codes) -> pa.Array:
    if not call.distinct:
        return _of_groups(call, coded, numbers)
    if call.filter is not None:
        coded = coded.filter(coded[call.filter])
    arguments = [coded[name] for name in call.arguments]
    same = codes([coded[CODE], *arguments], coded.num_rows)
    once = gathered(coded, np.sort(same.first_rows()))
    plain = replace(call, distinct=False, filter=None)
    done = folded([("", plain)], once, numbers.count).get("")
    if done is not None:
        return done
    return _of_groups(plain, once, Codes(np.asarray(once[CODE]), numbers.count))


def _of_groups(call: AggregateCall, table: pa.Table, numbers: Codes) -> pa.Array:
    """Compute a call of whole groups."""
    return grouped_aggregate(
        call,
        numbers.of_row,
        numbers.count,
        [table[name] for name in call.arguments],
        None if call.filter is None else whole(table[call.filter]),
        [table[key.column] for key in call.order_by],
    )
