"""Folders of one user: what is found in their place is looked at before it is used."""

import os
import stat
import tempfile
from pathlib import Path

import pytest

from pkray.errors import StorageError
from pkray.storage.owned_directory import OwnedDirectory, default_local_directory
from pkray.storage.private_files import private_directory, private_file


def mode(path: str | os.PathLike[str]) -> int:
    return stat.S_IMODE(os.lstat(path).st_mode)


def test_a_folder_and_its_missing_parents_are_closed_to_others(tmp_path):
    made = private_directory(tmp_path / "a" / "b")
    assert made == str(tmp_path / "a" / "b")
    assert (mode(made), mode(tmp_path / "a")) == (0o700, 0o700)


def test_a_folder_that_others_could_only_read_is_closed_to_them(tmp_path):
    folder = tmp_path / "readable"
    folder.mkdir(mode=0o755)
    private_directory(folder)
    assert mode(folder) == 0o700


@pytest.mark.parametrize("open_to", [0o777, 0o1777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, open_to):
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(open_to)
    with pytest.raises(StorageError, match=rf"open to others \(mode {open_to:o}\).*remove it, or"):
        private_directory(folder)
    assert mode(folder) == open_to


def test_a_folder_of_another_user_is_refused(tmp_path, monkeypatch):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o700)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(StorageError, match=f"a folder of user {os.getuid()}"):
        private_directory(folder)


@pytest.mark.parametrize("points_to", ["folder", "file", "nothing"])
def test_a_symbolic_link_is_refused(tmp_path, points_to):
    (tmp_path / "folder").mkdir(mode=0o700)
    (tmp_path / "file").touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / points_to)
    with pytest.raises(StorageError, match="a symbolic link or a file"):
        private_directory(link)


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="a symbolic link or a file"):
        private_directory(tmp_path / "file")


def test_a_file_is_closed_to_others_and_follows_no_link(tmp_path):
    os.close(private_file(tmp_path / "f"))
    assert mode(tmp_path / "f") == 0o600
    (tmp_path / "link").symlink_to(tmp_path / "f")
    with pytest.raises(OSError, match="symbolic links"):
        private_file(tmp_path / "link")


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"pkray-{os.geteuid()}"


def test_the_default_folder_is_below_the_temporary_one_and_private(temporary):
    assert default_local_directory() == str(temporary)
    assert mode(temporary) == 0o700


def test_a_default_folder_that_somebody_laid_out_is_refused(temporary):
    temporary.mkdir()
    temporary.chmod(0o777)
    with pytest.raises(StorageError, match="open to others"):
        default_local_directory()


def test_an_owned_folder_and_its_locks_are_private(tmp_path):
    owned = OwnedDirectory(str(tmp_path / "root"))
    locks = [tmp_path / "root" / "lock", owned.path / "lock"]
    assert [mode(lock) for lock in locks] == [0o600, 0o600]
    assert [mode(folder) for folder in (tmp_path / "root", owned.path)] == [0o700, 0o700]
    owned.close()
    assert not owned.path.exists()


def test_an_owned_folder_in_one_that_others_can_write_to_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(StorageError, match="open to others"):
        OwnedDirectory(str(tmp_path))
