"""The runbook's blocks of commands, and a warehouse that they are tried on."""

import re
from pathlib import Path
from typing import NamedTuple

import pkray
from tests.deploy.files import DEPLOY

PAGE = (DEPLOY / "RUNBOOK.md").read_text()
KINDS = ("", "cluster", "drill", "machine")
"""Of blocks: what needs files alone; the service; steps of a drill; programs of machines."""


class Block(NamedTuple):
    """Lines of a shell below a heading."""

    heading: str
    kind: str
    text: str

    @property
    def lines(self) -> list[str]:
        return [line.partition(" #")[0].rstrip() for line in self.text.splitlines()]


def blocks(*kinds: str) -> list[Block]:
    """Read the blocks of some kinds, in their order."""
    found, heading = [], ""
    for match in re.finditer(r"(?m)^#+ (.*)$|^```sh ?(\w*)\n((?:.*\n)*?)```$", PAGE):
        if match[1]:
            heading = match[1]
        else:
            found.append(Block(heading, match[2], match[3]))
    return [each for each in found if each.kind in kinds]


def prepare(warehouse: Path) -> None:
    """Make the table, the query and the reader of the page's examples."""
    columns = [("id", "BIGINT"), ("customer", "STRING"), ("amount", "DOUBLE")]
    with pkray.connect(warehouse) as catalog:
        options = {"bucket": "2", "changelog-producer": "lookup"}
        orders = catalog.create_table("shop.orders", columns, ["id"], options=options)
        text = "SELECT customer, count(*) AS n FROM shop.orders GROUP BY customer"
        query = catalog.sql(text).materialize("shop.totals")
        rows = [(1, "Ada", 1.0), (2, "Grace", 2.0), (3, "Ada", 4.0)]
        seen = orders.upsert(
            [dict(zip(("id", "customer", "amount"), row, strict=True)) for row in rows]
        )
        query.wait({"shop.orders": seen.id}, timeout=120)
        query.stop()
        orders.consumers.reset("reader", 1)
