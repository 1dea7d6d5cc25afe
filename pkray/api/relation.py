"""Relations: lazy, immutable queries that methods and SQL write alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

import pyarrow as pa
from sqlglot import exp

from pkray import relational
from pkray.arguments.facade import ColumnNames, Options, SnapshotId, checked_class
from pkray.arguments.whole_number import whole_number
from pkray.errors import ColumnNotFoundError, OptionError, PkrayError, QueryError, UnsupportedError
from pkray.extras import require_extra
from pkray.relational import outcome, running
from pkray.relational.api import composing, joining, missing, printing, rewriting, sampling
from pkray.relational.api.column import Column, conditional, expression, listed, ordering
from pkray.relational.api.composing import Side, Writer, opened, passed_on
from pkray.relational.api.grouped import Grouped
from pkray.relational.api.queried import AsOf, Queried
from pkray.relational.api.windows import Window
from pkray.relational.cancellation import Cancellation
from pkray.relational.dialect import Dialect
from pkray.relational.plan.nodes import Node, Scan, WatermarkAssign
from pkray.relational.plan.physical import completed, tells_twice
from pkray.relational.plan.source import Source
from pkray.relational.session import Environment, fresh_name, table_scan
from pkray.relational.sources.system import SystemSource
from pkray.relational.sources.watermarks import delayed, watermark
from pkray.relational.spark_engine import spark_engine
from pkray.relational.sql import syntax
from pkray.relational.sql.places import nearest
from pkray.relational.sql.syntax import ORIGIN, column, identifier, star
from pkray.scan.moment import Timestamp
from pkray.shown import html_table
from pkray.table.system_table import SystemTable
from pkray.table.table import Table

if TYPE_CHECKING:
    from pkray.relational.udf import Udf

How: TypeAlias = Literal["inner", "left", "right", "full", "semi", "anti", "cross"]
Engine: TypeAlias = Literal["local", "spark"]
Snapshots: TypeAlias = SnapshotId | Mapping[str, int]

_SHOWN = 20


@checked_class
class Relation(Queried):
    """A query: rows of columns, computed when they are asked for.

    Made by ``table.relation()``, ``catalog.sql("SELECT …")`` and ``from_arrow``. Methods give other
    relations. A column is ``rel["a"]``, ``rel.a`` where no method has the name, or ``col("a")``;
    where an expression fits, SQL text does.

    Attributes:
        tree: the query's syntax; nothing changes it.
        names: what the names in it stand for.
        origins: by number of each relation that this one was made of, what its columns are called
            here.
    """

    def __init__(
        self,
        tree: exp.Query,
        names: Environment,
        origins: Mapping[int, Mapping[str, str]] | None = None,
    ) -> None:
        super().__init__(tree, names)
        own = {name: name for name in self.fields.names}
        self.origins = {**(origins or {}), self._number: own}

    # Columns

    def __getitem__(self, name: str) -> Column:
        """Take a column by name.

        Raises:
            ColumnNotFoundError: there is none; the nearest names are said.
        """
        found = self._name(name)
        made = column(found)
        made.meta[ORIGIN] = self._number
        return Column(made)

    def __getattr__(self, name: str) -> Column:
        if name.startswith("_") or "_fields" not in vars(self):
            raise AttributeError(f"a relation has no attribute {name!r}")
        return self[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.columns})

    def __iter__(self) -> NoReturn:
        raise QueryError("a relation is not iterated over: take to_batches(), or rel['column']")

    def __bool__(self) -> NoReturn:
        raise QueryError("a relation has no truth of its own: ask count() or columns")

    @property
    def schema(self) -> pa.Schema:
        """Give the columns as Arrow has them."""
        return outcome.arrow_schema(self.fields)

    # What it is

    def describe(self) -> pa.Table:
        """List the columns: name, type, null, key, extras and watermark."""
        return printing.described(self.plan)

    def __repr__(self) -> str:
        columns = "\n".join(f"    {field}" for field in self.fields)
        return f"Relation: {self._shown()}\n{columns}"

    def _repr_html_(self) -> str:
        rows = [(field.name, field.type) for field in self.fields]
        return html_table(self._shown(), rows, ("column", "type")) + self._drawn()

    def _drawn(self) -> str:
        try:
            return str(self.explain().drawn())
        except (PkrayError, RecursionError):  # a chain of hundreds of methods
            return ""

    def _shown(self) -> str:
        try:
            return self.sql()
        except QueryError:  # a chain of hundreds of methods
            return "…"

    @property
    def _content_plan(self) -> Node:
        """Give the plan with what its sources hold: changes that come twice count once."""
        session = self.names.session
        twice = session is not None and tells_twice(session.options)
        return completed(self.plan) if twice else self.plan

    # Rows

    def to_batches(
        self,
        engine: Engine | None = None,
        *,
        snapshot: Snapshots | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        memory: int | None = None,
        cancellation: Cancellation | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Compute the rows, batch by batch.

        Args:
            engine: ``local`` (the default) runs in this process, ``spark`` on the active session.
            snapshot, tag, timestamp: the moment at which its tables are read; by default one
                instant now. `snapshot` is an id, or ids by table where it reads several.
            memory: bytes that the local engine holds, about; more goes to the local disk. By
                default the setting ``execution.memory``, or else half of the machine's.
            cancellation: ends a run of the local engine from another thread.

        Raises:
            UnsupportedError: rows that have to be held as a whole take more; the node is named.
            EvaluationError: a row cannot be computed: an overflow, a value that does not fit a
                cast.
            QueryCancelledError: `cancellation` was cancelled.
        """
        if engine == "spark":
            pinned = running.pinned(self._content_plan, snapshot, tag, timestamp)
            found = spark_engine().to_batches(running.prepare(pinned))
            return outcome.shown(found, self.fields)
        session = self.names.session
        if memory is not None:
            memory = whole_number("memory", memory, 1, "a number of bytes")
        elif session is not None:
            memory = session.memory
        bound = running.pinned(self._content_plan, snapshot, tag, timestamp)
        found = running.run(bound, memory=memory, cancellation=cancellation)
        return outcome.shown(found, self.fields)

    def to_arrow(
        self,
        engine: Engine | None = None,
        *,
        snapshot: Snapshots | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        memory: int | None = None,
        cancellation: Cancellation | None = None,
    ) -> pa.Table:
        """Compute the rows as a pyarrow Table; as of `to_batches`."""
        found = self.to_batches(
            engine,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            memory=memory,
            cancellation=cancellation,
        )
        return pa.Table.from_batches(found, self.schema)

    def to_pandas(
        self,
        engine: Engine | None = None,
        *,
        snapshot: Snapshots | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        memory: int | None = None,
        cancellation: Cancellation | None = None,
    ) -> Any:
        """Compute the rows as a pandas DataFrame; as of `to_batches`.

        Raises:
            MissingExtraError: pandas is not installed.
            UnsupportedError: there is a date or time before the year 1 or after 9999.
        """
        require_extra("pandas", "pandas", "to_pandas()")
        found = self.to_arrow(
            engine,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            memory=memory,
            cancellation=cancellation,
        )
        try:
            return found.to_pandas()
        except (OverflowError, ValueError) as error:
            raise UnsupportedError(
                f"pandas has no value for a date or time of these rows ({error}): cast it to "
                "STRING, or use to_polars() or to_arrow()"
            ) from None

    def to_polars(
        self,
        engine: Engine | None = None,
        *,
        snapshot: Snapshots | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
        memory: int | None = None,
        cancellation: Cancellation | None = None,
    ) -> Any:
        """Compute the rows as a polars DataFrame; as of `to_batches`.

        Raises:
            MissingExtraError: polars is not installed.
        """
        require_extra("polars", "polars", "to_polars()")
        import polars

        found = self.to_arrow(
            engine,
            snapshot=snapshot,
            tag=tag,
            timestamp=timestamp,
            memory=memory,
            cancellation=cancellation,
        )
        return polars.from_arrow(found)

    def to_spark(
        self,
        spark: Any = None,
        *,
        snapshot: Snapshots | None = None,
        tag: str | None = None,
        timestamp: Timestamp | None = None,
    ) -> Any:
        """Give it as a lazy Spark DataFrame.

        Args:
            spark: the session; by default the active one.
            snapshot, tag, timestamp: as of `to_batches`; the tables are bound now.
        """
        engine = spark_engine()
        bound = running.pinned(self._content_plan, snapshot, tag, timestamp)
        return engine.to_spark(running.prepare(bound), spark)

    def count(self) -> int:
        """Count the rows."""
        counted = exp.Select(expressions=[syntax.aliased(syntax.call("count", exp.Star()), "n")])
        counted.set("from_", exp.From(this=composing.subquery(self.tree)))
        number: int = Relation(counted, self.names).to_arrow().column(0)[0].as_py()
        return number

    def show(self, n: int = _SHOWN) -> None:
        """Print the first rows."""
        print(printing.printed(self.limit(n).to_arrow()))

    # Relational base

    def select(self, *columns: object, **named: object) -> Relation:
        """Compute columns.

        Args:
            columns: columns, or SQL text such as ``"a"``, ``"a + b AS c"`` or ``"*"``.
            named: columns by the names that they get.
        """
        values = [*_expressions(columns), *_named(named)]
        if not values:
            raise QueryError("select takes a column at least; '*' is all of them")
        return self._selected(values)

    def filter(self, *conditions: object) -> Relation:
        """Keep the rows for which all conditions are true."""
        if not conditions:
            raise QueryError("filter takes a condition, such as 'a > 10'")
        writer = self._writer()
        wanted = [writer.settled(conditional(each)) for each in conditions]
        made = opened(self.tree)
        where = made.args.get("where")
        wanted = [where.this, *wanted] if where else wanted
        made.set("where", exp.Where(this=syntax.joined(exp.And, wanted)))
        return self._made(made, writer, {name: name for name in self.columns})

    def where(self, *conditions: object) -> Relation:
        """Keep the rows for which all conditions are true; another name of `filter`."""
        return self.filter(*conditions)

    def with_columns(self, *columns: object, **named: object) -> Relation:
        """Add columns, or replace those of the same names; all are computed of the old ones.

        Args:
            columns: columns with names: ``(rel.a + 1).alias("b")`` or ``"a + 1 AS b"``.
            named: columns by name.
        """
        writer = self._writer()
        made = [writer.settled(each) for each in [*_expressions(columns), *_named(named)]]
        values = {self._same(_alias(each)): each for each in made}
        if len(values) < len(made):
            raise QueryError("with_columns gives one column twice: give each name once")
        kept: list[exp.Expr] = []
        for name in self.columns:
            kept.append(values.pop(name, column(name)))
        passed = [name for name in self.columns if name not in map(_alias, made)]
        return self._rewritten([*kept, *values.values()], writer, {name: name for name in passed})

    def drop_columns(self, *names: str) -> Relation:
        """Leave columns out."""
        dropped = {self._name(name) for name in names}
        kept = [name for name in self.columns if name not in dropped]
        if not kept:
            raise QueryError("all columns are dropped: keep one at least")
        return self._selected([column(name) for name in kept])

    def rename_columns(self, names: Mapping[str, str] | None = None, **named: str) -> Relation:
        """Give columns other names: ``{"old": "new"}``, or ``old="new"``."""
        given = {self._name(old): new for old, new in {**(names or {}), **named}.items()}
        renamed = [given.get(name, name) for name in self.columns]
        for name in given.values():
            if renamed.count(name) > 1:
                raise QueryError(
                    f"two columns would be called {name!r}: rename or drop the other one",
                    column_name=name,
                )
        values = [
            syntax.aliased(column(old), new) for old, new in zip(self.columns, renamed, strict=True)
        ]
        return self._selected(values)

    def group_by(self, *keys: object) -> Grouped:
        """Bring rows of equal keys together: then ``agg`` or ``select``.

        Args:
            keys: columns or SQL text; `rollup`, `cube` and `grouping_sets` of
                `pkray.relational` among them. Without keys all rows are one group.
        """
        return Grouped(self, _flattened(keys))

    def distinct(self) -> Relation:
        """Keep one of equal rows."""
        made = opened(self.tree)
        made.set("distinct", exp.Distinct())
        return self._made(made, self._writer(), {name: name for name in self.columns})

    def order_by(self, *columns: object) -> Relation:
        """Order the rows: ``rel.order_by(rel.a.desc(), "b ASC NULLS LAST")``."""
        keys = [ordering(each) for each in _flattened(columns)]
        if not keys:
            raise QueryError("order_by takes a column at least")
        writer = self._writer()
        made = opened(self.tree)
        made.set("order", exp.Order(expressions=[writer.ordering(key) for key in keys]))
        return self._made(made, writer, {name: name for name in self.columns})

    def limit(self, n: int, offset: int = 0) -> Relation:
        """Keep at most so many rows.

        Args:
            offset: how many rows are left out before.
        """
        start = self.offset(offset) if offset else self
        _check_count("n", n)
        made = rewriting.limitable(start.tree, ("limit",))
        made.set("limit", exp.Limit(expression=exp.Literal.number(n)))
        return self._made(made, self._writer(), {name: name for name in self.columns})

    def offset(self, n: int) -> Relation:
        """Leave the first rows out."""
        _check_count("n", n)
        made = rewriting.limitable(self.tree, ("limit", "offset"))
        made.set("offset", exp.Offset(expression=exp.Literal.number(n)))
        return self._made(made, self._writer(), {name: name for name in self.columns})

    def alias(self, name: str) -> Relation:
        """Give it a name for SQL text: ``left.alias("o").join(…, "o.id = l.id")``.

        Columns that were taken from it before are not those of the alias.
        """
        item: exp.Expr = composing.subquery(self.tree, name)
        table = composing.table_of(self.tree)
        if table is not None:
            item = table.copy()
            item.set("alias", exp.TableAlias(this=identifier(name)))
        return Relation(star(item), self.names)

    # Sets

    def union(self, *others: Relation, all: bool = False) -> Relation:
        """Unite rows: each once, or with `all` as often as they occur."""
        return self._with_others(exp.Union, others, all)

    def intersect(self, *others: Relation, all: bool = False) -> Relation:
        """Keep rows that the others have too."""
        return self._with_others(exp.Intersect, others, all)

    def except_(self, *others: Relation, all: bool = False) -> Relation:
        """Leave out rows that the others have."""
        return self._with_others(exp.Except, others, all)

    # Joins

    def join(
        self,
        right: Relation | AsOf,
        on: object = None,
        how: How = "inner",
        suffixes: Sequence[str] | None = None,
    ) -> Relation:
        """Pair rows with those of another relation.

        Args:
            right: the other; ``right.as_of(left.order_time)`` is its version at that time.
            on: names of columns that both have, which come out once; or conditions, as columns
                (``left.id == right.k``) or SQL text, in which a side is called by its alias or its
                table's name, or else ``l`` and ``r``.
            how: what comes of rows without a match; ``semi`` and ``anti`` give left rows alone.
            suffixes: of columns that both sides have, left and right; by default left ones keep
                their names, and right ones get a number: ``id``, ``id0``.

        Raises:
            QueryError: no condition, or one with ``cross``.
        """
        return joining.join(self, right, on, how, suffixes)

    def interval_join(
        self,
        right: Relation,
        on: object,
        left_time: object,
        right_time: object,
        lower: object,
        upper: object,
        how: How = "inner",
    ) -> Relation:
        """Pair rows whose times are near: ``right_time + lower <= left_time <= right_time +
        upper``.

        Args:
            on: as of `join`.
            left_time, right_time: columns of each side.
            lower, upper: durations: text (``"-10 minutes"``), ``lit(10).minutes``, timedelta.
            how: as of `join`.
        """
        return joining.interval_join(self, right, on, left_time, right_time, lower, upper, how)

    def as_of(self, time: object) -> AsOf:
        """Give its version at a time of the rows that it is joined with.

        Args:
            time: a time column of the left side.
        """
        return AsOf(self, time)

    # The methods of the Table API proposal

    def deduplicate(self, keys: object, order_by: object, keep_first: bool = True) -> Relation:
        """Keep the first or the last row of each key.

        Args:
            keys: columns or SQL text, one or a list.
            order_by: a column, from whose least value on rows are first.
        """
        order = exp.Ordered(this=expression(order_by), desc=not keep_first, nulls_first=keep_first)
        return rewriting.numbered(self, listed(keys), [order], (1, 1), with_rank=False)

    def topn(
        self,
        n: int | tuple[int, int],
        partition_by: object = (),
        order_by: object = (),
        with_rank: bool = False,
    ) -> Relation:
        """Keep the first rows of each partition.

        Args:
            n: how many; or from which to which, counted from 1.
            partition_by: columns or SQL text, one or a list; by default all rows are one.
            order_by: as of `order_by`.
            with_rank: add each row's number as ``rownum``.
        """
        numbers = n if isinstance(n, tuple) else (1, n)
        if not 1 <= numbers[0] <= numbers[1]:
            raise OptionError(
                f"topn takes a number of at least 1, or a range such as (2, 5): not {n!r}",
                arguments=("n",),
            )
        order = [ordering(each) for each in listed(order_by)]
        if not order:
            raise QueryError("topn takes order_by: which rows are first")
        return rewriting.numbered(self, listed(partition_by), order, numbers, with_rank)

    def window(self, window: Window, *, early: object = None, lateness: object = None) -> Relation:
        """Assign rows to windows of time: adds window_start, window_end and window_time.

        Args:
            window: ``Tumble.over("10 minutes").on("bidtime")``, or a Slide, Session or Cumulate.
            early: a duration of processing time after which aggregates of open windows are given,
                and given again where they change: ``"10 s"``; by default when windows are over.
            lateness: a duration of event time after its end for which a window still takes rows,
                which change what was given.
        """
        return rewriting.windowed(self, window, early, lateness)

    def watermark(self, column: str, delay: str | None = None) -> Relation:
        """Declare how far event time has come: what waits for it waits so long for late rows.

        Args:
            column: of type TIMESTAMP or TIMESTAMP_LTZ.
            delay: for how long: ``5 s``, or an expression of the row in SQL, ``ts - INTERVAL '5'
                SECOND``; by default not at all.

        Raises:
            QueryError: no such column, one of another type, or an expression that is no time.
        """
        time, name = self._name(column), fresh_name("timed")
        mark = watermark(self.fields, time, delayed(time, delay))
        node = WatermarkAssign(self.plan, mark.column, mark.expression)
        names = self.names.with_bound((name,), node)
        return Relation(star(exp.Table(this=identifier(name))), names)

    def hint(self, name: str, options: Mapping[str, str] | None = None) -> Relation:
        """Add a hint: ``OPTIONS`` of a table's read; by alias or column ``STATE_TTL``,
        ``STATEFUL`` (``true``: joins keep the rows of the table, though they could look them up),
        or ``UPDATES`` (``true``: functions with OVER that are ordered by event time give rows at
        once, and change them as others come, instead of when the watermark passes them).

        ``LOOKUP`` names a lookup join's table in ``table``. It remembers rows that were looked up:
        of ``cache.max-rows`` keys, for ``cache.ttl`` (what changes in the table is looked up anew).
        Rows whose key is not there are looked up again: ``retry-predicate`` (``lookup_miss``),
        ``retry-strategy`` (``fixed_delay``), ``fixed-delay`` and ``max-attempts``.

        Raises:
            QueryError: no such hint, or OPTIONS of what is no table.
        """
        return rewriting.hinted(self, name, options or {})

    def dropna(self, thresh: int | None = None, fields: Sequence[str] | None = None) -> Relation:
        """Leave rows with NULLs out.

        Args:
            thresh: how many columns have to be not NULL; by default all, -1 is one at least.
            fields: the columns that count; by default all.
        """
        return missing.dropna(self, thresh, fields)

    def fillna(self, value: object, fields: Sequence[str] | None = None) -> Relation:
        """Put values in the place of NULLs.

        Args:
            value: a constant, or constants by column.
            fields: which columns; by default all of the constant's type.
        """
        return missing.fillna(self, value, fields)

    def replace(self, mapping: Mapping[Any, Any], fields: Sequence[str] | None = None) -> Relation:
        """Put values in the place of others.

        Args:
            mapping: new values by old ones.
            fields: in which columns; by default all of the values' type.
        """
        return missing.replace(self, mapping, fields)

    def sample(self, fraction: float, seed: int | None = None) -> Relation:
        """Keep a part of the rows, the same ones whenever it runs.

        Args:
            fraction: from 0 to 1.
            seed: another gives other rows; by default one by chance, fixed for this relation.
        """
        return sampling.sample(self, fraction, seed)

    def split(self, weights: Sequence[float], seed: int | None = None) -> list[Relation]:
        """Divide the rows: each comes out in one part, the same one whenever it runs.

        Args:
            weights: the shares of the parts.
            seed: as of `sample`.
        """
        return sampling.split(self, weights, seed)

    def map(self, function: Udf, *columns: object) -> Relation:
        """Make one row of each row, by a user's function that gives a ROW.

        Args:
            columns: its arguments; by default all columns.
        """
        return rewriting.map_rows(self, function, columns or self.columns)

    def flat_map(self, function: Udf, *columns: object) -> Relation:
        """Make rows of each row, by a user's table function; as of `map`."""
        return rewriting.flat_map(self, function, columns or self.columns)

    # Continuous queries

    def stream(
        self,
        encoding: Literal["retract", "append", "upsert"] = "retract",
        *,
        trigger: Literal["changes", "available_now"] = "changes",
        name: str | None = None,
        clock: Callable[[], int] | None = None,
    ) -> Any:
        """Follow its rows as its sources change.

        Args:
            encoding: ``retract``, +I, -U and +U in pairs, -D; ``append``, +I alone; ``upsert``, +I,
                +U and -D by key, for which it needs one.
            trigger: ``changes``, on and on; ``available_now``, up to what the sources hold now.
            name: keeps its state and its place under this name, and goes on there; after a crash
                some epochs come again, with the same ``_epoch``. Default: it keeps nothing.
            clock: processing time in epoch milliseconds; default the machine's.

        Returns:
            an iterator of batches of ``_row_kind``, ``_epoch`` and the columns; what the sources
            hold comes first, as +I. Its ``to_ray()`` gives each epoch as a Ray Dataset, its
            ``to_spark(spark)`` all of them as a streaming DataFrame. A context manager: leaving it
            ends the query.

        Raises:
            UnsupportedError: a node does not run continuously, or its changes cannot be told so;
                the error names it.
        """
        return relational.open_stream(self, encoding, trigger, name, clock)

    def foreach_batch(
        self,
        function: Callable[[pa.RecordBatch, int], object],
        name: str,
        *,
        encoding: Literal["retract", "append", "upsert"] = "retract",
        trigger: str = "changes",
        clock: Callable[[], int] | None = None,
    ) -> Any:
        """Call a function for the changes of each epoch, for systems outside.

        Args:
            function: takes a batch as of `stream`, and the number of the epoch; after a crash it
                is called again for some epochs, with the same numbers.
            name: of the query, which keeps its state and its place under it.
            encoding, clock: as of `stream`.
            trigger: as of `materialize`.

        Returns:
            the query.

        Raises:
            As `stream`; and QueryExistsError: there is a query of this name with another plan.
        """
        return relational.held(
            relational.for_each_batch(self, function, name, encoding, trigger, clock)
        )

    def materialize(
        self,
        name: str,
        *,
        primary_key: ColumnNames | None = None,
        options: Options | None = None,
        trigger: str = "changes",
        max_rows: int | None = None,
        strict: bool = False,
        on_error: Literal["stop", "skip"] = "stop",
        clock: Callable[[], int] | None = None,
        on_failure: Callable[[dict[str, Any]], object] | None = None,
        backfill: Engine | None = None,
        replace: bool = False,
    ) -> Any:
        """Keep a keyed table up to date with its rows.

        The table is created where it is not there. Its key is the plan's unique key; where that may
        be NULL, or there is none, a first column ``_row_key`` that tells rows apart. Rows that an
        earlier query, dropped since, left in the table are replaced in one commit.

        Args:
            name: of the table, and of the query.
            primary_key: columns of the table's key instead; a NULL in them stops the query.
            options: of the table, if it is created.
            trigger: ``changes``, ``available_now`` or an interval such as ``5 s``.
            max_rows: most changed rows of tables that one epoch takes.
            on_error: a row that cannot be computed stops the query, or is skipped and kept, with
                the reason, in ``name$errors``.
            strict: refuse a plan whose result depends on more than its sources' content.
            clock: processing time in epoch milliseconds; default the machine's.
            on_failure: called with ``query``, ``node``, ``error`` and ``epoch`` when the query
                fails, where this process runs it. ``SET 'query.failure-url'`` has the same posted
                to a URL, from wherever it runs.
            backfill: which engine reads what the tables hold when the query begins: ``local``, in
                the query; ``spark``, on the session that is active in this process, in parallel,
                with what computes row by row, Python functions among it. Default the setting
                ``query.backfill-engine``, else ``local``.
            replace: begin anew: a query of this name is dropped, and one commit has the whole
                content of the table go for the result, whoever wrote it.

        Returns:
            the query; one that is there with this name and plan goes on.

        Raises:
            QueryExistsError: there is one of this name with another plan.
            SharedResultError: others have written to the table, and `replace` is false.
            SchemaError: the table is there and has other columns or another key.
            UnsupportedError: a node does not run continuously; with `strict` one is excepted from
                the claim that the result equals the bounded one.
        """
        made = relational.materialize(
            self,
            name,
            primary_key,
            options,
            trigger,
            max_rows,
            strict,
            on_error,
            clock,
            on_failure,
            backfill,
            replace,
        )
        return relational.held(made)

    # Plans

    def compile_plan(self, into: str | None = None) -> Any:
        """Write its plan as JSON.

        Args:
            into: the table that its rows go to.
        """
        return relational.Plan.from_compiled(relational.compile_relation(self, into))

    # How methods write

    def _writer(self) -> Writer:
        return Writer([Side(self)], self.names)

    def _made(self, tree: exp.Query, writer: Writer, passed: Mapping[str, str]) -> Relation:
        return Relation(tree, writer.names, passed_on(self.origins, passed))

    def _selected(self, values: Sequence[exp.Expr]) -> Relation:
        writer = self._writer()
        settled = [writer.settled(each) for each in values]
        passed: dict[str, str] = {}
        for each in settled:
            bare = each.this if isinstance(each, exp.Alias) else each
            if isinstance(bare, exp.Star):
                passed |= {name: name for name in self.columns}
            elif isinstance(bare, exp.Column) and not bare.table:
                passed.setdefault(bare.name, each.alias_or_name)
        return self._rewritten(settled, writer, passed)

    def _rewritten(
        self, values: Sequence[exp.Expr], writer: Writer, passed: Mapping[str, str]
    ) -> Relation:
        made = opened(self.tree)
        made.set("expressions", list(values))
        return self._made(made, writer, passed)

    def _with_others(
        self, kind: type[exp.SetOperation], others: Sequence[Relation], all: bool
    ) -> Relation:
        if not others:
            raise QueryError(f"{kind.__name__.lower()} takes another relation")
        names, tree = self.names, self.tree
        for other in others:
            names, taken = composing.absorbed(names, other)
            tree = kind(
                this=composing.select_of(tree),
                expression=composing.select_of(taken),
                distinct=not all,
            )
        return Relation(tree, names, self.origins)

    def _name(self, name: object) -> str:
        """Find a column's name as it is written in the plan."""
        if isinstance(name, str) and name in self.fields:
            return name
        found = self._same(name) if isinstance(name, str) else None
        if found is None or found not in self.fields:
            known = self.columns
            hint = nearest(str(name), known) or f"; there are {', '.join(known)}"
            raise ColumnNotFoundError(
                f"no column is called {name!r}{hint}", column_name=name, nearest=known
            )
        return found

    def _same(self, name: str) -> str:
        """Give the name of the column that this name replaces; itself if there is none."""
        if name in self.fields or self.dialect is Dialect.FLINK:
            return name
        matching = (each for each in self.columns if each.lower() == name.lower())
        return next(matching, name)


