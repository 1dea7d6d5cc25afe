"""Delete what is no longer kept, and nothing that is still named.

A file may go when no snapshot, tag, changelog, branch or consumer that is kept names it.
`References` collect what is named; `UnreferencedFiles` deletes what expired snapshots leave, data
before the manifests that lead to it. `Retention` says how much of the history is kept. The
`SnapshotExpirer` writes into the `ExpiryJournal` what is to go before anything does, so that a
killed expiry is ended by the next one. `OrphanFiles` finds files that no metadata ever named, by
their age. ``rollback``, ``branches``, `TagRemoval` and ``partition_expiry`` shorten or fork a
history by the same rules.
"""
