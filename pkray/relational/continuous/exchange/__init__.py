"""Bring rows to the worker of a query that has the group of their key.

``peers`` says which worker that is, and cuts changes into the parts of each; a ``mailbox`` keeps
the letters that come until they are read.
"""
