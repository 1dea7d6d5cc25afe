"""Run a query epoch by epoch.

`QueryWorker` does it in a thread: it opens a run, tries again after failures that pass, and stops
when it is told to. `QueryShares` opens what each of several workers computes with: its share of
the plan, its states and its peers.
"""
