"""Where changes go: an `Outlet` takes the net changes of each epoch.

`TableOutlet` commits them to a keyed table, once an epoch, with what other workers push of it by a
`PartWriter`; `QueueOutlet` and `FunctionOutlet` write them as messages. ``conflicts`` puts into a
plan what settles rows that agree in the table's key.
"""
