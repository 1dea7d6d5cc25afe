"""Who tells where rows go whose buckets are dynamic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from pkray.schema.table_schema import TableSchema
from pkray.service.calls import OwnerClient
from pkray.service.client.assigner_client import AssignerClient
from pkray.service.client.key_client import KeyClient

DynamicClient: TypeAlias = AssignerClient | KeyClient


def dynamic_client(schema: TableSchema, owners: Sequence[OwnerClient]) -> DynamicClient | None:
    """Make the client that a table's writers ask; None of a table with fixed buckets.

    Raises:
        UnsupportedError: options under which the keys could not be kept unique.
    """
    return KeyClient.for_schema(schema, owners) or AssignerClient.for_schema(schema, owners)
