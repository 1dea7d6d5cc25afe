"""Bound the memory that an owner may use."""

from __future__ import annotations

from typing import Protocol


class Memory(Protocol):
    """Says what an owner may use now, of what its table's options give it."""

    def for_rows(self, wanted: int) -> int:
        """Return the bytes that rows of one session may take before they are flushed."""
        ...

    def for_flushed(self, wanted: int) -> int:
        """Return the bytes that flushed rows may take that are kept for compactions."""
        ...


class OwnMemory:
    """Lets an owner use what its table's options give it."""

    def for_rows(self, wanted: int) -> int:
        return wanted

    def for_flushed(self, wanted: int) -> int:
        return wanted
