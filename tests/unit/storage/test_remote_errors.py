from __future__ import annotations

import pytest
from obstore.exceptions import GenericError, NotFoundError, PermissionDeniedError

from pkray.errors import MissingFileError, StorageError, StorageFullError
from pkray.storage.remote_errors import explain, retrying


class Flaky:
    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


def test_what_fails_in_passing_is_tried_again():
    call = Flaky(GenericError("operation timed out"))
    assert retrying(call) == "answer"
    assert call.calls == 2


def test_trying_ends():
    call = Flaky(*[GenericError("connection closed")] * 10)
    with pytest.raises(GenericError):
        retrying(call)
    assert call.calls == 3


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError("500"),
        PermissionDeniedError("timeout"),
        GenericError("bad request"),
        GenericError("http://host:5030 in 2.500ms - status code: 404 Not Found: timeout"),
        GenericError("bad request\n\nDebug source: { retries: 0, retry_timeout: 180s }"),
    ],
)
def test_what_will_fail_again_is_not_tried_again(error):
    call = Flaky(error)
    with pytest.raises(type(error)):
        retrying(call)
    assert call.calls == 1


@pytest.mark.parametrize(
    ("error", "kind", "remedy"),
    [
        (NotFoundError("404"), MissingFileError, "deleted"),
        (NotFoundError("404: <Code>NoSuchBucket</Code>"), StorageError, "no such bucket"),
        (GenericError("status code: 503 Slow Down"), StorageError, "does not answer"),
        (PermissionDeniedError("403"), StorageError, "keys and rights"),
        (GenericError("connection refused"), StorageError, "does not answer"),
        (GenericError("disk quota exceeded"), StorageFullError, "free space"),
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
