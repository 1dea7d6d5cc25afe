"""A catalog with what queries over its tables need."""

from functools import cached_property
from typing import Any

from pkray import relational
from pkray.table.catalog import TableCatalog


class Catalog(TableCatalog):
    """Creates and finds tables, and holds what one object has for queries over them."""

    @cached_property
    def session(self) -> Any:
        """Hold for queries the current database, options and temporary views of this object."""
        return relational.QuerySession(self)
