"""Packages that only parts of pkray need, and the extras that bring them."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from pkray.errors import MissingExtraError

_WINGS = {
    "spark": "pkray.spark.engine",
    "serving": "pkray.serving.server",
    "tracing": "pkray.tracing.recorder",
}
"""The part of pkray that an extra brings, where what is below needs it: it is asked for here."""


def require_extra(extra: str, package: str, what: str, without: str = "") -> None:
    """Check that a package is installed, without importing it.

    Args:
        what: that needs it, as the error names it.
        without: what works all the same.

    Raises:
        MissingExtraError: it is not.
    """
    if not is_installed(package):
        raise MissingExtraError(
            f"{what} needs the package {package!r}, which is not installed: "
            f"pip install 'pkray[{extra}]'{f'; {without}' if without else ''}",
            extra=extra,
            package=package,
        )


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:  # what it is in is not there
        return False


def wing(extra: str) -> Any:
    """Import the part of pkray that an extra brings.

    Raises:
        MissingExtraError: what it needs is not installed.
    """
    return import_module(_WINGS[extra])
