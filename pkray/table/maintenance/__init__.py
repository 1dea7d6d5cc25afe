"""Do what is done to a table beyond reading and writing it.

A module a subject, each a small object that a table hands out: tags, branches, consumers, changes
of the schema (``alter``), whole partitions, orphan files. They check arguments and call
``expiration``, ``metadata`` or ``schema``; ``table.administration`` opens them, once it is known
that no other table has taken the place of theirs.
"""
