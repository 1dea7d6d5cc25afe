"""The streams from outside that queries read, and what feeds them in this process."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from pkray.clock import now_millis
from pkray.errors import UnsupportedError
from pkray.relational.plan.nodes import Node, Scan
from pkray.relational.plan.scans import scans_in
from pkray.relational.sources.streamed import Feeding, RunningFeeder, StreamedSource
from pkray.storage.object_store import ObjectStore
from pkray.storage.spool import Spool

SILENT_MILLIS = 15_000
"""A feeder that has said nothing for so long is gone with its process."""


def streams_in(roots: Sequence[Node]) -> list[StreamedSource]:
    """List the streams that plans read, each once."""
    sources = (scan.source for scan in scans_in(roots))
    streams = (each for each in sources if isinstance(each, StreamedSource))
    return list(dict.fromkeys(streams))


def in_query(roots: tuple[Node, ...], folder: ObjectStore, begun: str = "") -> tuple[Node, ...]:
    """Have the streams of plans be read from the folder of a query.

    Args:
        begun: the incarnation that was begun with the streams: it has the batches.

    Raises:
        UnsupportedError: two sources have the name of one stream.
    """
    streams = streams_in(roots)
    if not streams:
        return roots
    names = [source.name for source in dict.fromkeys(scan.source for scan in scans_in(roots))]
    twice = [each.name for each in streams if names.count(each.name) > 1]
    if twice:
        raise UnsupportedError(
            f"two sources of the query are called {twice[0]}: give the stream another name, as of "
            "pkray.spark.relation(stream, name=…)",
            stream=twice[0],
        )
    bound = {each: each.in_query(folder, begun) for each in streams}

    def bind(node: Node) -> Node:
        if isinstance(node, Scan) and isinstance(node.source, StreamedSource):
            return replace(node, source=bound[node.source])
        return node

    return tuple(root.transform(bind) for root in roots)


def start_feeders(
    roots: Sequence[Node], feeding: Callable[[StreamedSource], Feeding]
) -> list[RunningFeeder]:
    """Begin to feed the streams of this process; those of others are fed there."""
    running = []
    with ExitStack() as undo:
        for source in streams_in(roots):
            if source.feeder is not None and source.spool is not None:
                spool = Spool(source.spool.store, source.spool.owner)
                feeder = source.feeder.start(source, spool, feeding(source))
                undo.callback(feeder.stop)
                running.append(feeder)
        undo.pop_all()
    return running


def feeding_status(folder: ObjectStore, names: Sequence[str]) -> dict[str, Any]:
    """Say of each stream what its feeder does: ``running``, ``ended``, ``stopped``, ``failed``, or
    ``waiting`` for the program that feeds it.
    """
    found = {}
    for name in names:
        feeder = Spool(folder.child(f"streams/{name}")).feeder()
        silent = feeder is None or now_millis() - feeder.time > SILENT_MILLIS
        is_lost = feeder is None or (feeder.state == "running" and silent)
        found[name] = "waiting" if is_lost or feeder is None else feeder.state
    return found
