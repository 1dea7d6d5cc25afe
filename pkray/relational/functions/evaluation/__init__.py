"""Compute expressions over batches.

``programs`` turns expressions into steps, of which equal ones are done once; ``compiled`` runs the
steps for the rows of a batch, names the row that fails, and computes constants beforehand.
"""
