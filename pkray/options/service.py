"""Options of where a table's service runs."""

from dataclasses import dataclass

from pkray.options.option import option
from pkray.options.values import BOOLEAN


@dataclass(frozen=True)
class ServiceOptions:
    """Options of the processes that own a table's buckets."""

    service_dedicated: bool = option(
        "service.dedicated",
        BOOLEAN,
        False,
        "On Ray, give the table a process an owner, instead of a place in its warehouse's pool.",
    )
