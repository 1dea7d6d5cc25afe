"""What the modules of hashes share."""

from __future__ import annotations

from collections.abc import Sequence

from pkray.relational.functions.function import Family, Value

Values = Sequence[Value]
HASHING = Family("hashing")
