"""Sends requests to an object store side by side; work on a local disk is done in turn."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from pkray import spans
from pkray.storage.object_store import ObjectStore

T = TypeVar("T")
R = TypeVar("R")


def each(store: ObjectStore, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Do the same work for items; return what is made of each, in their order.

    Raises:
        Exception: the first item's that failed, in their order, once all that began have ended.
    """
    return list(ahead(store, work, items))


def ahead(store: ObjectStore, work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """Yield what is made of each item, in their order; as many at a time as the store takes."""
    if store.local_path("") is not None:
        yield from map(work, items)
        return
    left = iter(items)
    first = list(islice(left, store.parallel_requests))
    if len(first) < 2:
        yield from map(work, first)
        return
    done = spans.carried(work)
    with ThreadPoolExecutor(len(first), "pkray-requests") as pool:
        while first:
            yield from pool.map(done, first)
            first = list(islice(left, store.parallel_requests))


def together(store: ObjectStore, *works: Callable[[], Any]) -> list[Any]:
    """Do some works that do not depend on each other; return their results.

    Raises:
        Exception: the first work's that failed, in their order, once all have ended. On a local
            disk those after it have not begun.
    """
    return each(store, lambda work: work(), works)
