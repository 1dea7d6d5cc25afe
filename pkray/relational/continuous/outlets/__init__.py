"""Give changes to where they go: an `Outlet` takes the net changes of each epoch.

`TableOutlet` commits them to a keyed table, once an epoch, with what other workers push of it by a
`PartWriter`; ``result_history`` reads who has written to the table, ``new_content`` replaces all
that it holds. `QueueOutlet` and `FunctionOutlet` write changes as messages. ``conflicts`` puts into
a plan what settles rows that agree in the table's key.
"""
