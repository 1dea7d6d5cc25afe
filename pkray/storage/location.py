"""Locate a table."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

from pkray.storage.branch_store import BranchStore
from pkray.storage.object_store import ObjectStore
from pkray.storage.opening import open_store
from pkray.storage.secrets import hide


@dataclass(frozen=True)
class TableLocation:
    """The place of a table, and what it takes to open it in any process.

    Args:
        url: the table's root, a local path or an object store's URL.
        name: ``database.table``, for messages.
        storage_options: what the object store needs to be opened; secrets are wrapped.
        branch: the branch whose metadata count; None is the table itself.
        identity: tells the table from one created in its place; None: whichever is there.
    """

    url: str
    name: str
    storage_options: Mapping[str, Any] = field(default_factory=dict)
    branch: str | None = None
    identity: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage_options", hide(self.storage_options))

    def open(self) -> ObjectStore:
        """Open the table's files."""
        store = open_store(self.url, **self.storage_options)
        return store if self.branch is None else BranchStore(store, self.branch)

    def on_branch(self, branch: str | None) -> Self:
        """Name the same table on a branch of it, or on none."""
        name = self.name.partition("$branch_")[0]
        if branch is not None:
            name = f"{name}$branch_{branch}"
        return replace(self, name=name, branch=branch)

    @property
    def warehouse(self) -> str:
        """The URL of the warehouse: a table's folder lies in that of its database."""
        return self.url.rstrip("/").rsplit("/", 2)[0]

    @cached_property
    def fingerprint(self) -> str:
        """Sixteen hexadecimal digits that tell tables, and their branches, apart."""
        text = self.url.rstrip("/")
        if self.branch is not None:
            text += f"$branch_{self.branch}"
        if self.identity is not None:
            text += f"#{self.identity}"
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
