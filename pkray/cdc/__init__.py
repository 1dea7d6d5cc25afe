"""Change events: what databases say of their rows, as changes of a table.

::

    records ─Arrow's reader, JsonIndex─▶ images before and after ─Readings─▶ rows, _row_kind

A *record* is one event as text, such as a line of a file or the value of a message. An event has
*images*: the row before and after. A `Decoder` turns records into `Changes`: rows of the table's
columns in the order of their events, with their kinds as ``_row_kind``. What is wrong with a record
is found by halving (``decoder``): all records of a block are read together, and those that cannot
be read one by one. The formats are ``debezium``, ``maxwell`` and ``canal``; the latter two say of
an update what its ``old_values`` were. ``avro`` reads the same events from Avro, without a detour
by text: their schemas say what ``JsonIndex`` finds out. ``readings`` says how values stand in JSON,
``connect`` reads the schemas that events bring, ``images`` the objects that are rows, by
``json_index`` also what is null and what is not there. ``kinds`` are rows with a column that says
what became of them.

`decode` gives Arrow for a writer, `changes` decodes Spark's DataFrames in their tasks (``frames``),
`upsert` takes files in one commit. There a value that did not change, and that the database did not
log, is looked up in the table (``stored_values``), or kept by a partial-update table.
``bad_records`` writes what cannot be read to a table of its own: ``db.t$errors`` names the one
beside ``db.t``, which stays when that is dropped.

`postgres` follows a table of a PostgreSQL: Debezium runs in this process (``postgresql``), and what
it brings becomes changes as files do. A commit has the place in the source's log as a property, and
only then is the server told of it.

What it does not do:

- A number that stands for a time, and text that may be a decimal or its bytes, is read where the
  event's schema, or ``decimal_handling_mode`` and ``time_precision_mode``, say what it is; else the
  event is bad.
- There is no client of a schema registry: messages in Avro are read by the schemas given. Of a file
  in Avro a record whose bytes are none ends the load, as where the next one begins is not known.
- MAP columns are not read, and arrays are lists of one type. Canal's values are text, and of scalar
  columns alone. A MySQL TIMESTAMP is of no zone in Canal's and Maxwell's events, and no
  TIMESTAMP_LTZ.
- Truncates are bad events: they are no changes of rows.
- Events of a table without a ``sequence.field`` count in the order in which they come. A part of a
  stream that comes again is followed by all that followed it; older events alone that come again
  make rows old.
- A before-image is what the event brings. Where the source's replica identity is not FULL, it has
  no more than the key, and ``changelog-producer = input`` keeps it so.
- A value that did not change is looked up by key before its row is written: of a key that changed
  in the same event there is none, and the load ends. With a ``sequence.field``, an event that comes
  late gets the value of a newer row. Merge engines other than deduplicate and partial-update refuse
  such events.
- In Spark a value that did not change is kept by a partial-update table alone: others have no place
  to look it up. Columns are added, and bad records kept, by ingest and `start_ingest`, which take
  what `changes` returned as it is: a DataFrame that others run has its columns before it runs, and
  nowhere to put records. A micro-batch that brings columns is decoded twice.
- Columns that are added without a schema are of the types that their first values show, and are not
  added before one of them is no null. A column that is renamed in the source is one that is added,
  and one that events lack: with ``new_columns="add"`` and ``missing="null"`` rows have the old or
  the new one, as their last event did. One that is wider there is to be made wider here, before
  what does not fit comes.
- A table of PostgreSQL 14 or newer is followed by one process, into an empty table; a newer process
  takes over. A commit may end within a transaction of the source. All first rows come in one
  commit, whose files are written before. Where the slot was dropped or made anew, the server is
  another or was taken back, or another engine has committed since and the newest commit with a
  place has expired, following ends with an error, and the table is made anew.
- Events of several tables in one stream are not told apart: route them before.
"""

from typing import TYPE_CHECKING

from pkray.lazily import opened_lazily

if TYPE_CHECKING:
    from pkray.cdc.bad_records import ERRORS, open_errors
    from pkray.cdc.decoder import decode
    from pkray.cdc.frames import changes
    from pkray.cdc.kinds import with_row_kinds
    from pkray.cdc.postgresql.source import PostgresSource, postgres
    from pkray.cdc.upserts import Upserted, upsert

__all__ = [
    "ERRORS",
    "PostgresSource",
    "Upserted",
    "changes",
    "decode",
    "open_errors",
    "postgres",
    "upsert",
    "with_row_kinds",
]

__getattr__, __dir__ = opened_lazily(
    __name__,
    {
        "ERRORS": "bad_records",
        "PostgresSource": "postgresql.source",
        "Upserted": "upserts",
        "changes": "frames",
        "decode": "decoder",
        "open_errors": "bad_records",
        "postgres": "postgresql.source",
        "upsert": "upserts",
        "with_row_kinds": "kinds",
    },
)
