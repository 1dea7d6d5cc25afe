"""A plan as operators: changes of sources go in, changes of the roots come out."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from pkray.errors import UnsupportedError
from pkray.options.values import duration_millis
from pkray.relational.continuous.changes import Changes, taken_away
from pkray.relational.continuous.exchange.peers import Peers, alone
from pkray.relational.continuous.log import skipped_rows
from pkray.relational.continuous.log.late_rows import LateRows, late_name, late_spec
from pkray.relational.continuous.log.skipped_rows import SkippedRows
from pkray.relational.continuous.operator import Context, Epoch, Late, Operator, RowsOf, no_rows
from pkray.relational.continuous.operators.catalogue import operator_of
from pkray.relational.continuous.operators.stateless import Watermarks
from pkray.relational.continuous.state.encoding import encoded
from pkray.relational.continuous.state.state import KEY, State, StateSpec
from pkray.relational.continuous.watermarks import LAST_WATERMARK, next_watermarks
from pkray.relational.plan import nodes
from pkray.relational.plan.changelog_modes import ChangelogMode
from pkray.relational.plan.json.writer import in_order, modes_of, shared_nodes
from pkray.relational.plan.nodes import Exchange, Join, Node, Scan, Values, Window
from pkray.relational.plan.physical import exchange_keys
from pkray.relational.plan.state import state_ttls

Names: TypeAlias = AbstractSet[str]
OpenState = Callable[[str, StateSpec, int], State]
"""Opens a state: its name (``3``, ``3_right``), what it holds, its TTL in milliseconds."""
Watch = Callable[[Node, ChangelogMode, Changes], object]
WATCHES: list[Watch] = []
"""Called with the changes of each node. Tests check schemas and kinds by it; else it is empty."""


def without_unread(order: Sequence[nodes.Node], roots: Collection[int]) -> Mapping[int, nodes.Node]:
    """Find the nodes that are to be computed with fewer columns, as nothing above reads them.

    An array that a table function repeats beside each of its n elements costs n times n. Bounded
    plans say what comes out, `Unnest.keeps`; the files of continuous plans say it of none, so that
    it is found when their operators are made.

    Args:
        order: all nodes, inputs before what takes them.
        roots: ``id`` of those whose columns all are read.

    Returns:
        by the ``id`` of a node what is computed in its place; of nodes without a table function
        below them nothing.
    """
    read = {id(node): set(node.fields.names) if id(node) in roots else set() for node in order}
    for node in reversed(order):
        for each in node.inputs:
            read[id(each)] |= _read_of(each, node, read[id(node)])
    found: dict[int, nodes.Node] = {}
    for node in order:
        fewer = node
        if isinstance(node, nodes.Unnest) and node.keeps is None:
            names = node.input.fields.names
            if not read[id(node)].issuperset(names):
                fewer = replace(node, keeps=tuple(n for n in names if n in read[id(node)]))
        if any(id(each) in found for each in node.inputs):
            fewer = fewer.with_inputs(*(found.get(id(each), each) for each in node.inputs))
        if fewer is not node:
            found[id(node)] = fewer
    return found


def _read_of(node: nodes.Node, taker: nodes.Node, read: Names) -> Names:
    """Say what a node reads of its input, if so much is read of it; unless told otherwise, all."""
    match taker:
        case nodes.Project():
            return {name for value in taker.expressions() for name in value.columns()}
        case nodes.Filter():
            return read | taker.condition.columns()
        case nodes.Exchange():
            return read | set(taker.keys)
        case nodes.Hint():
            return read
        case nodes.Unnest():
            return (read - set(taker.names)) | set(taker.arguments)
        case nodes.Aggregate() if (
            not taker.judges_lateness() and taker.input.window_bounds() is None
        ):
            return set(taker.columns_read())
    return set(node.fields.names)


@dataclass
class Stage:
    """One operator among others.

    Attributes:
        number: of the node in the compiled plan, from 1.
        inputs: numbers of the stages that it takes changes of.
        states: by their names.
        late: the rows that came late, by the state that keeps them.
        rows_in, rows_out: changes so far.
        watermark: event time in microseconds that its inputs had passed when the epoch began.
        next_watermark: what they have passed at its end; until then the same.
        seconds: of work so far.
    """

    number: int
    node: Node
    operator: Operator
    inputs: tuple[int, ...]
    states: dict[str, State]
    late: dict[str, LateRows]
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    watermark: int | None = None
    next_watermark: int | None = None

    @property
    def tells_time(self) -> bool:
        """Whether event time follows the rows that pass it."""
        return isinstance(self.operator, Watermarks)

    @property
    def own_watermark(self) -> int | None:
        """Give the event time of the rows that passed it, where it tells time."""
        return self.operator.watermark if isinstance(self.operator, Watermarks) else None

    def in_time(self, epoch: Epoch) -> Epoch:
        """Give the epoch with this operator's watermarks."""
        return replace(epoch, watermark=self.watermark, next_watermark=self.next_watermark)


