"""Counts and measures what happens, under the names that Prometheus shows.

A *metric* (``metric``) is a constant: its name, kind, unit, help and labels; ``names`` holds all of
them. A *series* is a metric with values of its labels. Each process keeps the series of what
happens in it in one `Registry` (``registry``); what an object counts for itself anyway is read from
it when the series are collected. Other metrics are *facts*: they stand in the files of the
warehouse and in what queries say of themselves, and whoever collects reads them.

A *collection* (``collection``) is plain data: `Registry.collect` makes it, processes send it, and
``exposition`` writes it as text. Series that a process keeps get the label ``worker``, which says
in which process; they end with it.
"""
