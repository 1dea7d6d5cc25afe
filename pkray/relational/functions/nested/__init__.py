"""Functions of arrays, maps and rows.

::

    a column ──Lists.of──▶ flat elements, lengths ──kernel──▶ Lists.array ──▶ a column

- **lists** (`lists.Lists`): the elements of a batch's arrays, or the keys of its maps, one after
  the other, with how many each row has. Kernels compute on all of them at once; so do `lambdas`.
- `arguments` says what functions take and how they are typed. ``making`` gives arrays of values,
  ``arrays`` changes arrays, ``sets`` compares them, ``elements`` reads and looks for elements;
  ``maps`` and ``rows`` make and take apart what their names say.
- A NULL argument gives NULL, unless said otherwise. Elements are counted from 1 by functions, and
  by ``[]`` from 0 in the spark dialect, from 1 in flink.
"""
