"""Write and look up from wherever the user is: the half of the service with the user's code.

::

    TableWriter ─▶ WriterSession ─▶ Pusher ─▶ RowRouting ─▶ OwnerClient of each
    PushSession ─▶ PushTarget ─▶ Pusher in each task          (the driver sees reports alone)
    LookupClient ─▶ RowRouting ─▶ OwnerClient of each ─▶ answers in the order asked

A `Pusher` checks rows, routes them and sends batches, a bounded number ahead of the answers. The
`WriterSession` holds on to what is not committed, sends heartbeats, and pushes again what owners
lose. `PushSession` is a distributed push; its `PushTarget` travels to tasks. `Router` hashes keys;
`AssignerClient` and `KeyClient` ask owners where buckets are dynamic. `OpenWriters` lets lookups of
this process see all that its writers have pushed. ``overwrite`` and ``rescale`` write whole files.
"""
