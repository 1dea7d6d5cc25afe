"""JSON files of a table as somebody may have left them: other values, and no checksum."""

import json
from collections.abc import Iterator

from pkray.checksums import KEY

VALUES = [
    1 << 70,
    -(1 << 70),
    1 << 63,
    -1,
    0,
    1.5,
    1e300,
    True,
    None,
    "",
    "x\0y",
    "\ud800",
    "../../x",
    "x" * 300,
    [],
    [[]],
    {},
]
TEXTS = [
    b"",
    b"[]",
    b"null",
    b"{}",
    b"7",
    b"\0" * 100,
    b"\xff" * 20,
    b"[" * 100_000,
    b'{"id": ' + b"9" * 5000 + b"}",
    b'{"id": NaN}',
]


def mutations(data: bytes) -> Iterator[tuple[str, bytes]]:
    """What was changed, and the file then: one field at a time, or all of the text."""
    fields = json.loads(data)
    fields.pop(KEY, None)
    text = _text(fields)
    yield "nothing", text
    for name in fields:
        yield f"no {name}", _text({key: fields[key] for key in fields if key != name})
        yield f"{name} twice", text[:-2] + b"," + _text({name: fields[name]})[1:]
        for value in VALUES:
            yield f"{name} = {value!r}", _text({**fields, name: value})
    deep = b'{"more": ' + b"[" * 100_000 + b"]" * 100_000 + b"," + text[1:]
    for whole in (*TEXTS, deep, text + b"x", text[:-2], b"\xef\xbb\xbf" + text):
        yield f"all: {whole[:20]!r}", whole


def _text(fields: object) -> bytes:
    return json.dumps(fields, indent=2).encode()
