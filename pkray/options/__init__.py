"""Define table options: Paimon's keys, their defaults and meaning, and a typed view of them.

A module a subject (``merging``, ``compaction``, ``changelog`` …) has a frozen dataclass whose
fields are made by `option`: key, kind of value, default, meaning. `TableOptions` is all of them in
one, plus ``fields.*`` by column. ``catalogue`` lists them for users; ``idle_options`` names those
that change nothing of a table; ``immutable`` those that a table cannot change. Unknown keys are
refused, with the nearest known one.
"""

from pkray.options.buckets import DYNAMIC
from pkray.options.fields import field_catalogue
from pkray.options.idle import idle_options
from pkray.options.table_options import TableOptions, as_options, catalogue

__all__ = ["DYNAMIC", "TableOptions", "as_options", "catalogue", "field_catalogue", "idle_options"]
