"""Names that become parts of paths: the one place that says which may.

Options, users and files that anybody may have written carry such names. A name is one part of a
path: it leads into no other folder, and every store takes it.
"""

import re

from pkray.errors import PkrayError

MOST_BYTES = 255
"""Bytes of a part of a path: what the file systems of Linux, macOS and object stores take."""
MOST_CHOSEN_BYTES = 200
"""Bytes of a name that a user chooses: a prefix and an unfinished file's ending fit too."""
ALLOWED = "without slashes, backslashes and control characters"

_USUAL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_SEPARATOR = re.compile(r"[/\\]")


def fault(name: object, most_bytes: int = MOST_BYTES) -> str | None:
    """Say what keeps a name from being one part of a path; None where nothing does.

    Args:
        most_bytes: of the name in UTF-8.
    """
    if isinstance(name, str) and name in (".", ".."):
        return "it stands for another folder"
    if isinstance(name, str) and (found := _SEPARATOR.search(name)):
        return f"it holds {found.group()!r}"
    return text_fault(name, most_bytes)


def text_fault(text: object, most_bytes: int = MOST_BYTES) -> str | None:
    """Say, as `fault`, what is wrong with text that is kept in files and is no part of a path."""
    if not isinstance(text, str):
        return "it is no text"
    if not text.strip():
        return "it is blank"
    if found := _CONTROL.search(text):
        return f"it holds the character {found.group()!r}"
    size = len(text.encode())
    return f"it has {size} bytes, {most_bytes} at most are taken" if size > most_bytes else None


def leads_out(path: str) -> bool:
    """Whether a path below a store's root goes up, or is none that a store takes."""
    return "\0" in path or (".." in path and ".." in path.split("/"))


def checked(name: object) -> str:
    """Check the name of a file that another file gives.

    Raises:
        ValueError: it is no name of a file in the folder where it is looked for.
    """
    if isinstance(name, str) and _USUAL.fullmatch(name):
        return name
    reason = fault(name)
    if reason is not None:
        raise ValueError(f"it names a file {name!r}: {reason}")
    return str(name)


def check_chosen(name: object, noun: str, error: type[PkrayError]) -> None:
    """Check a name that a user gives to something with a file of its own, such as a tag.

    Raises:
        PkrayError: of that kind: no file can have it.
    """
    reason = fault(name, MOST_CHOSEN_BYTES)
    if reason is not None:
        raise error(
            f"{name!r} is no name of a {noun}: {reason}; give one {ALLOWED}, of at most "
            f"{MOST_CHOSEN_BYTES} bytes",
            **{noun: name},
        )
