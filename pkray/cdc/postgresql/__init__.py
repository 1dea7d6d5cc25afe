"""A table of a PostgreSQL, followed by Debezium in this process.

- **source** (`source`): brings rows and changes, and commits them with their place.
- **engine** (`engine`): runs a connector, batch by batch.
- **session** (`session`): asks the server of its slot and its log, and marks it.
- **server_identity** (`server_identity`): tells a server's log from others.
"""