class Graph:
    """The operators of a plan. For one thread.

    Attributes:
        scans: what changes come from, by number.
        running: the stage that works; after an error the one that failed.
        most_rows: that one operator was given in the last call.
        wakes_at: processing time in milliseconds at which an epoch is to be run even if nothing
            changes; None: never.

    Args:
        roots: physical plans; what is equal in several of them runs once.
        before: of each root, whether what takes its changes needs the rows before updates.
        open_state: opens the states.
        ttl: of states for which neither hint nor plan says another.
        ttls: as the compiled plan says them, by a node's number: one a state.
        rows_of: gives the rows of a source by key, where it can.
        skips: whether rows that cannot be computed one by one are left out, and kept aside.
        peers: the workers that have the other shares of the plan; None: this one has all.
    """

    def __init__(
        self,
        roots: Sequence[Node],
        before: Sequence[bool],
        open_state: OpenState,
        ttl: str = "0 ms",
        ttls: Mapping[int, Sequence[str]] | None = None,
        rows_of: RowsOf = no_rows,
        skips: bool = False,
        peers: Peers | None = None,
    ) -> None:
        self._peers = peers or alone()
        self.most_rows = 0
        skipped = (
            SkippedRows(open_state(skipped_rows.NAME, skipped_rows.SPEC, 0)) if skips else None
        )
        shared = shared_nodes(roots)
        order = list(in_order(shared))
        modes = modes_of(shared, before)
        numbers = {id(node): number for number, node in enumerate(order, 1)}
        self._modes = {number: modes[id(node)] for number, node in enumerate(order, 1)}
        feeding = _feeding_state(order)
        fewer = without_unread(order, [id(root) for root in shared])
        self.stages: list[Stage] = []
        self.running: Stage | None = None
        self.scans: dict[int, Scan | Values] = {}
        self._roots = [numbers[id(root)] for root in shared]
        for number, node in enumerate(order, 1):
            if isinstance(node, Scan | Values):
                self.scans[number] = node
                continue
            said = (ttls or {}).get(number) or state_ttls(node, ttl)
            opened: dict[str, State] = {}
            late = self._late_rows(number, node, open_state)
            context = Context(
                modes[id(node)],
                tuple(modes[id(each)] for each in node.inputs),
                _opener(number, node, said, open_state, opened),
                expires=any(duration_millis(each) for each in said),
                feeds_state=id(node) in feeding,
                rows_of=rows_of,
                skip=None if skipped is None else _skipping(skipped, number),
                late=_keeping_late(list(late.values())),
            )
            inputs = tuple(numbers[id(each)] for each in node.inputs)
            computed = fewer.get(id(node), node)
            operator = operator_of(computed)(computed, context)
            self.stages.append(Stage(number, computed, operator, inputs, opened, late))
        waking = [each.operator.wakes_at for each in self.stages]
        self.wakes_at = min((each for each in waking if each is not None), default=None)
        self._wakes = self.wakes_at is not None

    def _late_rows(self, number: int, node: Node, open_state: OpenState) -> dict[str, LateRows]:
        """Open the states of the late rows of an operator, one an input."""
        if not node.judges_lateness():
            return {}
        names = [late_name(number, index) for index in range(len(node.inputs))]
        return {
            name: LateRows(open_state(name, late_spec(each.fields), 0))
            for name, each in zip(names, node.inputs, strict=True)
        }

    def run(self, changes: Mapping[int, Changes], epoch: Epoch) -> list[Changes]:
        """Take the changes of one epoch, or of a part of it, through all operators.

        Args:
            changes: by the number in `scans`; those that are left out have none. By the number of
                a stage what it gives, where that was computed elsewhere.

        Returns:
            changes of each root.
        """
        made: dict[int, Changes] = {
            number: changes.get(number, Changes.none(scan.fields))
            for number, scan in self.scans.items()
        }
        for number, scan in self.scans.items():
            self._show(number, scan, made)
        self.most_rows = 0
        for stage in self.stages:
            if stage.number in changes:
                made[stage.number] = changes[stage.number].only(stage.node.fields)
                stage.rows_out += len(made[stage.number])
                self._show(stage.number, stage.node, made)
                continue
            given = self._given(stage, made)
            self.running = stage
            if not stage.operator.passes_any:
                _check_added(stage, given)
            self.most_rows = max(self.most_rows, *map(len, given))
            for state in stage.states.values():
                state.now = epoch.time
            begun = time.perf_counter()
            made[stage.number] = stage.operator.apply(given, stage.in_time(epoch))
            stage.seconds += time.perf_counter() - begun
            self._show(stage.number, stage.node, made)
            stage.rows_in += sum(map(len, given))
            stage.rows_out += len(made[stage.number])
        self.running = None
        return [made[number] for number in self._roots]

    def _show(self, number: int, node: Node, made: Mapping[int, Changes]) -> None:
        for watch in WATCHES:
            watch(node, self._modes[number], made[number])

    def _given(self, stage: Stage, made: Mapping[int, Changes]) -> list[Changes]:
        """Give an operator the changes of its inputs, those of all workers where its keys ask."""
        given = [made[number] for number in stage.inputs]
        for place, node in enumerate(() if self._peers.is_alone else stage.node.inputs):
            if isinstance(node, Exchange):
                keys = stage.operator.key_bytes(place, given[place], node.keys)
                given[place] = self._peers.exchange(given[place], keys, node.fields)
        return given

    def advance(
        self, epoch: Epoch, *, is_last: bool = False, idle: Collection[int] = ()
    ) -> list[Changes]:
        """End an epoch: move every operator's watermark on, so that what waited for it comes.

        Args:
            is_last: whether no source changes any more: everything comes.
            idle: numbers of the scans that hold no watermark back.
        """
        self._agree()
        moved = self._moved(idle)
        for stage in self.stages:
            stage.next_watermark = LAST_WATERMARK if is_last else moved[stage.number]
        made = self.run({}, replace(epoch, ends=True))
        for stage in self.stages:
            stage.watermark = stage.next_watermark
        self._agree_when_to_wake()
        return made

    def _agree_when_to_wake(self) -> None:
        """Find when the first operator of any worker works though nothing changes."""
        if self._wakes:
            told = self._peers.agree([each.operator.wakes_at for each in self.stages])
            known = [each for worker in told for each in worker if each is not None]
            self.wakes_at = min(known, default=None)

    def _agree(self) -> None:
        """Follow the rows of all workers, not this one's alone."""
        followed = [each.operator for each in self.stages if isinstance(each.operator, Watermarks)]
        if not followed:
            return
        told = self._peers.agree([each.watermark for each in followed])
        for each, found in zip(followed, zip(*told, strict=True), strict=True):
            each.watermark = max((mark for mark in found if mark is not None), default=None)

    def _moved(self, idle: Collection[int]) -> dict[int, int | None]:
        return next_watermarks(self.scans, self.stages, idle)

    def moves(self, idle: Collection[int]) -> bool:
        """Whether time goes on where these scans hold no watermark back any more."""
        moved = self._moved(idle)
        return any(stage.watermark != moved[stage.number] for stage in self.stages)

    def root_epoch(self, place: int, epoch: Epoch) -> Epoch:
        """Give the epoch with the watermarks of a root."""
        found = (stage for stage in self.stages if stage.number == self._roots[place])
        return next((stage.in_time(epoch) for stage in found), epoch)

    @property
    def running_node(self) -> str | None:
        """Name the operator that works, or that failed: its number and type."""
        stage = self.running
        return None if stage is None else f"{stage.number} {type(stage.node).__name__}"

    def source_watermarks(self) -> dict[int, int | None]:
        """Say how far the event time of each scan is that has one: microseconds."""
        below = {number: {number} for number in self.scans}
        found: dict[int, int | None] = {}
        for stage in self.stages:
            below[stage.number] = set().union(*(below[number] for number in stage.inputs))
            if stage.tells_time:
                found.update(dict.fromkeys(below[stage.number], stage.own_watermark))
        return found

    def watermarks(self) -> dict[str, int]:
        """List how far event time is, by the number of the node: microseconds."""
        marks = {
            str(stage.number): stage.own_watermark if stage.tells_time else stage.watermark
            for stage in self.stages
        }
        return {number: mark for number, mark in marks.items() if mark is not None}

    def judged_by(self) -> dict[str, int]:
        """List the watermarks of the operators that judge lateness, by number: microseconds."""
        return {
            str(stage.number): stage.watermark
            for stage in self.stages
            if stage.watermark is not None and stage.node.judges_lateness()
        }

    def go_on_at(self, watermarks: Mapping[str, int]) -> None:
        """Set the event time, as `watermarks` gave it at the end of an epoch."""
        for stage in self.stages:
            stage.watermark = watermarks.get(str(stage.number))
            if isinstance(stage.operator, Watermarks):
                stage.operator.watermark = stage.watermark
        moved = self._moved(())  # checkpoints of before had sources alone
        for stage in self.stages:
            stage.watermark = stage.next_watermark = moved[stage.number]

    def exchanged_by(self, name: str, rows: pa.RecordBatch) -> pa.Array:
        """Give for rows of a state the keys by which their changes are exchanged: BINARY.

        Args:
            name: of the state.
            rows: as they are stored: keys, then columns.

        Raises:
            UnsupportedError: nothing in them tells.
        """
        for stage in self.stages:
            if name in stage.states:
                return _exchanged_by(stage, stage.states[name].spec, rows)
        return rows.column(KEY)  # rows that were left out: wherever they are

    def states(self) -> dict[str, State]:
        """List all states by their names."""
        return {name: state for stage in self.stages for name, state in stage.states.items()}


