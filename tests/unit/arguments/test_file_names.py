"""Names that become parts of paths: which may, and which are refused."""

import pytest

from pkray.arguments.file_names import checked, fault, leads_out
from pkray.errors import OptionError, PkrayError, TableError, TableNotFoundError
from pkray.expiration.branches import check_name as check_branch
from pkray.metadata.commit_name import checked_user
from pkray.metadata.consumers import ConsumerStore
from pkray.metadata.tags import check_name as check_tag
from pkray.options import TableOptions
from pkray.storage.opening import open_store
from pkray.table.table_name import TableName, checked_database

LEADING_ELSEWHERE = ["../x", "a/b", "/x", "a\\b", "..", "."]
UNFIT = [*LEADING_ELSEWHERE, "", " ", "a\0b", "a\nb", "a\x7f", "a\ud800", "n" * 256, "\u00e9" * 128]
NO_TEXT = [5, None, b"x", ["x"], True]


@pytest.mark.parametrize("name", ["data-0.parquet", "é 1%2F", "a..b", "..a", "n" * 255, "$x"])
def test_a_part_of_a_path_is_taken(name):
    assert checked(name) == name


@pytest.mark.parametrize("name", [*UNFIT, *NO_TEXT])
def test_what_leads_elsewhere_or_no_store_takes_is_refused(name):
    assert fault(name) is not None
    with pytest.raises(ValueError):
        checked(name)


@pytest.mark.parametrize("path", ["..", "../a", "a/..", "a/../b", "a\0"])
def test_paths_that_lead_out(path):
    assert leads_out(path)


@pytest.mark.parametrize("path", ["", "a", "a/b..c", "..a/b", "a/.b", "dt=%2E%2E/bucket-0"])
def test_paths_that_stay(path):
    assert not leads_out(path)


OPTIONS = ["data-file.prefix", "changelog-file.prefix", "partition.default-name"]


@pytest.mark.parametrize("strict", [True, False], ids=["new table", "table that is there"])
@pytest.mark.parametrize("key", OPTIONS)
@pytest.mark.parametrize("text", UNFIT)
def test_options_that_name_files_are_refused(key, text, strict):
    with pytest.raises(OptionError, match="without slashes") as caught:
        TableOptions.parse({key: text}, strict=strict)
    assert caught.value.key == key


def test_a_prefix_that_hides_files_is_refused():
    with pytest.raises(OptionError, match="no dot first"):
        TableOptions.parse({"data-file.prefix": ".data-"})


@pytest.mark.parametrize("name", [*UNFIT, "n" * 201, *NO_TEXT])
def test_users_choose_no_such_names(tmp_path, name):
    consumers = ConsumerStore(open_store(tmp_path))
    for check, error in (
        (check_tag, TableError),
        (check_branch, TableError),
        (checked_database, TableError),
        (lambda name: consumers.record(name, 1), OptionError),
        (consumers.find, OptionError),
        (consumers.delete, OptionError),
    ):
        with pytest.raises(error):
            check(name)


@pytest.mark.parametrize("text", ["db.{}", "{}.t", "db.t$branch_{}"])
@pytest.mark.parametrize("name", [*LEADING_ELSEWHERE, "a\0b", "a\ud800", "n" * 201])
def test_no_table_has_such_a_name(text, name):
    with pytest.raises(TableNotFoundError):
        TableName.parse(text.format(name))


@pytest.mark.parametrize("user", ["a\0b", "a\ud800", "", "n" * 201, *NO_TEXT])
def test_no_commit_user_has_such_a_name(user):
    with pytest.raises(PkrayError, match="commit_user"):
        checked_user(user)


def test_a_commit_user_may_hold_slashes():
    assert checked_user("team/job-1") == "team/job-1"
