"""Functions of URLs."""

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.dialect import Dialect
from pkray.relational.functions.coercion import STRING
from pkray.relational.functions.function import Value, Written
from pkray.relational.functions.signatures import takes, text
from pkray.relational.functions.text.slices import per_constants
from pkray.relational.functions.text.text_function import TEXT, text_function
from pkray.relational.functions.values import by_distinct
from pkray.relational.plan.expressions import Call, Expression

_ESCAPED = "%[0-9A-Fa-f]{2}"
_OTHER = r"[^\x00-\x9f\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
"""Beyond ASCII: all but controls and spaces."""
_MARKS = r"A-Za-z0-9_\-!.~'()*"
_REGISTERED = f"(?:[{_MARKS}$,;:@&=+]|{_ESCAPED}|{_OTHER})"
_IN_PATH = f"(?:[{_MARKS}:@&=+$,;/]|{_ESCAPED}|{_OTHER})"
_IN_QUERY = rf"(?:[{_MARKS};/?:@&=+$,\[\]]|{_ESCAPED}|{_OTHER})"
_TAIL = rf"(?:\?(?P<query>{_IN_QUERY}*))?(?:#(?P<ref>{_IN_QUERY}*))?"
_HIERARCHY = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?=/))?(?://(?P<authority>[^/?#]+|(?=[/?#])))?"
    rf"(?P<path>(?!//){_IN_PATH}*){_TAIL}",
    re.S,
)
_OPAQUE = re.compile(
    rf"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*):(?!/){_IN_QUERY}+(?:#(?P<ref>{_IN_QUERY}*))?", re.S
)
_WITH_SCHEME = re.compile("[^/?#]*:")
_SERVER = re.compile(
    rf"(?:(?P<user>(?:[{_MARKS};:&=+$,]|{_ESCAPED}|{_OTHER})*)@)?"
    r"(?P<host>\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|\d{1,3}(?:\.\d{1,3}){3}|"
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.)*[A-Za-z](?:[A-Za-z0-9\-]*[A-Za-z0-9])?\.?)"
    r"(?::\d*)?"
)
_REGISTERED_NAME = re.compile(f"{_REGISTERED}+")


def _parts_of(url: str) -> dict[str, str | None] | None:
    """Take a URL apart as RFC 2396 has it; None where it is none."""
    if _WITH_SCHEME.match(url) and (opaque := _OPAQUE.fullmatch(url)):
        none = dict.fromkeys(("authority", "user", "host", "path", "query"))
        return {**none, **opaque.groupdict()}
    whole = _HIERARCHY.fullmatch(url)
    if whole is None or (_WITH_SCHEME.match(url) and whole["scheme"] is None):
        return None
    authority = whole["authority"] or None
    server = _SERVER.fullmatch(authority or "")
    if authority and not server and not _REGISTERED_NAME.fullmatch(authority):
        return None
    inside = server.groupdict() if server else {"user": None, "host": None}
    return {**whole.groupdict(), "authority": authority, **inside}


def _encoded(value: str) -> str:
    return quote_plus(value, safe="*").replace("~", "%7E")


def _encode(call: Call, values: Sequence[Value], rows: int) -> Value:
    return by_distinct(values[0], _encoded, pa.string(), rows)


def _decode(call: Call, values: Sequence[Value], rows: int) -> Value:
    def decoded(value: str) -> str | None:
        if re.search("%(?![0-9A-Fa-f]{2})", value):
            if call.function == "try_url_decode":
                return None
            raise EvaluationError(
                f"url_decode({value!r}): % stands before what are no two hexadecimal digits; "
                "try_url_decode gives NULL for it",
                function=call.function,
            )
        return unquote_to_bytes(value.replace("+", " ")).decode("utf-8", "replace")

    return by_distinct(values[0], decoded, pa.string(), rows)


text_function(
    "url_encode(text) -> STRING", "Write text as a part of a URL.", [text], _encode,
)  # fmt: skip
text_function(
    "url_decode(text) -> STRING", "Read a part of a URL as text.", [text], _decode,
    fallible=True,
)  # fmt: skip
text_function(
    "try_url_decode(text) -> STRING",
    "Read a part of a URL as text; NULL where it is none.", [text], _decode, nullable=True,
)  # fmt: skip


def _part(name: str, key: str | None, *, is_try: bool) -> Callable[[str], str | None]:
    """Give what finds a part of a URL."""

    def found(url: str) -> str | None:
        whole = _parts_of(url)
        if whole is None:
            if is_try:
                return None
            raise EvaluationError(
                f"parse_url({url!r}): that is no URL; try_parse_url gives NULL for it",
                function="parse_url",
            )
        if key is not None:
            if name != "QUERY":
                return None
            pair = re.search(f"(?:^|&){re.escape(key)}=([^&]*)", whole["query"] or "")
            return pair[1] if pair else None
        query, path = whole["query"], whole["path"]
        parts = {
            "PROTOCOL": whole["scheme"],
            "AUTHORITY": whole["authority"],
            "USERINFO": whole["user"],
            "HOST": whole["host"],
            "PATH": path,
            "QUERY": query,
            "REF": whole["ref"],
            "FILE": path if query is None or path is None else f"{path}?{query}",
        }
        return parts.get(name)

    return found


def _parse_url(call: Call, values: Sequence[Value], rows: int) -> Value:
    is_try = call.function == "try_parse_url"

    def parse(some: Sequence[Value], count: int) -> Value:
        key = some[2].as_py() if len(some) > 2 else None
        found = _part(some[1].as_py(), key, is_try=is_try)
        return by_distinct(some[0], found, pa.string(), count)

    return per_constants(values, range(1, len(values)), parse, pa.string(), rows)


def _parsed(call: Written) -> Expression:
    """Resolve parse_url and try_parse_url, which are one in flink."""
    known = "try_parse_url" if call.dialect is Dialect.FLINK else call.name
    resolve = takes(text, text, text, least=2, gives=STRING, nullable=True)
    return resolve(call._replace(name=known))


for _name, _else in (
    ("parse_url", "; in flink NULL where the text is no URL"),
    ("try_parse_url", "; NULL where the text is no URL"),
):
    TEXT.add(
        f"{_name}(url, part [, key]) -> STRING",
        "Give HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO of a URL, or the value "
        f"of one key of its query{_else}.",
        _parsed,
        _parse_url,
        fallible=_name == "parse_url",
    )