def of_query(tree: exp.Query, names: Environment) -> Relation:
    """Make a relation of a query's syntax."""
    return Relation(tree, names)


def of_table(table: Table) -> Relation:
    """Make a relation of a table, or a branch."""
    return of_node(tuple(table.name.split(".", 1)), table_scan(table))


def of_system_table(table: SystemTable) -> Relation:
    """Make a relation of a system table."""
    return of_node(tuple(table.name.split(".", 1)), Scan(SystemSource(table)))


def of_source(source: Source, dialect: Dialect = Dialect.SPARK) -> Relation:
    """Make a relation of a source."""
    return of_node((source.name,), Scan(source), dialect)


def of_node(parts: tuple[str, ...], node: Node, dialect: Dialect = Dialect.SPARK) -> Relation:
    """Make a relation of what a plan's node gives, under a name."""
    db = identifier(parts[0]) if len(parts) > 1 else None
    table = exp.Table(this=identifier(parts[-1]), db=db)
    return Relation(star(table), Environment(dialect).with_bound(parts, node))


def _expressions(values: Sequence[object]) -> list[exp.Expr]:
    return [expression(each) for each in _flattened(values)]


def _named(values: Mapping[str, object]) -> list[exp.Expr]:
    return [
        exp.Alias(this=_bare(expression(value)), alias=identifier(name))
        for name, value in values.items()
    ]


def _bare(value: exp.Expr) -> exp.Expr:
    return value.this if isinstance(value, exp.Alias) else value


def _flattened(values: Sequence[object]) -> list[object]:
    return [each for value in values for each in listed(value)]


def _alias(value: exp.Expr) -> str:
    name = value.alias_or_name
    if not name or not isinstance(value, exp.Alias | exp.Column):
        raise QueryError(
            f"a column that is added has no name: write .alias('name') after "
            f"{value.sql(dialect='spark')}, or give it as name=…"
        )
    return name


def _check_count(argument: str, value: int) -> None:
    if value < 0:
        raise OptionError(
            f"{argument} cannot be {value}: give 0 or more", value=value, arguments=(argument,)
        )
