import json

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError, UnauthenticatedError

from pkray.errors import MissingFileError, StorageError, StorageFullError
from pkray.storage.remote_errors import explain, is_transient
from pkray.storage.requests import RequestLimits, Requests
from pkray.storage.secrets import hide


def answered(status: int, code: str = "", said: str = "", kind=GenericError) -> Exception:
    """What obstore raises for an answer of the server."""
    body = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>" if code else said
    debug = f"inner: Status {{\n status: {status},\n body: Some(\n {json.dumps(body)},\n ),\n }},"
    return kind(f"Error performing GET http://s3/lake - {status}: {body}\n\nDebug source:\n{debug}")


def unanswered(kind: str, cause: str = "") -> Exception:
    """What obstore raises for a connection that fails."""
    debug = f"inner: Http(\n HttpError {{\n kind: {kind},\n source: {cause},\n }},\n),"
    return GenericError(f"HTTP error: error sending request\n\nDebug source:\n{debug}")


BROKEN_OFF = unanswered("Interrupted")
NO_LIST = GenericError("Got invalid list response\n\nDebug source:\nInvalidListResponse {")
DNS = unanswered("Connect", 'ConnectError("dns error", Custom)')
TLS = unanswered("Connect", "InvalidCertificate(UnknownIssuer)")
UPLOAD_DENIED = OSError(
    "Error performing PUT http://s3/x in 1ms - Server returned non-2xx status code: 403 Forbidden: "
    "<Error><Code>AccessDenied</Code></Error>"
)
UPLOAD_UNSENT = OSError("Error performing PUT http://s3/x - HTTP error: error sending request")
REDIRECT = GenericError("Received redirect\n\nDebug source:\ninner: BareRedirect,")


class Flaky:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def send(call: Flaky, seconds: float = 30.0, options: dict[str, str] | None = None) -> str:
    requests = Requests(RequestLimits(seconds), hide(options or {}))
    return requests.send("read", "s3://lake/t/x", call)


@pytest.mark.parametrize(
    "error",
    [
        *map(unanswered, ("Connect", "Request", "Timeout", "Interrupted", "Decode")),
        *map(answered, (408, 429, 500, 502, 503, 504)),
        NO_LIST,
        ConnectionResetError("reset"),
        TimeoutError("timeout"),
    ],
)
def test_what_fails_in_passing_is_tried_again(error):
    call = Flaky(error)
    assert send(call) == "answer"
    assert call.calls == 2


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("500"),
        answered(403, "AccessDenied", kind=PermissionDeniedError),
        answered(400, "InvalidArgument", "connection timed out: server error"),
        answered(404, "NoSuchKey", "inner: Status {\n status: 503"),
        answered(501, "NotImplemented"),
        unanswered("Unknown", '"HttpError { kind: Timeout"'),
        GenericError("status code: 503: connection timed out"),
        TLS,
        UPLOAD_UNSENT,
    ],
)
def test_what_will_fail_again_is_not_tried_again(error):
    call = Flaky(error)
    with pytest.raises(StorageError):
        send(call)
    assert call.calls == 1


def test_trying_ends():
    call = Flaky(*[BROKEN_OFF] * 10)
    with pytest.raises(StorageError, match="does not answer"):
        send(call)
    assert call.calls == 3


def test_what_took_long_is_not_tried_again():
    call = Flaky(BROKEN_OFF)
    with pytest.raises(StorageError, match="does not answer"):
        send(call, seconds=0.01)
    assert call.calls == 1


@pytest.mark.parametrize(
    ("error", "kind", "remedy"),
    [
        (FileNotFoundError("404"), MissingFileError, "deleted"),
        (answered(404, "NoSuchBucket", kind=FileNotFoundError), StorageError, "no such bucket"),
        (answered(503, "SlowDown"), StorageError, "overloaded"),
        (answered(500, "InternalError"), StorageError, "out of order"),
        (answered(403, "AccessDenied"), StorageError, "keys and rights"),
        (answered(403, kind=PermissionDeniedError), StorageError, "keys and rights"),
        (answered(401, kind=UnauthenticatedError), StorageError, "keys and rights"),
        (answered(400, "ExpiredToken"), StorageError, "keys and rights"),
        (answered(403, "RequestTimeTooSkewed"), StorageError, "clock"),
        (answered(301, "PermanentRedirect"), StorageError, "region"),
        (answered(400, "AuthorizationHeaderMalformed"), StorageError, "region"),
        (REDIRECT, StorageError, "region"),
        (answered(507), StorageFullError, "free space"),
        (answered(400, "XMinioStorageFull"), StorageFullError, "free space"),
        (GenericError("disk quota exceeded"), StorageFullError, "free space"),
        (DNS, StorageError, "no such host"),
        (TLS, StorageError, "certificate"),
        (unanswered("Timeout"), StorageError, "does not answer"),
        (NO_LIST, StorageError, "check the endpoint"),
        (UPLOAD_DENIED, StorageError, "keys and rights"),
        (UPLOAD_UNSENT, StorageError, "does not answer"),
        (GenericError("bad request\n\nDebug source: ..."), StorageError, "storage options"),
    ],
)
def test_errors_name_the_file_and_the_remedy(error, kind, remedy):
    found = explain(error, "read", "s3://lake/t/x")
    assert type(found) is kind
    assert found.path == "s3://lake/t/x"
    assert "s3://lake/t/x" in str(found)
    assert remedy in str(found)
    assert "Debug" not in str(found)


def test_a_bucket_that_cannot_be_listed_is_not_there():
    found = explain(answered(404), "list", "s3://lake/t")
    assert "no such bucket" in str(found)


def test_an_answer_is_told_by_its_status_and_words():
    found = explain(answered(403, "AccessDenied", "not you"), "read", "s3://lake/t")
    assert "HTTP status 403, AccessDenied: not you;" in str(found)
    assert found.status == 403


def test_neither_errors_nor_their_causes_show_secrets():
    said = "AKIAKEY sekrit/+% https://u:pw@h/x?sig=abc&y=1"
    call = Flaky(answered(400, "Bad", said))
    with pytest.raises(StorageError) as caught:
        send(call, options={"access_key_id": "AKIAKEY", "secret_access_key": "sekrit/+%"})
    cause = caught.value.__cause__
    assert isinstance(cause, GenericError)
    assert caught.value.__context__ is None
    assert cause.__context__ is None
    for text in (str(caught.value), str(cause)):
        assert "***" in text
        for secret in ("AKIAKEY", "sekrit", "u:pw", "abc"):
            assert secret not in text


def test_transience_is_told_by_class_and_status():
    assert is_transient(answered(503))
    assert not is_transient(answered(503, kind=PermissionDeniedError))
