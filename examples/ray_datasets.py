"""Features by Ray Data: read a table's changes, compute on them, upsert what comes out.

python examples/ray_datasets.py
"""

from __future__ import annotations

import tempfile

import pyarrow as pa
import pyarrow.compute as pc
import ray.data

import pkray

EVENTS = pa.schema([("id", pa.int64()), ("customer", pa.string()), ("amount", pa.float64())])
FEATURES = pa.schema([("customer", pa.string()), ("spent", pa.float64()), ("orders", pa.int64())])
CUSTOMERS = ["Ada", "Grace", "Edsger"]


def summed(batch: pa.Table) -> pa.Table:
    """Sum up the rows of one customer."""
    return pa.table(
        [batch["customer"][:1], [pc.sum(batch["amount"]).as_py()], [batch.num_rows]],
        schema=FEATURES,
    )


def main() -> None:
    ray.data.DataContext.get_current().enable_progress_bars = False
    with (
        tempfile.TemporaryDirectory() as warehouse,
        pkray.connect(warehouse, runtime="ray") as catalog,
    ):
        orders = catalog.create_table("shop.orders", EVENTS, ["id"])
        features = catalog.create_table("shop.features", FEATURES, ["customer"])

        bought = ray.data.from_arrow(
            pa.table(
                [range(9), CUSTOMERS * 3, [amount * 1.5 for amount in range(9)]], schema=EVENTS
            )
        )
        bought.write_datasink(pkray.ray_data.sink(orders))

        rows = pkray.ray_data.read(orders, columns=["customer", "amount"])
        by_customer = rows.groupby("customer", num_partitions=2)  # there are few of them
        groups = by_customer.map_groups(summed, batch_format="pyarrow")
        groups.write_datasink(pkray.ray_data.sink(features))

        for row in sorted(features.to_arrow().to_pylist(), key=lambda each: each["customer"]):
            print(f"{row['customer']}: {row['orders']} orders, {row['spent']:.2f}")
        changes = pkray.ray_data.changes(orders, 1, orders.latest_snapshot().id)
        print(f"{changes.count()} changes of orders")


if __name__ == "__main__":
    main()
