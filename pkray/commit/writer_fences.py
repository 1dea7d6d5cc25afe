"""Records which writer of each commit user is the newest, where all processes see it."""

import hashlib

import msgspec

from pkray.checksums import check_json, seal_json
from pkray.errors import CommitFencedError, CorruptFileError, MissingFileError, TableError
from pkray.format import paths
from pkray.metadata.schemas import TableIdentity
from pkray.storage.object_store import ObjectStore


class _Newest(msgspec.Struct):
    user: str
    generation: int


class WriterFences:
    """A small file a commit user, ``writer/writer-<digest>``: ``{"user": …, "generation": N}``.

    Whoever opens a writer writes it anew, so that the last one counts; whoever publishes reads it
    after the newest snapshot. An older writer publishes nothing on top of a newer one's commits,
    and nothing once the newer one is open, but for a commit that it had begun to publish. Other
    engines do not look into the folder.

    Args:
        store: the table's root, or a branch.
        identity: of the table that is expected; None: whichever is there.
    """

    def __init__(self, store: ObjectStore, identity: TableIdentity | None = None) -> None:
        self._store = store
        self._identity = identity

    def take_over(self, user: str, generation: int) -> None:
        """Make a writer the newest of its user; do nothing for a table that was dropped, as its
        commits tell.

        Args:
            generation: another one than any other writer of the user has, in any process.
        """
        try:
            if self._identity is not None:
                self._identity.check_same_table()
        except TableError:
            return
        data = msgspec.json.encode(_Newest(user, generation))
        self._store.write(_path(user), seal_json(data))

    def users(self) -> list[str]:
        """List the commit users of which a writer was opened here.

        Raises:
            CorruptFileError: a file is damaged.
        """
        listed = [each.path for each in self._store.list(f"{paths.WRITER_DIR}/")]
        return sorted(found.user for path in listed if (found := self._read(path)) is not None)

    def check_newest(self, user: str, generation: int) -> None:
        """See that no other writer of the user took over, by one request.

        Raises:
            CommitFencedError: one did.
            CorruptFileError: the user's file is damaged.
        """
        newest = self._newest(user)
        if newest not in (None, generation):
            raise CommitFencedError(
                f"a newer writer of commit user {user!r} took over, perhaps in another process; "
                "stop this one, or open writers with different commit users",
                user=user,
                generation=generation,
                newest=newest,
            )

    def _newest(self, user: str) -> int | None:
        found = self._read(_path(user))
        return None if found is None else found.generation

    def _read(self, path: str) -> _Newest | None:
        try:
            data = self._store.read(path)
        except MissingFileError:
            return None
        try:
            check_json(data)
            return msgspec.json.decode(data, type=_Newest)
        except (msgspec.DecodeError, ValueError) as error:
            raise CorruptFileError(
                f"writer file {self._store.location(path)} is damaged: {error}; open the commit "
                "user's writer again, or delete the file where no older one is left",
                path=path,
            ) from error


def _path(user: str) -> str:
    return paths.writer(hashlib.blake2b(user.encode(), digest_size=16).hexdigest())
