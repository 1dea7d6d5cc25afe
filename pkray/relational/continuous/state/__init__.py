"""Remember rows for operators by encoded keys, in log-structured merge trees.

`State` is one state of an operator, `States` those of a query, whose files one checkpoint names.
``encoding`` writes rows of any types as bytes that compare as they do.
"""
