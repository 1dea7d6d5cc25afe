"""Read and write the bytes of a table, as Apache Paimon means them.

Pure functions and frozen structures: no request is made here and nothing is kept. `Snapshot` names
manifest lists, these name manifests (``manifest``), whose entries name data files (`DataFileMeta`).
A `CommitMessage` is what one bucket asks a commit to make visible. ``paths`` has the name of every
file. ``binary_row`` and ``words`` encode keys, partitions and statistics vectorised over rows,
``row_reader`` and ``key_range`` read and compare them; ``bucket`` hashes keys; ``avro`` holds
manifests, ``deletion_vector`` and ``hash_index`` the index files. Facts that were read off Paimon
stand as ``Source:``. .design/0001 says why the format is Paimon's.
"""
