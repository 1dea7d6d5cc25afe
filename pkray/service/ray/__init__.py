"""Run the service as Ray actors: one coordinator and some owners a table.

The actors (``actors``) are thin shells around `BucketOwner` and `Coordinator`: named, detached, and
restarted by Ray. Each method runs in the concurrency group that ``calls`` lists it with, so that
lookups and heartbeats wait for no write. A `RayHandle` calls one; a `Callee` watches long calls for
signs of life and has an actor replaced that shows none. `RayRuntime` finds or starts a table's
actors, `RayTarget` is what Spark's tasks push with, `Workers` run dedicated compactions;
``datasets`` makes Ray Datasets of rows. ``cluster`` finds the cluster that a process joins. Below
`pkray.spark`, only this package imports ray.
"""
