"""A matrix of faults: who is lost, by at which moment of the work of a pool.

::

    cells ──▶ Run: a driver commits, tables are compacted, looked up and moved, a query follows
                │  Moment: the first thing of its kind that comes to pass ──▶ victims are lost
                ▼
              Pool: Assignments, PartHost, BucketOwner and Coordinator of the service, in this
                    process; each worker, driver, executor and query is a `Machine` of ``lives``

- ``pool`` has the processes: what they share are files and a clock that goes when somebody waits.
- ``cells`` has the rows and columns, and why some of them cannot meet; a `Run` is one cell.
"""
