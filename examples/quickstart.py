"""The Python API alone: create, upsert, delete, commit, look up, read, travel back.

python examples/quickstart.py
"""

from __future__ import annotations

import tempfile
from decimal import Decimal

import pyarrow as pa

import pkray


def main() -> None:
    with tempfile.TemporaryDirectory() as warehouse, pkray.connect(warehouse) as catalog:
        orders = catalog.create_table(
            "shop.orders",
            schema=pa.schema(
                [
                    pa.field("id", pa.int64(), nullable=False),
                    pa.field("customer", pa.string()),
                    pa.field("amount", pa.decimal128(10, 2)),
                    pa.field("status", pa.string()),
                ]
            ),
            primary_keys=["id"],
            options={"bucket": "2"},
        )

        with orders.open_writer(commit_user="quickstart") as writer:
            writer.upsert(
                [
                    {"id": 1, "customer": "Ada", "amount": Decimal("12.50"), "status": "new"},
                    {"id": 2, "customer": "Grace", "amount": Decimal("99.00"), "status": "new"},
                    {"id": 3, "customer": "Edsger", "amount": Decimal("7.25"), "status": "new"},
                ]
            )
            first = writer.commit(commit_identifier=1)

            writer.upsert(
                [{"id": 2, "customer": "Grace", "amount": Decimal("99.00"), "status": "shipped"}]
            )
            writer.delete([{"id": 3}])
            print("Before the commit, order 2 by key:")
            show(orders.lookup([{"id": 2}], visibility="latest"))
            print("... and in the last snapshot:")
            show(orders.lookup([{"id": 2}], visibility="committed"))

            second = writer.commit(commit_identifier=2)
            again = writer.commit(commit_identifier=2)
            assert again.id == second.id, "the same identifier commits once"

        print("The table now:")
        show(orders.to_arrow())
        print(f"The table at snapshot {first.id}:")
        show(orders.to_arrow(snapshot_id=first.id))
        print("Open orders:")
        show(orders.to_arrow(columns=["id", "customer"], filter="status = 'new'"))

        orders.compact(full=True)
        print("Snapshots:")
        show(orders.snapshots().select(["snapshot_id", "commit_user", "commit_kind"]))


def show(rows: pa.Table) -> None:
    print(*rows.to_pylist(), sep="\n", end="\n\n")


if __name__ == "__main__":
    main()
