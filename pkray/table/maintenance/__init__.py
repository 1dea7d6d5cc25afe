"""Do what is done to a table beyond reading and writing it.

A module a subject, each a small object that a table hands out: tags, branches, consumers, changes
of the schema (``alter``), whole partitions, expiry, orphan files, rollback. They check arguments,
refuse a table that was replaced, and call ``expiration``, ``metadata`` or ``schema``.
"""
