"""Avro as Paimon's manifests use it.

::

    records ──write_records──▶ bytes of a container ──read_records──▶ records

- **container** (`files`): a header with a schema, then blocks of records, perhaps compressed; in
  memory as a whole, since manifests are small.
- **schema** (`schemas`): names and defaults of the records, as Paimon generates them.
"""
