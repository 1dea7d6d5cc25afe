"""Functions of JSON text.

::

    text ──decode──▶ Python values ──path_steps, matches──▶ parts ──encode──▶ text

- **function** (`functions`): what people call: parts by a path, values to JSON and back.
- **path** (`values`): ``$.a[0]`` taken apart. `values` also writes columns as JSON text and reads
  text as values of a type.
"""
