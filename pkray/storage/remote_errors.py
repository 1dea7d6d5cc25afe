"""Explain what can go wrong with an object store, as errors of pkray.

obstore's exceptions have neither status nor cause as attributes. They print both, as Rust's debug
format of its own types, below the message: that is read here, with what the server sent (which
stands in quotes) kept apart.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from obstore import exceptions

from pkray.errors import MissingFileError, StorageError, StorageFullError
from pkray.storage.secrets import redact

_TEXT = r'"((?:[^"\\]|\\.)*)"'
_ANSWER = re.compile(rf"inner: Status \{{\s*status: (\d+),\s*body: (?:None|Some\(\s*{_TEXT})", re.S)
_ANSWER_IN_SHORT = re.compile(r" - Server returned non-2xx status code: (\d{3})[^:]*: (.*)", re.S)
_UNSENT_IN_SHORT = " - HTTP error: error sending request"
_QUOTED = re.compile(_TEXT, re.S)
_KIND = re.compile(r"HttpError \{\s*kind: (\w+)")
_CODE = re.compile(r"<Code>([^<]*)</Code>", re.I)
_SAID = re.compile(r"<Message>([^<]*)</Message>", re.I)

_BROKEN_OFF = ("Connect", "Request", "Timeout", "Interrupted", "Decode")
_TRY_LATER = (408, 425, 429)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound")
_OTHER_REGION = (
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "PermanentRedirect",
    "TemporaryRedirect",
)
_BAD_KEYS = ("ExpiredToken", "InvalidAccessKeyId", "InvalidToken", "TokenRefreshRequired")
_FULL = re.compile(r"StorageFull|QuotaExceeded|no space|disk quota", re.I)


@dataclass(frozen=True)
class Failure:
    """The reason why a request failed.

    Args:
        reason: in one line, without secrets.
        status: of the HTTP answer.
        code: of S3 or Azure, in the answer.
        kind: how the connection failed, in obstore's words; None where an answer came.
        cause: obstore's debug text, where no answer came.
    """

    reason: str
    status: int | None = None
    code: str = ""
    kind: str | None = None
    cause: str = ""

    @classmethod
    def from_error(cls, error: BaseException, options: Mapping[str, Any]) -> Self:
        """Read an exception.

        Args:
            options: of the store, as `hide` gives them; their secrets are taken out.
        """
        text = redact(str(error) or type(error).__name__, options)
        line, _, debug = text.strip().partition("\n")
        # The end of an upload fails without the debug text; it is not sent again for what it says.
        answer = _ANSWER.search(debug) if debug else _ANSWER_IN_SHORT.search(line)
        if answer is None:
            found = _KIND.search(_QUOTED.sub('""', debug))
            unsent = "Request" if not debug and line.endswith(_UNSENT_IN_SHORT) else None
            return cls(line, kind=found[1] if found else unsent, cause=debug)
        status, body = int(answer[1]), _unescaped(answer[2] or "")
        code, said = (found[1] if (found := part.search(body)) else "" for part in (_CODE, _SAID))
        heard = ": ".join(filter(None, (code, said))) or " ".join(body.split())[:200]
        return cls(f"HTTP status {status}" + (f", {heard}" if heard else ""), status, code)

    @property
    def is_transient(self) -> bool:
        """Whether the same request may well succeed in a moment."""
        if self.status is not None:
            return self.status in _TRY_LATER or (self.status >= 500 and self.status != 501)
        if self.kind is not None:
            return self.kind in _BROKEN_OFF and not self.is_untrusted
        return self.is_garbled

    @property
    def is_garbled(self) -> bool:
        """Whether a list was no list: its end did not come, or what answers is no object store."""
        return "InvalidListResponse" in self.cause

    @property
    def is_untrusted(self) -> bool:
        """Whether the connection failed for a certificate, or for a server without TLS."""
        return self.kind == "Connect" and ("Certificate" in self.cause or "Invalid" in self.cause)


def is_transient(error: BaseException) -> bool:
    """Whether the same request may well succeed in a moment."""
    if isinstance(error, ConnectionError | TimeoutError):
        return True
    return isinstance(error, exceptions.GenericError) and Failure.from_error(error, {}).is_transient


def explain(
    error: BaseException, doing: str, location: str, options: Mapping[str, Any] | None = None
) -> StorageError:
    """Return the error of pkray for one of obstore, with its remedy.

    Args:
        doing: ``read``, ``list`` …
        location: the URL that was asked for.
        options: of the store, whose secrets no error shows.
    """
    if isinstance(error, StorageError):
        return error
    failure = Failure.from_error(error, options or {})
    values = {"path": location, "status": failure.status}
    if failure.code in _NO_BUCKET or (failure.status == 404 and doing == "list"):
        return StorageError(
            f"cannot {doing} {location!r}: there is no such bucket; make it, or correct the URL",
            **values,
        )
    if isinstance(error, (FileNotFoundError, exceptions.NotFoundError)):
        return MissingFileError(
            f"no file {location!r}: it was deleted, or its snapshot has expired", **values
        )
    kind = StorageFullError if _is_full(failure) else StorageError
    remedy = "free space there and try again" if _is_full(failure) else _remedy(error, failure)
    return kind(f"cannot {doing} {location!r}: {failure.reason}; {remedy}", **values)


def plain_cause(error: BaseException, options: Mapping[str, Any]) -> BaseException:
    """Return a copy of an exception of obstore that shows no secret; any other as it is."""
    if not isinstance(error, exceptions.BaseError | OSError):
        return error
    return type(error)(redact(str(error), options))


def _is_full(failure: Failure) -> bool:
    said = f"{failure.code} {failure.reason}"
    return failure.status == 507 or (failure.status != 429 and _FULL.search(said) is not None)


def _remedy(error: BaseException, failure: Failure) -> str:
    status, code, cause = failure.status, failure.code, failure.cause
    if code == "RequestTimeTooSkewed":
        return "set the clock of this machine"
    if code in _OTHER_REGION or status in (301, 307, 308) or "BareRedirect" in cause:
        return "the bucket is in another region: correct the storage option region or the endpoint"
    denied = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
    if denied or status in (401, 403) or code in _BAD_KEYS:
        return "check the keys and rights given as storage options or in the environment"
    if failure.is_untrusted:
        return (
            "TLS failed: check whether the endpoint is https, and its certificate (storage option "
            "root_certificate)"
        )
    if "dns error" in cause:
        return "no such host: check the endpoint, the region and the network's name server"
    if status is not None and failure.is_transient:
        return "the store is overloaded or out of order: try again later"
    if failure.is_garbled:
        return "the answer broke off, or what answers is no object store: check the endpoint"
    if failure.is_transient or is_transient(error):
        return "the store does not answer: check the endpoint and the network, then try again"
    return "check the URL and the storage options, then try again"


def _unescaped(text: str) -> str:
    """The text of a literal of Rust."""
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:  # \u{…}
        return text.replace('\\"', '"')
