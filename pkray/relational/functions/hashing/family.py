"""Share names among the modules of hashes."""

from collections.abc import Sequence

from pkray.relational.functions.function import Family, Value

Values = Sequence[Value]
HASHING = Family("hashing")
