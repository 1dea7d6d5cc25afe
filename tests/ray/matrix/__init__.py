"""The matrix of faults on real nodes: processes and raylets of a cluster are lost by plan.

::

    nodes    ──▶ NodeRun: a cell of ``tests.faults.matrix`` on a cluster of several nodes
    moments  ──▶ what a process comes to, in every process of the cluster (``site``)
"""
