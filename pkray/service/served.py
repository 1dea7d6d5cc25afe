"""Whether a table is still the one that was loaded, and served as it was."""

from pkray.errors import ServiceMovedError
from pkray.metadata.schemas import SchemaStore, TableIdentity
from pkray.storage.location import TableLocation


def is_dedicated(location: TableLocation) -> bool:
    """Whether a table is to have processes of its own, as its newest schema says.

    Raises:
        TableReplacedError: there is another table.
        TableNotFoundError: there is none.
    """
    TableIdentity.at(location).check_same_table()
    return SchemaStore(location.open(), location.name).latest().core.service_dedicated


class Served:
    """One kind of service of a table: processes of its own, or its parts in a pool.

    Of two kinds at a time neither would see what the other one holds. So both look into the table
    before they open anything, and whoever opens one kind ends the other.

    Args:
        dedicated: whether it is the kind that has processes of its own.
    """

    def __init__(self, location: TableLocation, *, dedicated: bool) -> None:
        self._location = location
        self._dedicated = dedicated
        self._identity = TableIdentity.at(location)

    def check(self) -> None:
        """Check that the table is there, and is to be served like this.

        Raises:
            TableReplacedError: there is another table.
            TableNotFoundError: there is none.
            ServiceMovedError: ``service.dedicated`` was changed.
        """
        self._identity.check_same_table()
        if is_dedicated(self._location) == self._dedicated:
            return
        name, now = self._location.name, str(not self._dedicated).lower()
        raise ServiceMovedError(
            f"table {name} has another service since service.dedicated is {now}: load it again "
            "with catalog.load_table, and write again what was not committed",
            table=name,
            value=now,
        )