def _check_added(stage: Stage, given: Sequence[Changes]) -> None:
    """Check that an operator that counts on rows being added alone is given no others.

    Raises:
        UnsupportedError: rows are taken away.
    """
    inputs = zip(stage.node.inputs, stage.operator.context.inputs, given, strict=True)
    for node, mode, changes in inputs:
        if mode.is_append and not changes.is_append:
            scans = (each for each in node.walk() if isinstance(each, Scan))
            names = dict.fromkeys(each.source.name for each in scans)
            raise taken_away(f"node {stage.number} ({type(stage.node).__name__})", names)


def _exchanged_by(stage: Stage, spec: StateSpec, rows: pa.RecordBatch) -> pa.Array:
    if spec.exchanged_by is not None:
        return spec.exchanged_by(rows)
    inputs = stage.node.inputs
    keys = exchange_keys(inputs[min(spec.index, len(inputs) - 1)])
    if not keys or (isinstance(stage.node, Join) and stage.node.null_aware):
        return encoded((), rows.num_rows)
    if stage.node.inputs[0].window_bounds() is None and not isinstance(stage.node, Window):
        return rows.column(KEY)
    if not set(keys) <= set(rows.schema.names):
        raise UnsupportedError(
            f"the state of {type(stage.node).__name__} does not tell whose its rows are: its query "
            "keeps as many workers as it has",
            node=type(stage.node).__name__,
        )
    return encoded([rows.column(name) for name in keys], rows.num_rows)


