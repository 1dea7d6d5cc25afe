"""Table options: Paimon's keys, their defaults and meaning, and a typed view of them."""

from pkray.options.buckets import DYNAMIC
from pkray.options.table_options import TableOptions, catalogue

__all__ = ["DYNAMIC", "TableOptions", "catalogue"]
