"""Where changes go: an `Outlet` takes the net changes of each epoch.

`TableOutlet` commits them to a keyed table, once an epoch; `QueueOutlet` and `FunctionOutlet` write
them as messages. ``conflicts`` puts into a plan what settles rows that agree in the table's key.
"""
