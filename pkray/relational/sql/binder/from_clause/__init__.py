"""FROM: what a query reads, and how it is joined.

::

    FromBinder ──▶ items: a table, view, query, VALUES …  ──▶ node and columns (Item)
        │             └▶ time_windows, generators, pivots, values
        └──▶ joins: conditions (ON, USING), temporal ──▶ rows, a scope

- **item** (`base.Item`): one entry: its plan, and its columns as they can be named.
- `base.FromBase` is the state while FROM is bound: the rows so far, the scope that they give, and
  the conditions that wait for WHERE or for the query around.
- `joins.JoinBuilder` sorts the conditions of one join into keys and the rest.
"""
