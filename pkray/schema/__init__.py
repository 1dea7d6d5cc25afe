"""Define a table's columns, keys and options, and how rows of one version become another's.

`TableSchema` is one schema file: `DataField` of `DataType`, keys, options. ``checks`` refuse
definitions that cannot work, before they are written. A change (`AddColumn`, `ChangeType` …) is
applied by `SchemaUpdate`; columns keep their ids. `RowSchemaAdapter` reads rows of one schema as
those of another, by these ids (``type_change``). ``computed_columns`` reads from options the
columns that queries compute. ``casts`` convert a user's columns without loss; ``type_text`` and
``arrow_types`` read types; ``row_kind`` has +I, -U, +U and -D.
"""
