"""Writes to a table, through its service."""

from __future__ import annotations

import uuid

from pkray.errors import OptionError
from pkray.format.snapshot import Snapshot
from pkray.metadata.commit_name import checked_identifier, checked_user
from pkray.rows.input import Missing
from pkray.scan.snapshot_selector import SnapshotSelector
from pkray.service.client.push_session import PushSession
from pkray.service.client.table_service import TableService
from pkray.service.client.writer import TableWriter
from pkray.service.runtime import Runtime
from pkray.table.maintenance.alter import Alter
from pkray.table.reads import Reads


class Writes:
    """Opens what writes to one table, and writes what is one commit.

    Args:
        runtime: starts the table's service, where it does not run.
    """

    def __init__(self, reads: Reads, runtime: Runtime) -> None:
        self._reads = reads
        self._runtime = runtime

    def service(self) -> TableService:
        """Find the table's service, started where it does not run."""
        return self._runtime.service(self._reads.location, self._reads.schema)

    def alter(self) -> Alter:
        """Open the schema for changes, as ``Table.alter``."""
        self._reads.identity.check_same_table()
        return Alter(self._reads.store, self._reads.name, self._reads.use)

    def open_writer(
        self, commit_user: str | None, missing: Missing = "error", merge_schema: bool = False
    ) -> TableWriter:
        """Open a writer, as ``Table.open_writer``."""
        schema = self._reads.schema
        schema.core.require_supported()
        service = self.service()
        alone = commit_user is None
        if commit_user is None:
            commit_user = f"{schema.core.commit_user_prefix or 'pkray'}-{uuid.uuid4()}"
        return TableWriter(
            schema,
            service,
            checked_user(commit_user),
            missing=missing,
            grow=self.alter().merge_schema if merge_schema else None,
            alone=alone,
        )

    def delete(
        self, keys: object, where: object, commit_user: str | None, commit_identifier: int | None
    ) -> Snapshot | None:
        """Delete rows in one commit, as ``Table.delete``."""
        if (keys is None) == (where is None):
            raise OptionError(
                "delete takes keys, such as [{'id': 1}], or a filter, such as "
                f'where="amount < 0": {"neither" if keys is None else "both"} was given',
                arguments=("keys", "where"),
            )
        with self.open_writer(commit_user) as writer:
            if where is None:
                writer.delete(keys)
                return writer.commit(commit_identifier)
            schema, found = self._reads.schema, 0
            columns = dict.fromkeys([*schema.primary_keys, *schema.core.sequence_field])
            for batch in self._reads.to_batches(SnapshotSelector(), list(columns), where):
                found += batch.num_rows
                writer.delete(batch)
            return writer.commit(commit_identifier) if found else None

    def open_push(self, commit_user: str, commit_identifier: int, alone: bool) -> PushSession:
        """Open a distributed push, as ``Table.open_push``.

        Args:
            alone: nobody else has the commit user.
        """
        schema = self._reads.schema
        schema.core.require_supported()
        commit_user = checked_user(commit_user)
        commit_identifier = checked_identifier(commit_identifier)
        service = self.service()
        coordinator = service.coordinator
        known = coordinator.committed(commit_user, commit_identifier)
        session = coordinator.begin(commit_user, alone)
        target = service.push_target(session, schema)
        return PushSession(service, session, commit_identifier, target, known)
