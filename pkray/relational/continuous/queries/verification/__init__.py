"""Prove a result: compute it anew by the bounded run, and compare.

`verify` runs the plan over the inputs that a snapshot of the result names, ``as_of_watermarks``
leaves out of that what came too late, and ``comparison`` tells the rows that differ.
"""
