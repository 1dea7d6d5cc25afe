"""Change events of a database, as Debezium writes them, into a table: bad ones apart, and in Avro.

python examples/change_events.py
"""

from __future__ import annotations

import json
import tempfile
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro

import pkray
import pkray.cdc


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, pkray.connect(f"{folder}/warehouse") as catalog:
        customers = catalog.create_table(
            "shop.customers",
            [("id", "BIGINT"), ("name", "STRING"), ("bio", "STRING"), ("lsn", "BIGINT")],
            primary_keys=["id"],
            options={"sequence.field": "lsn", "changelog-producer": "lookup"},
        )
        events = Path(folder, "customers.json")
        ada = {"id": 1, "name": "Ada", "bio": "a very long text"}
        grace = {"id": 2, "name": "Grace", "bio": "another one"}
        # The database does not log a large value that did not change, so the event has a marker.
        renamed = {**ada, "name": "Ada L.", "bio": "__debezium_unavailable_value"}
        records = [
            event("r", None, ada, lsn=10),
            event("c", None, grace, lsn=11),
            event("u", None, renamed, lsn=12),
            event("c", None, {**grace, "id": "three"}, lsn=13),  # no number: a bad record
            event("d", {"id": 2, "name": None, "bio": None}, None, lsn=14),
            "null",  # the tombstone after a delete
        ]
        events.write_text("\n".join(records))

        errors = pkray.cdc.open_errors(catalog, "shop.customers_errors")
        for _ in range(2):  # delivered twice: nothing changes
            done = pkray.cdc.upsert(
                customers,
                events,
                format="debezium-json",
                metadata={"lsn": "source.lsn"},
                errors=errors,
            )
        print(f"{done.rows} changes, {done.bad} bad record")
        print(customers.to_arrow().to_pylist())
        print(errors.to_arrow(columns=["record", "reason"]).to_pylist())

        with customers.open_writer() as writer:  # events that a program has at hand
            pushed = event("u", None, {**ada, "name": "Ada Lovelace"}, lsn=15)
            rows = pkray.cdc.decode(
                pushed,
                format="debezium-json",
                schema=customers.schema,
                metadata={"lsn": "source.lsn"},
            )
            writer.write(rows, "_row_kind")
            writer.commit()
        print(customers.lookup([{"id": 1}]).to_pylist())

        with customers.open_writer() as writer:  # messages in Avro bring the id of their schema
            rows = pkray.cdc.decode(
                [message("d", {"id": 1, "name": None, "bio": None}, None, lsn=16)],
                format="debezium-avro",
                schema=customers.schema,
                metadata={"lsn": "source.lsn"},
                avro_schema={7: json.dumps(ENVELOPE)},
            )
            writer.write(rows, "_row_kind")
            writer.commit()
        print(f"{customers.to_arrow().num_rows} rows are left")


def event(op: str, before: Any, after: Any, lsn: int) -> str:
    source = {"connector": "postgresql", "lsn": lsn}
    return json.dumps({"op": op, "before": before, "after": after, "source": source})


TEXT = ["null", "string"]
CUSTOMER = [{"name": "id", "type": "long"}, *({"name": n, "type": TEXT} for n in ("name", "bio"))]
ENVELOPE = {
    "type": "record",
    "name": "shop.customers.Envelope",
    "fields": [
        {
            "name": "before",
            "type": ["null", {"type": "record", "name": "Value", "fields": CUSTOMER}],
        },
        {"name": "after", "type": ["null", "Value"]},
        {
            "name": "source",
            "type": {
                "type": "record",
                "name": "Source",
                "fields": [{"name": "lsn", "type": "long"}],
            },
        },
        {"name": "op", "type": "string"},
    ],
}


def message(op: str, before: Any, after: Any, lsn: int) -> bytes:
    """Write a message as Confluent's converter does: a zero byte, the schema's id, the record."""
    out = BytesIO()
    out.write(b"\0" + (7).to_bytes(4, "big"))
    event = {"op": op, "before": before, "after": after, "source": {"lsn": lsn}}
    fastavro.schemaless_writer(out, fastavro.parse_schema(ENVELOPE), event)
    return out.getvalue()


if __name__ == "__main__":
    main()
