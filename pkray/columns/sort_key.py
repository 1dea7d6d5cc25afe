"""By what rows are sorted."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SortKey:
    """One column to sort by."""

    column: str
    descending: bool = False
    nulls_first: bool = True
