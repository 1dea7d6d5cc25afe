"""Take the rows of one bucket, and prepare their commit.

::

    write ──▶ Memtable ──flush──▶ level 0 ──▶ CommitIncrement ──prepare_commit──▶ CommitMessage
                 │                   │                                               │
                 └──── Uncommitted ──┘  for lookups             PreparedMessages ◀───┘ in doubt

A `BucketWriter` is one session's work on one bucket. The `Memtable` holds rows in the order of
arrival. The `CommitIncrement` is what was written since the last message; the `PreparedMessages`
are those handed over and not known to be committed. From there work is committed, requeued to be
prepared again, or its preparation is undone. `rebase` moves it on top of what others have
committed. `Uncommitted` is an immutable view of it all for lookups. Files that a message names are
never deleted from here.
"""
