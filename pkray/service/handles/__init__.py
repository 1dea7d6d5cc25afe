"""Calls to the parts of the service, wherever they are.

- **handle** (`handle`): what a part is asked by, and how an answer is waited for.
- **local handle** (`local_handle`): asks an object of this process, by its concurrency groups.
"""
