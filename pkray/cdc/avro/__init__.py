"""Debezium's events in Avro.

- **files** (`files`): object containers, which bring their schema, and single messages.
- **schemas** (`schemas`): those that are given for messages, and what they say of rows.
- **debezium** (`debezium`): makes changes of events, by the rules of those in JSON.
"""
