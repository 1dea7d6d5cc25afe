"""Storage options that nothing prints, and texts without what they hide."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"
_SHORTEST = 3
"""Shorter values stay in texts: they would take half of the letters away."""

_DURATION = r"[\d.]+ ?[a-z]*"
_SWITCH = r"(?i:true|false)"
_SHOWN = {
    "endpoint": r"https?://[\w.:\[\]-]+(/[\w./-]*)?",
    "endpoint_url": r"https?://[\w.:\[\]-]+(/[\w./-]*)?",
    "region": r"[a-z]{2,12}(-[a-z0-9]{1,12}){0,4}",
    "default_region": r"[a-z]{2,12}(-[a-z0-9]{1,12}){0,4}",
    "allow_http": _SWITCH,
    "allow_invalid_certificates": _SWITCH,
    "http1_only": _SWITCH,
    "http2_only": _SWITCH,
    "skip_signature": _SWITCH,
    "virtual_hosted_style_request": _SWITCH,
    "connect_timeout": _DURATION,
    "max_retries": r"\d+",
    "parallel_requests": r"\d+",
    "pool_idle_timeout": _DURATION,
    "read_timeout": _DURATION,
    "retry_timeout": _DURATION,
    "timeout": _DURATION,
}
"""Options that are printed, where their value looks like one: any other may be a secret."""
_VENDOR = re.compile(r"(aws|azure(_storage)?|google)_")

_USER_INFO = re.compile(r"(?<=://)[^/\s\"'<>@]*@")
_SIGNED = re.compile(
    r"([?&][^=&\s\"']*(?:sig|token|credential|secret|passw|key)[^=&\s\"']*=)[^&\s\"'<>)]+",
    re.IGNORECASE,
)
_ENVIRONMENT = re.compile(
    r"(AWS|AZURE|GOOGLE|GCP|GCS)_.*(KEY|SECRET|TOKEN|PASSWORD|SAS|CREDENTIAL)", re.IGNORECASE
)


class Secret:
    """A value that no ``repr``, ``str`` or format shows; it pickles whole, to go between processes.

    Args:
        value: what to hide, of whatever type.
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def reveal(self) -> Any:
        """Return the value."""
        return self._value

    def __repr__(self) -> str:
        return HIDDEN

    def __format__(self, spec: str) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and bool(self._value == other._value)

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> tuple[Any, ...]:
        return Secret, (self._value,)


def hide(options: Mapping[str, Any]) -> dict[str, Any]:
    """Wrap the values of storage options, but for those that are known to be none."""
    return {key: _hidden(key, value) for key, value in options.items()}


def reveal(options: Mapping[str, Any]) -> dict[str, Any]:
    """Unwrap the values that `hide` wrapped."""
    return {
        key: value.reveal() if isinstance(value, Secret) else value
        for key, value in options.items()
    }


def _hidden(key: str, value: Any) -> Any:
    if value is None or isinstance(value, Secret | bool):
        return value
    shown = _SHOWN.get(_VENDOR.sub("", str(key).lower(), count=1))
    if shown is not None and isinstance(value, str) and re.fullmatch(shown, value):
        return value
    return Secret(value)


def shown_key(key: str) -> str:
    """Write an option's key for messages: one that is no name may be a secret in the wrong
    place."""
    return key if re.fullmatch(r"[a-z][a-z0-9_]{0,39}|[A-Z]+(_[A-Z0-9]+)+", key) else HIDDEN


def shown_url(url: str) -> str:
    """Write a URL for messages: one that may hold a secret is cut down to its scheme."""
    return f"{url.partition('://')[0]}://{HIDDEN}" if may_hold_secret(url) else url


def may_hold_secret(url: str) -> bool:
    """Whether a URL has user information (but for a container of Azure), or a query.

    Keys may have slashes, so that ``s3://key:se/cret@bucket`` has its '@' in the path.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return False
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    is_container = scheme.lower() in ("abfs", "abfss") and ":" not in host.partition("@")[0]
    port = host.rpartition(":")[2] if ":" in host.rpartition("]")[2] else "0"
    return (
        ("@" in host and not is_container)
        or not port.isdecimal()
        or (":" in host and "@" in rest)
        or "?" in rest
    )


def redact(text: str, options: Mapping[str, Any]) -> str:
    """Remove the secrets of options and of the environment, and users and signatures of URLs, from
    a text.

    Args:
        options: as `hide` gives them.
    """
    given = (value.reveal() for value in options.values() if isinstance(value, Secret))
    around = (value for name, value in os.environ.items() if _ENVIRONMENT.match(name))
    for value in sorted({*_texts(given), *_texts(around)}, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return _SIGNED.sub(rf"\1{HIDDEN}", _USER_INFO.sub(f"{HIDDEN}@", text))


def _texts(values: Iterable[Any]) -> Iterable[str]:
    """List how values look in texts of URLs and of programs."""
    for value in values:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        if isinstance(value, Mapping):
            yield from _texts(value.values())
        elif isinstance(value, list | tuple):
            yield from _texts(value)
        elif len(text := str(value)) >= _SHORTEST:
            yield from (text, quote(text), quote(text, safe=""), quote_plus(text))
            yield text.encode("unicode_escape").decode().replace('"', '\\"')
