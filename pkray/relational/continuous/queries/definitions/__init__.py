"""Keep what a warehouse knows of its continuous queries.

`QueryStore` has a folder a query: its `Definition`, which is numbered (``numbered_files``) so that
one of several writers is first, and what was wished of it. `QueryOptions` say how a query runs, and
``failure_hooks`` tells whom they name that it failed.
"""
