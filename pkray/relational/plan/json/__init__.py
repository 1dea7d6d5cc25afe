"""Plans as JSON, the form of their files.

``writer`` writes a physical plan, its expressions and sources; ``reader`` makes nodes of it again
and checks all that a file may say; ``names`` says how nodes and their fields are called there.
"""
