"""Functions of URLs."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from urllib.parse import quote_plus, unquote_to_bytes

import pyarrow as pa

from pkray.errors import EvaluationError
from pkray.relational.functions.function import Value
from pkray.relational.functions.signatures import text
from pkray.relational.functions.text.slices import per_constants
from pkray.relational.functions.text.text_function import text_function
from pkray.relational.functions.values import by_distinct
from pkray.relational.plan.expressions import Call

_URI = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<ref>.*))?",
    re.S,
)
_AUTHORITY = re.compile(r"(?:(?P<user>[^@]*)@)?(?P<host>\[[^\]]*\]|[^:]*)(?::\d*)?")
_FORBIDDEN = re.compile(r"[\x00-\x20\"<>\\^`{|}\x7f]|%(?![0-9A-Fa-f]{2})")


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
    "url_encode", "url_encode(text) -> STRING", "Write text as a part of a URL.", [text], _encode,
)  # fmt: skip
text_function(
    "url_decode", "url_decode(text) -> STRING", "Read a part of a URL as text.", [text], _decode,
    fallible=True,
)  # fmt: skip
text_function(
    "try_url_decode", "try_url_decode(text) -> STRING",
    "Read a part of a URL as text; NULL where it is none.", [text], _decode, nullable=True,
)  # fmt: skip


def _part(name: str, key: str | None, *, is_try: bool) -> Callable[[str], str | None]:
    """Give what finds a part of a URL."""

    def found(url: str) -> str | None:
        whole = _URI.fullmatch(url)
        if whole is None or _FORBIDDEN.search(url):
            if is_try:
                return None
            raise EvaluationError(
                f"parse_url({url!r}): that is no URL; try_parse_url gives NULL for it",
                function="parse_url",
            )
        if name == "QUERY" and key is not None:
            pair = re.search(f"(?:^|&){re.escape(key)}=([^&]*)", whole["query"] or "")
            return pair[1] if pair else None
        authority = _AUTHORITY.fullmatch(whole["authority"] or "")
        inside = authority.groupdict() if authority else {"user": None, "host": None}
        query = whole["query"]
        opaque = whole["authority"] is None and not whole["path"].startswith("/")
        path = None if opaque and whole["scheme"] else whole["path"]
        parts = {
            "PROTOCOL": whole["scheme"],
            "AUTHORITY": whole["authority"],
            "USERINFO": inside["user"],
            "HOST": inside["host"] or None,
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


for _name, _else in (("parse_url", ""), ("try_parse_url", "; NULL where the text is no URL")):
    text_function(
        _name,
        f"{_name}(url, part [, key]) -> STRING",
        "Give HOST, PATH, QUERY, REF, PROTOCOL, FILE, AUTHORITY or USERINFO of a URL, or the value "
        f"of one key of its query{_else}.",
        [text, text, text],
        _parse_url,
        least=2,
        nullable=True,
        fallible=_name == "parse_url",
    )
