"""Tags, branches, rollbacks, expiry and orphans."""

import named_files
from table_checks import CheckedTable

from pkray.errors import TableError

FUTURE = 1 << 50
"""Epoch milliseconds."""


class HistorySteps(CheckedTable):
    """Tags, branches, rollbacks and expiry."""

    def create_tag(self) -> None:
        if not self.line.live:
            return
        name = self.rng.choice("abc")
        if name in self.line.tags:
            self._table_of().tags.delete(name)
            del self.line.tags[name]
        number = self.rng.choice(self.line.live)
        self.log.append(f"    {name} of {number}")
        self._table_of().tags.create(name, number)
        self.line.tags[name] = self.line.moments[number]

    def delete_tag(self) -> None:
        if self.line.tags:
            name = self.rng.choice(sorted(self.line.tags))
            self._table_of().tags.delete(name)
            del self.line.tags[name]

    def create_branch(self) -> None:
        name = self.rng.choice(("one", "two"))
        tag = self.rng.choice([*sorted(self.main.tags), None]) if self.main.tags else None
        if self.rng.random() < 0.5 and self.main.tags:
            tag = sorted(self.main.tags)[0]
        if name in self.branches:
            return
        self.log.append(f"    {name} of {tag}")
        self._load(None).branches.create(name, tag)
        self.branches[name] = self.main.branch(name, tag)
        self.next_column[name] = self.next_column[None]

    def delete_branch(self) -> None:
        if self.branches:
            name = self.rng.choice(sorted(self.branches))
            self._close_sessions(name)
            self._load(None).branches.delete(name)
            del self.branches[name]

    def fast_forward(self) -> None:
        if not self.branches:
            return
        name = self.rng.choice(sorted(self.branches))
        branch = self.branches[name]
        self._close_sessions(None, [0])
        self.log.append(f"    {name}")
        if not branch.live:
            try:
                self._load(None).branches.fast_forward(name)
            except TableError:
                return
            raise AssertionError("an empty branch took the table's place")
        before = dict(self.main.schemas)
        self._load(None).branches.fast_forward(name)
        self._taken_over(branch)
        session = self.sessions.get((None, 1))
        if session is not None:
            session.may_be_replaced = True
            known, there = before[session.schema_id], self.main.schemas.get(session.schema_id)
            session.is_replaced |= known != there

    def rollback(self) -> None:
        line = self.line
        if not line.live:
            return
        number = self.rng.choice(line.live[-4:])
        self.log.append(f"    {number}")
        self._table_of().rollback_to(number)
        self._went_back(line.moments[number])

    def rollback_to_tag(self) -> None:
        line = self.line
        if not line.tags:
            return
        name = self.rng.choice(sorted(line.tags))
        moment = line.tags[name]
        self.log.append(f"    {name} of {moment.id}")
        self._table_of().rollback_to(tag=name)
        self._went_back(moment)

    def expire(self) -> None:
        line = self.line
        if not line.live:
            return
        most = self.rng.randrange(1, 6)
        all_are_old = self.rng.random() < 0.5
        least = self.rng.randrange(1, most + 1)
        older_than = FUTURE if all_are_old else None
        self.log.append(f"    {least}..{most} {older_than}")
        self._table_of().expire_snapshots(most, least, older_than)
        end = line.latest - (least if all_are_old else most) + 1
        keeps = [consumer.keeps for consumer in line.consumers.values()]
        end = max(min([end, line.live[0] + 50, *keeps]), line.live[0])
        line.live = [number for number in line.live if number >= end]

    def clean(self) -> None:
        """Nothing is in use: all that is not named goes."""
        self.reopen()
        table = self._load(None)
        found = table.remove_orphan_files(FUTURE, dry_run=True)["path"].to_pylist()
        deleted = table.remove_orphan_files(FUTURE)["path"].to_pylist()
        assert sorted(found) == sorted(deleted)
        named = named_files.named(self.root, reads_deltas=self.producer == "none")
        there = {path for path in named_files.there(self.root) if _has_to_be_named(path)}
        assert named.needed <= there, sorted(named.needed - there)
        assert there <= named.needed | named.spared, sorted(there - named.needed - named.spared)
        assert not found, f"left behind: {found}"


def _has_to_be_named(path: str) -> bool:
    return path.startswith(("manifest/", "index/")) or "/" not in path
