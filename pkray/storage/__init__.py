"""Keep bytes: on local disks and in object stores, whole or not at all.

An `ObjectStore` is the files below one root; paths lead nowhere else. `LocalStore` and
`RemoteStore` are its two kinds, opened by URL (``opening``), and `BranchStore` lays a branch's
metadata above a table's files. A file appears whole when it is closed; `create` succeeds for one of
all who try. ``requests`` bounds and repeats requests, ``remote_errors`` tells their failures apart,
``secrets`` keeps keys out of texts, ``warehouse_mark`` tries whether a store keeps its word,
``block_checksums`` notice damage. `TableLocation` says where a table is and travels to tasks.
``parquet`` reads and writes data files. A `Spool` is numbered batches of Arrow files between two
processes. ``owned_directory``, ``private_files`` and ``spill`` are for the local disk's temporary
files.
"""
