"""Feed changes to queries: what a source changed between two positions.

A `Feed` gives the changes of one source, a `TableFeed` those of a keyed table, `Feeds` those of a
plan, epoch by epoch. `ToldSnapshots` finds the snapshots of a table up to which its changelog tells
everything. `SourceRows` finds rows of a source by key as of an epoch, `TableRows` those of a keyed
table. ``streams`` are fed from outside, and a `Backfill` has what another engine computes of the
first epoch. `SourceTimes` says which sources are idle and which wait for slower ones.
"""