def _skipping(rows: SkippedRows, node: int) -> Callable[[int, pa.RecordBatch, str], None]:
    return lambda epoch, row, error: rows.add(epoch, node, row, error)


def _keeping_late(late: Sequence[LateRows]) -> Late:
    def keep(index: int, changes: Changes, epoch: Epoch) -> None:
        if len(changes):
            late[index].add(changes, epoch)

    return keep


def _feeding_state(order: Sequence[Node]) -> set[int]:
    """List the nodes whose changes an operator with state takes, by their ``id``."""
    found: set[int] = set()
    for node in reversed(order):
        if node.states() or id(node) in found:
            found.update(map(id, node.inputs))
    return found


def _opener(
    number: int, node: Node, ttls: Sequence[str], open_state: OpenState, opened: dict[str, State]
) -> Callable[[StateSpec], State]:
    by_ttl = [index for index, each in enumerate(node.states()) if each.cleaned_by == "ttl"]

    def open_one(spec: StateSpec) -> State:
        name = "_".join(filter(None, [str(number), str(spec.index or ""), spec.name]))
        expires = spec.index in by_ttl and by_ttl.index(spec.index) < len(ttls)
        ttl = duration_millis(ttls[by_ttl.index(spec.index)]) if expires else 0
        opened[name] = open_state(name, spec, ttl)
        return opened[name]

    return open_one
