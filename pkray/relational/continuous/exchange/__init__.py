"""Bring rows to the worker of a query that has the group of their key.

``key_groups`` says which worker that is, ``peers`` cuts changes into the parts of each, and a
``mailbox`` keeps the letters that come until they are read.
"""
