"""Does what the console may do beside reading, where that is allowed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pkray.api.catalog import Catalog

_STOP_SECONDS = 60.0


def _compact(catalog: Catalog, name: str) -> dict[str, Any]:
    made = catalog.load_table(name).compact()
    return {"done": "compacted" if made else "there was nothing to be compacted"}


def _expire(catalog: Catalog, name: str) -> dict[str, Any]:
    catalog.load_table(name).expire_snapshots()
    return {"done": "old snapshots have expired, as the table's options say"}


def _stop(catalog: Catalog, name: str) -> dict[str, Any]:
    catalog.query(name).stop(_STOP_SECONDS)
    return {"done": "stopped"}


def _resume(catalog: Catalog, name: str) -> dict[str, Any]:
    catalog.query(name).resume()
    return {"done": "resumed"}


def _accept(catalog: Catalog, name: str) -> dict[str, Any]:
    catalog.query(name).accept()
    return {"done": "accepted"}


def _rollback(catalog: Catalog, name: str) -> dict[str, Any]:
    catalog.query(name).rollback(_STOP_SECONDS)
    return {"done": "the plan before the upgrade has taken over"}


def upgrade(catalog: Catalog, name: str, text: str) -> dict[str, Any]:
    """Ask for an upgrade to a newer SELECT; whoever runs the query carries it out."""
    catalog.query(name).upgrade(text, wait=False)
    return {"done": "asked for: the page says how far it is"}


CHANGES: Mapping[tuple[str, str], Callable[[Catalog, str], dict[str, Any]]] = {
    ("table", "compact"): _compact,
    ("table", "expire"): _expire,
    ("query", "stop"): _stop,
    ("query", "resume"): _resume,
    ("query", "accept"): _accept,
    ("query", "rollback"): _rollback,
}
"""By the kind of a thing and what is done to it; the browser asks before each."""
