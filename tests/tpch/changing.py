"""Changes the rows of TPC-H, epoch by epoch, and says how they changed."""

from collections.abc import Mapping

import pyarrow as pa

from pkray.relational.sources.changelog import ROW_KIND
from tests.tpch.generator import KEYS, Tpch

CHANGES = {
    "orders": {
        "o_custkey": "1 + (o_custkey + {n}) % (SELECT max(c_custkey) FROM customer)",
        "o_orderstatus": "CASE o_orderstatus WHEN 'F' THEN 'O' ELSE 'F' END",
        "o_orderdate": "o_orderdate + {n}::INTEGER * 5",
        "o_totalprice": "o_totalprice + {n}",
    },
    "lineitem": {
        "l_suppkey": "1 + (l_suppkey + {n}) % (SELECT max(s_suppkey) FROM supplier)",
        "l_quantity": "51 - l_quantity",
        "l_discount": "0.06",
        "l_shipdate": "l_shipdate + {n}::INTEGER * 20",
        "l_receiptdate": "l_receiptdate - {n}::INTEGER * 3",
        "l_returnflag": "'R'",
    },
    "partsupp": {"ps_supplycost": "ps_supplycost - {n}", "ps_availqty": "ps_availqty + 500"},
    "part": {"p_brand": "'Brand#23'", "p_container": "'MED BOX'"},
    "customer": {"c_acctbal": "c_acctbal + 100 * {n}"},
}
"""What an update makes of columns; in the epoch of number n. Others stay."""
NEW_ORDERS = 10_000_000
"""Keys of inserted orders are by so much an epoch greater than those that they are made of."""


class ChangingTpch(Tpch):
    """TPC-H's tables, in which orders, line items and some of what they refer to change.

    Args:
        share: of orders that an epoch deletes, updates and inserts, each; line items alike.
    """

    def __init__(self, scale: float, share: float = 0.003) -> None:
        super().__init__(scale)
        self.share = share
        self.epoch = 0

    def begin(self) -> dict[str, pa.Table]:
        """Give all rows, as insertions."""
        return {name: _of_kind("+I", self.table(name)) for name in KEYS}

    def change(self) -> dict[str, pa.Table]:
        """Change rows of one epoch; give the changes of each table, with their kinds."""
        self.epoch += 1
        changes: dict[str, list[pa.Table]] = {name: [] for name in CHANGES}
        self._insert_orders(changes)
        self._delete_orders(changes)
        self._delete("lineitem", self._some("lineitem", 2), changes)
        for name in CHANGES:
            self._update(name, changes)
        return {name: pa.concat_tables(made) for name, made in changes.items()}

    def _insert_orders(self, changes: Mapping[str, list[pa.Table]]) -> None:
        """Insert copies of orders with their line items, under new keys."""
        chosen = f"SELECT o_orderkey FROM orders WHERE {self._some('orders', 0)}"
        keys = {"lineitem": "l_orderkey", "orders": "o_orderkey"}
        for name, key in keys.items():
            new = f"{key} + {NEW_ORDERS * self.epoch} AS {key}"
            rows = self._rows(f"SELECT * REPLACE ({new}) FROM {name} WHERE {key} IN ({chosen})")
            self._insert(name, rows)
            changes[name].append(_of_kind("+I", rows))

    def _delete_orders(self, changes: Mapping[str, list[pa.Table]]) -> None:
        chosen = f"SELECT o_orderkey FROM orders WHERE {self._some('orders', 1)}"
        self._delete("lineitem", f"l_orderkey IN ({chosen})", changes)
        self._delete("orders", f"o_orderkey IN ({chosen})", changes)

    def _delete(self, name: str, chosen: str, changes: Mapping[str, list[pa.Table]]) -> None:
        rows = self._rows(f"SELECT * FROM {name} WHERE {chosen}")
        self.connection.execute(f"DELETE FROM {name} WHERE {chosen}")
        changes[name].append(_of_kind("-D", rows))

    def _update(self, name: str, changes: Mapping[str, list[pa.Table]]) -> None:
        chosen = self._some(name, 3)
        new = ", ".join(
            f"CASE WHEN {self._some(name, 4 + place, 2)} "
            f"THEN {made.format(n=self.epoch)} ELSE {column} END AS {column}"
            for place, (column, made) in enumerate(CHANGES[name].items())
        )
        order = ", ".join(KEYS[name])
        before = self._rows(f"SELECT * FROM {name} WHERE {chosen} ORDER BY {order}")
        after = self._rows(
            f"SELECT * REPLACE ({new}) FROM {name} WHERE {chosen} ORDER BY {order}"
        ).cast(before.schema)
        self.connection.execute(f"DELETE FROM {name} WHERE {chosen}")
        self._insert(name, after)
        changes[name] += [_of_kind("-U", before), _of_kind("+U", after)]

    def _insert(self, name: str, rows: pa.Table) -> None:
        self.connection.register("made", rows)
        self.connection.execute(f"INSERT INTO {name} SELECT * FROM made")
        self.connection.unregister("made")

    def _some(self, name: str, draw: int, one_in: int | None = None) -> str:
        """Give a condition that holds for a share of a table's rows, others in each epoch."""
        values = ", ".join([*KEYS[name], f"'{draw} {self.epoch}'"])
        limit = int(1_000_000 * (self.share if one_in is None else 1 / one_in))
        return f"hash({values}) % 1000000 < {limit}"

    def _rows(self, query: str) -> pa.Table:
        return self.connection.execute(query).to_arrow_table()


def _of_kind(kind: str, rows: pa.Table) -> pa.Table:
    return rows.append_column(ROW_KIND, pa.array([kind] * rows.num_rows, pa.string()))
