"""A committer of a test's own table."""

import pytest

from pkray.commit.committer import Committer
from tests.commit_samples import schema


@pytest.fixture
def committer(store):
    return Committer(store, schema(), "u")
