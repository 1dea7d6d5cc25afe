"""Table options: Paimon's keys, their defaults and meaning, and a typed view of them."""

from pkray.options.buckets import DYNAMIC
from pkray.options.fields import field_catalogue
from pkray.options.idle import idle_options
from pkray.options.table_options import TableOptions, as_options, catalogue

__all__ = ["DYNAMIC", "TableOptions", "as_options", "catalogue", "field_catalogue", "idle_options"]
