"""Does what the console may do beside reading, where that is allowed."""

from collections.abc import Mapping

import msgspec

from pkray.api.catalog import Catalog
from pkray.serving.sql import check_selects

_STOP_SECONDS = 60.0


class Change(msgspec.Struct, forbid_unknown_fields=True):
    """One change with what it takes: the fields of a request's body."""

    def make(self, catalog: Catalog, name: str) -> str:
        """Change the thing of this name, and say what was done."""
        raise NotImplementedError


class Compact(Change):
    """Compacts a table."""

    def make(self, catalog: Catalog, name: str) -> str:
        made = catalog.load_table(name).compact()
        return "compacted" if made else "there was nothing to be compacted"


class Expire(Change):
    """Expires old snapshots of a table."""

    def make(self, catalog: Catalog, name: str) -> str:
        made = catalog.load_table(name).expire_snapshots()
        gone = made.data_files + made.metadata_files
        return f"{made.snapshots} snapshots have expired, and {gone} files are gone"


class CreateTag(Change):
    """Names a snapshot of a table; without an id the newest."""

    tag: str
    snapshot: int | None = None

    def make(self, catalog: Catalog, name: str) -> str:
        made = catalog.load_table(name).tags.create(self.tag, self.snapshot)
        return f"tag {made.name} names snapshot {made.snapshot.id}"


class DeleteTag(Change):
    """Removes a tag of a table."""

    tag: str

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.load_table(name).tags.delete(self.tag)
        return f"tag {self.tag} is deleted"


class RollBack(Change):
    """Makes an older snapshot of a table the newest, given by its id or a tag."""

    snapshot: int | None = None
    tag: str | None = None

    def make(self, catalog: Catalog, name: str) -> str:
        table = catalog.load_table(name)
        table.rollback_to(self.snapshot, self.tag)
        newest = table.latest_snapshot()
        return f"snapshot {newest.id if newest else 'none'} is the newest again"


class Begin(Change):
    """Keeps the rows of a SELECT in a table of this name: a continuous query."""

    text: str
    dialect: str = "spark"

    def make(self, catalog: Catalog, name: str) -> str:
        check_selects(self.text, self.dialect)
        catalog.sql(self.text, self.dialect).materialize(name)
        return "it runs"


class Stop(Change):
    """Stops a query."""

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).stop(_STOP_SECONDS)
        return "stopped"


class Resume(Change):
    """Lets a query go on, from a savepoint where one is given."""

    savepoint: str | None = None

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).resume(self.savepoint)
        return f"resumed from savepoint {self.savepoint}" if self.savepoint else "resumed"


class MakeSavepoint(Change):
    """Keeps the state and the results of a query under a name."""

    savepoint: str

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).savepoint(self.savepoint, _STOP_SECONDS)
        return f"savepoint {self.savepoint} is made"


class DeleteSavepoint(Change):
    """Forgets a savepoint of a query."""

    savepoint: str

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).delete_savepoint(self.savepoint)
        return f"savepoint {self.savepoint} is deleted"


class Upgrade(Change):
    """Asks for an upgrade to a newer SELECT; whoever runs the query carries it out."""

    text: str
    dialect: str = "spark"

    def make(self, catalog: Catalog, name: str) -> str:
        check_selects(self.text, self.dialect)
        catalog.query(name).upgrade(self.text, wait=False)
        return "asked for: the page says how far it is"


class Accept(Change):
    """Accepts an upgrade."""

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).accept()
        return "accepted"


class GoBack(Change):
    """Goes back to the plan before an upgrade."""

    def make(self, catalog: Catalog, name: str) -> str:
        catalog.query(name).rollback(_STOP_SECONDS)
        return "the plan before the upgrade has taken over"


CHANGES: Mapping[tuple[str, str], type[Change]] = {
    ("table", "compact"): Compact,
    ("table", "expire"): Expire,
    ("table", "create-tag"): CreateTag,
    ("table", "delete-tag"): DeleteTag,
    ("table", "rollback"): RollBack,
    ("query", "begin"): Begin,
    ("query", "stop"): Stop,
    ("query", "resume"): Resume,
    ("query", "make-savepoint"): MakeSavepoint,
    ("query", "delete-savepoint"): DeleteSavepoint,
    ("query", "upgrade"): Upgrade,
    ("query", "accept"): Accept,
    ("query", "rollback"): GoBack,
}
"""By the kind of a thing and what is done to it; the browser asks before each."""
