"""Folders and files on the local disk that nobody but this user can open."""

import errno
import fcntl
import os
import stat
from pathlib import Path

from pkray.errors import StorageError, StorageFullError

DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_directory(path: str | os.PathLike[str]) -> str:
    """Make a folder with mode 0700, or take one that is there after a check.

    Parents that are missing are made in the same way. One of this user's that others can only
    read is closed to them. The check and the change go through the open folder, so that nobody
    can put another one in its place between the two.

    Returns:
        The path.

    Raises:
        StorageError: it is a symbolic link or a file, belongs to another user, or others can
            write to it: what is in it may be theirs.
        OSError: the disk refuses.
    """
    folder = Path(path)
    try:
        folder.mkdir(mode=0o700)
    except FileExistsError:
        _check(str(folder))
    except FileNotFoundError:
        private_directory(folder.parent)
        private_directory(folder)
    return str(folder)


def private_file(path: str | os.PathLike[str], flags: int = 0, mode: int = 0o600) -> int:
    """Open a file for reading and writing, made with a mode; return its descriptor.

    Raises:
        OSError: the disk refuses, or the file is a symbolic link.
    """
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | flags, mode)


def try_lock(file: int) -> bool:
    """Lock an open file against other processes, unless one of them has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def not_kept(what: str, path: str, error: Exception) -> StorageError:
    """Explain why something could not be kept on the local disk, such as "spool rows to"."""
    if getattr(error, "errno", None) in DISK_FULL:
        return StorageFullError(
            f"the local disk is full: cannot {what} {path}; free space, or set local_directory or "
            "TMPDIR to a larger disk",
            path=path,
        )
    return StorageError(
        f"cannot {what} {path}: {error}; check the disk, or set local_directory or TMPDIR to "
        "another",
        path=path,
    )


def _check(path: str) -> None:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            raise _refused(path, "a symbolic link or a file") from None
        if error.errno == errno.EACCES:
            raise _refused(path, "closed to this user") from None
        raise
    try:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid():
            raise _refused(path, f"a folder of user {found.st_uid}")
        if found.st_mode & _OTHERS_WRITE:
            raise _refused(path, f"open to others (mode {stat.S_IMODE(found.st_mode):o})")
        if stat.S_IMODE(found.st_mode) != 0o700:
            os.fchmod(folder, 0o700)
    finally:
        os.close(folder)


def _refused(path: str, what: str) -> StorageError:
    return StorageError(
        f"cannot keep private files in {path!r}: it is {what}, not a folder of this user (uid "
        f"{os.geteuid()}) with mode 700; remove it, or name another by local_directory or TMPDIR",
        path=path,
    )
