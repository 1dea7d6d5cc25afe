"""Opens stores by their URL."""

import difflib
import os
from typing import Any
from urllib.parse import unquote, urlsplit

from pkray.errors import OptionError, UnsupportedError
from pkray.storage.local import LocalStore
from pkray.storage.object_store import ObjectStore
from pkray.storage.secrets import may_hold_secret, shown_key, shown_url

REMOTE_SCHEMES = ("s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl")


def open_store(url: str | os.PathLike[str], **options: Any) -> ObjectStore:
    """Open the store at a URL.

    Args:
        url: a local path or ``file://``, ``s3://``, ``gs://``, ``az://account/container``,
            or ``memory://name`` (this process alone, for tests).
        options: of the object store: ``endpoint``, ``region``, ``access_key_id``,
            ``secret_access_key``, ``session_token``, ``allow_http`` and all others that
            obstore takes. What is not given comes from the environment (``AWS_*`` etc.).

    Raises:
        OptionError: an option that the store does not know, or a URL with keys in it.
        UnsupportedError: a scheme that pkray does not do.
    """
    text = os.fspath(url)
    if may_hold_secret(text):
        raise OptionError(
            f"the URL {shown_url(text)} has a user, a password or a query in it: URLs are printed; "
            "give keys and tokens as storage options, or in the environment",
            url=shown_url(text),
        )
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise OptionError(f"cannot read the URL {text!r}: {error}; correct it", url=text) from None
    scheme = parts.scheme.lower()
    if scheme in REMOTE_SCHEMES:
        return _remote(text, options)
    if options:
        keys = sorted(map(shown_key, options))
        raise OptionError(
            f"storage options {keys} do not apply to {text!r}: "
            "only object stores (s3://, gs://, az://) take options",
            options=keys,
            url=text,
        )
    if scheme == "memory":
        return _remote(text, {})
    if scheme == "file":
        return LocalStore(unquote(parts.path))
    if "://" in text:
        near = difflib.get_close_matches(scheme, ("file", "memory", *REMOTE_SCHEMES), 1)
        hint = f"; did you mean {near[0]}://?" if near else ""
        raise UnsupportedError(
            f"cannot store tables at {text!r}: the scheme {scheme!r} is not one of a local "
            f"path, file://, s3://, gs://, az://, abfs://, memory://{hint}",
            url=text,
            scheme=scheme,
        )
    return LocalStore(text)


def _remote(url: str, options: dict[str, Any]) -> ObjectStore:
    from pkray.storage.remote import RemoteStore  # obstore takes time to import

    return RemoteStore(url, options)
