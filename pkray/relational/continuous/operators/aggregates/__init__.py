"""GROUP BY over changes: values that can be taken back, and bags of values where they cannot.

``aggregate`` is the operator; ``calls`` says how each aggregate is computed: by `accumulators` that
take rows back, by folds of rows that are only added (``appended``), or from ``bags`` of values and
``held_rows``.
"""
