"""What the workers of a query exchange: rows go to the worker that has the group of their key.

``key_groups`` says which worker that is, ``peers`` cuts changes into the parts of each, and a
``mailbox`` keeps the letters that come until they are read.
"""
