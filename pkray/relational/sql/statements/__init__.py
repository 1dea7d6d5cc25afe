"""Statements as text: what each says, read into data.

::

    text ──▶ reading.parse_statement ──▶ Cursor (words) ──▶ tables, rows ──▶ kinds

- **kind** (`kinds`): one class a kind of statement, with what it says. Queries in statements, and
  conditions, stay syntax: binding them is the work of `sql.binder`.
- **cursor** (`cursor.Cursor`): a place in the words of a text; it knows names, lists, texts in
  quotes and where a query ends, and says where something is not expected.
- `tables` reads CREATE TABLE and ALTER TABLE, `rows` INSERT, UPDATE, DELETE and MERGE, `reading`
  the rest. A text of several statements is cut by `reading.split_statements`.
"""
