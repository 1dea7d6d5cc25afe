"""Feed a plan with the changes of all its sources, epoch by epoch."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from pkray import errors
from pkray.relational.continuous.changes import Changes, concatenated
from pkray.relational.continuous.feeds.beginnings import EVERYTHING, Beginning
from pkray.relational.continuous.feeds.feed import (
    NOTHING,
    TRIES,
    Bounds,
    Feed,
    FixedFeed,
    PushedFeed,
    StreamFeed,
)
from pkray.relational.continuous.feeds.table_feed import PinnedFeed, TableFeed
from pkray.relational.plan.json.writer import in_order, shared_nodes
from pkray.relational.plan.nodes import Node, Scan, Values
from pkray.relational.sources.changelog import ChangelogSource
from pkray.relational.sources.streamed import StreamedSource
from pkray.relational.sources.table import TableSource
from pkray.storage.object_store import ObjectStore, together

PART_ROWS = 1 << 18
"""Rows that the operators are given at a time: enough that calling them costs nothing beside their
work, and few enough for their copies to fit in memory."""


def feed_of(scan: Scan | Values) -> Feed:
    """Make the feed of what a plan reads.

    Raises:
        UnsupportedError: the source has no changes.
    """
    if isinstance(scan, Values):
        return FixedFeed("VALUES")
    match scan.source:
        case ChangelogSource():
            return PushedFeed(scan.source)
        case TableSource() if scan.source.reads_changes:
            raise errors.UnsupportedError(
                f"{scan.source.name} is read between two snapshots: such a query runs bounded",
                table=scan.source.name,
            )
        case TableSource():
            return TableFeed(scan.source) if scan.source.at.is_latest else PinnedFeed(scan.source)
        case StreamedSource():
            return StreamFeed(scan.source)
    return FixedFeed(scan.source.name)


class Feeds:
    """Reads all sources of a plan, epoch by epoch.

    Args:
        scans: what the plan reads, by number.
        max_rows: most changed rows of a table that an epoch takes; None: no bound.
        worker, workers: the number of the worker that reads, and how many there are.
    """

    def __init__(
        self,
        scans: Mapping[int, Scan | Values],
        max_rows: int | None = None,
        worker: int = 0,
        workers: int = 1,
    ) -> None:
        self._max_rows = max_rows
        self._beginnings: dict[str, Beginning] = {}
        self._scans = scans
        self._keys: dict[int, str] = {}
        self.feeds: dict[str, Feed] = {}
        self._names: dict[Any, str] = {}
        known = self._names
        for number, scan in scans.items():
            source = scan.source if isinstance(scan, Scan) else number
            if source not in known:
                feed = feed_of(scan)
                feed.worker, feed.workers = worker, workers
                known[source] = _fresh(feed.name, self.feeds)
                self.feeds[known[source]] = feed
            self._keys[number] = known[source]
            self.feeds[known[source]].read_by(number, scan)

    def beginnings(self) -> dict[str, Beginning]:
        """Find where the sources that say so begin; of others everything is read."""
        found = {name: feed.beginning() for name, feed in self.feeds.items()}
        return {name: each for name, each in found.items() if each != EVERYTHING}

    def begin(self, beginnings: Mapping[str, Beginning] | None = None) -> None:
        """Set where the first epoch begins; default where it would begin now."""
        self._beginnings = self.beginnings() if beginnings is None else dict(beginnings)

    def first_positions(self) -> dict[str, int]:
        """Give the positions after which the first epoch reads; -1: all that there is."""
        return {name: self._beginnings.get(name, EVERYTHING)[0] for name in self.feeds}

    def next(
        self,
        positions: Mapping[str, int],
        held: Collection[str] = (),
        marks: Mapping[str, str] | None = None,
    ) -> dict[str, Bounds] | None:
        """Choose what the next epoch reads; None where nothing is new.

        Changes pushed in memory come one push an epoch, in the order of the pushes; of tables all
        that is new, or one snapshot where they wait for each other.

        Args:
            held: sources that are not read on.
            marks: of the positions.

        Raises:
            QueryDivergedError: a source was rolled back.
        """
        newest = dict(zip(self.feeds, self._newest(), strict=True))
        for name, at in positions.items():
            stirred = name in newest and self.feeds[name].stirred()
            if name in newest and (newest[name] < at or (newest[name] == at and stirred)):
                self.feeds[name].check(at, (marks or {}).get(name))
        new = {
            name: self._next(name, positions.get(name), positions[name] if name in held else at)
            for name, at in newest.items()
        }
        moved = {name: bounds for name, bounds in new.items() if bounds[1] > bounds[0]}
        pushed = [name for name in moved if isinstance(self.feeds[name], PushedFeed)]
        if positions and pushed:
            first = min(pushed, key=lambda name: self._stamp(name, moved[name][1]))
            moved = {name: at for name, at in moved.items() if name == first or name not in pushed}
        if not positions:
            begun = {name: at for name, at in new.items() if at[0] > NOTHING}
            moved = {name: (at[0], 0 if name in pushed else at[1]) for name, at in moved.items()}
            moved |= begun
            waits = all(isinstance(self.feeds[each], StreamFeed) for each in moved)
            if waits and not any(newest.values()):
                return None  # no stream has brought anything yet
        return {name: moved.get(name, _same(new[name])) for name in new} if moved else None

    def _next(self, name: str, position: int | None, newest: int) -> Bounds:
        if position is not None:
            most = self._max_rows if self.feeds[name].pace.group is None else 1
            return position, self.feeds[name].next(position, newest, most)
        after, until = self._beginnings.get(name, EVERYTHING)
        last = newest if until is None else min(newest, until)
        return after, self.feeds[name].next(after, max(last, after), self._max_rows)

    def _newest(self) -> list[int]:
        """Find the newest positions of all at one instant: until none moves between two looks."""
        found = [feed.newest() for feed in self.feeds.values()]
        for _ in range(TRIES if len(found) > 1 else 0):
            again = [feed.newest() for feed in self.feeds.values()]
            if again == found:
                break
            found = again
        return found

    def _stamp(self, name: str, until: int) -> int:
        feed = self.feeds[name]
        assert isinstance(feed, PushedFeed)
        return feed.source.stamps[until - 1]

    def name_of(self, source: object) -> str:
        """Give the name under which positions of a source are kept."""
        return self._names[source]

    def ended(self, positions: Mapping[str, int]) -> set[str]:
        """List the sources that have been read to their end."""
        return {
            name
            for name, feed in self.feeds.items()
            if feed.is_finished and positions.get(name, NOTHING) >= feed.newest()
        }

    def names_of(self, scans: Iterable[int]) -> set[str]:
        """Name the sources of scans."""
        return {self._keys[number] for number in scans}

    def scans_of(self, names: Collection[str]) -> set[int]:
        """List the numbers of the scans of sources."""
        return {number for number, name in self._keys.items() if name in names}

    def changing(self, positions: Mapping[str, int]) -> dict[str, int]:
        """Leave out sources that never change, unless there are no others."""
        fixed = {name for name, feed in self.feeds.items() if feed.is_fixed}
        return {n: at for n, at in positions.items() if n not in fixed} or dict(positions)

    def hold(self, reader: str, positions: Mapping[str, int] | None = None) -> None:
        """Keep what comes after positions, and the rows as of them, for a reader.

        Args:
            positions: of all sources; None: as they are now.
        """
        least: dict[str, tuple[int, Feed]] = {}  # two scans of a table may be at different places
        for name, feed in self.feeds.items():
            at = NOTHING if positions is None else positions.get(name, NOTHING)
            what = feed.name if isinstance(feed, TableFeed) else name
            if what not in least or at < least[what][0]:
                least[what] = (at, feed)
        for position, feed in least.values():
            feed.hold(reader, position)

    def check_readable(self, positions: Mapping[str, int]) -> None:
        """Check that sources can be read on from positions.

        Raises:
            SnapshotNotFoundError: what comes after one has expired.
        """
        for name, position in positions.items():
            self.feeds[name].check_readable(position)

    def marks(self, positions: Mapping[str, int]) -> dict[str, str]:
        """Tell what stands at positions from what other histories have there."""
        works = [partial(self.feeds[name].mark, at) for name, at in positions.items()]
        found = zip(positions, self.together(*works), strict=True)
        return {name: mark for name, mark in found if mark is not None}

    @property
    def are_far(self) -> bool:
        """Whether a look for something new sends requests to an object store."""
        return any(store.local_path("") is None for store in self._stores)

    def have_heard(self) -> bool:
        """Whether this process knows of something new, without a look into the stores."""
        return any(feed.has_heard() for feed in self.feeds.values())

    @property
    def _stores(self) -> list[ObjectStore]:
        return [feed.store for feed in self.feeds.values() if feed.store is not None]

    def together(self, *works: Callable[[], Any]) -> list[Any]:
        """Do works that ask the sources and do not depend on each other."""
        stores = self._stores
        return together(stores[0], *works) if stores else [work() for work in works]

    def check(self, positions: Mapping[str, int], marks: Mapping[str, str]) -> None:
        """Check that positions are still those of the sources.

        Raises:
            QueryDivergedError: a source was rolled back, or another is in its place.
        """
        self.together(
            *(
                partial(self.feeds[name].check, positions[name], mark)
                for name, mark in marks.items()
                if name in self.feeds and name in positions
            )
        )

    def forget(self, oldest: Callable[[], Mapping[str, int]]) -> None:
        """Delete what is this query's alone and is read by no run of it any more.

        Args:
            oldest: gives the positions after which a run may begin.
        """
        if not all(feed.has_history for feed in self.feeds.values()):
            for name, position in oldest().items():
                self.feeds[name].forget(position)

    def read(
        self, bounds: Mapping[str, Bounds], without: Collection[int] = ()
    ) -> Iterator[dict[int, Changes]]:
        """Read an epoch: changes by the number of their scan, in parts of some `PART_ROWS` rows.

        Args:
            without: numbers of scans that are not read.
        """
        held: dict[int, list[Changes]] = {}
        rows = 0
        for number, scan in self._scans.items():
            if number in without:
                continue
            key = self._keys[number]
            for changes in self.feeds[key].read_share(bounds[key], scan):
                held.setdefault(number, []).append(changes)
                rows += len(changes)
                if rows >= PART_ROWS:
                    yield self._joined(held)
                    held, rows = {}, 0
        if held:
            yield self._joined(held)

    def _joined(self, held: Mapping[int, list[Changes]]) -> dict[int, Changes]:
        scans = self._scans
        return {each: concatenated(scans[each].fields, parts) for each, parts in held.items()}

    def lag(self, positions: Mapping[str, int]) -> dict[str, dict[str, float]]:
        """Say of each source how far the result is behind: ``snapshots`` and ``seconds``."""
        found = {}
        for name, feed in self.feeds.items():
            snapshots, seconds = feed.lag(positions.get(name, NOTHING))
            found[name] = {"snapshots": snapshots, "seconds": round(seconds, 3)}
        return found

    def untold(self) -> dict[str, dict[str, Any]]:
        """Say of the sources that are to be compacted before they can be read on: ``snapshot``, the
        newest one, and ``full``, whether compactions have to be full ones."""
        found = {name: feed.untold() for name, feed in self.feeds.items()}
        return {name: untold for name, untold in found.items() if untold is not None}

    @property
    def is_finished(self) -> bool:
        """Whether no source changes after what there is now."""
        return all(feed.is_finished for feed in self.feeds.values())

    @property
    def is_filling(self) -> bool:
        """Whether more of what the sources held when the query began is still on its way."""
        return any(feed.is_filling for feed in self.feeds.values())


def scans_of(roots: Sequence[Node]) -> dict[int, Scan | Values]:
    """List what plans read, by the numbers of the nodes."""
    nodes = enumerate(in_order(shared_nodes(roots)), 1)
    return {number: node for number, node in nodes if isinstance(node, Scan | Values)}


def _same(bounds: Bounds) -> Bounds:
    return bounds[0], bounds[0]


def _fresh(name: str, taken: Mapping[str, Feed]) -> str:
    return name if name not in taken else _fresh(f"{name}'", taken)
