"""A table and what is written to it, as JSON that runs again."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from tests.interop_java.both import Row


@dataclass(frozen=True)
class Batch:
    """What one commit brings.

    Args:
        rows: kind and plain values.
        full: whether it compacts all.
        change: of the schema before it: ``add`` a column with a type, ``drop`` one, ``rename`` one
            to a name, ``change`` one to a type.
    """

    rows: list[Row]
    full: bool
    change: list[str] | None = None


@dataclass(frozen=True)
class History:
    """A table and the commits to it.

    Args:
        columns: type by name.
        unordered: columns of lists whose order Java's hash tables give.
    """

    columns: dict[str, str]
    primary_keys: list[str]
    partition_keys: list[str]
    options: dict[str, str]
    batches: list[Batch]
    unordered: list[str]

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> History:
        said = json.loads(text)
        return cls(**{**said, "batches": [Batch(**batch) for batch in said["batches"]]})
