"""Host the owners and coordinators of many tables, and work of its own accord, in few processes.

::

    client ── locate ──▶ keeper: Assignments, a part to a worker under a number that grows
       │                   ▲ renew (a lease, every second), claim
       └── call, number ─▶ worker: PartHost ─▶ Lane a part and group ─▶ BucketOwner, Coordinator

A *part* is an owner or the coordinator of one table. The *keeper* assigns each part to one
*worker*, under a number that no part had before. A call carries the number that its caller knows.
`PartHost` opens a part when it is first called for and its keeper says that it is here; it answers
calls of another number with `MovedError`, and none at all while its `Lease` has run out. What a
worker knows of its parts' standing is confirmed once more where it counts: before a coordinator
publishes (`PartHost.tenure`). *Work*, such as a continuous query, is a part that is opened without
being called. ``ray.pool`` runs keeper and workers as actors. .design/0013 has the
reasons.
"""
