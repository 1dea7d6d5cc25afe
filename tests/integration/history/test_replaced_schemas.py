"""Services of other processes, where the schemas of a table or branch are replaced by others."""

import pytest
from history_samples import create, put

import pkray
from pkray.errors import SchemaChangedError, TableNotFoundError
from pkray.service.owner.session import OwnerSession

KEYS = [{"k": 1}, {"k": 9}]


@pytest.fixture
def warehouse(tmp_path):
    create(tmp_path / "w")
    with pkray.connect(str(tmp_path / "w")) as catalog:
        table = catalog.load_table("db.t")
        put(table, {1: "main"})
        table.tags.create("first")
        table.branches.create("b", tag="first")
    return tmp_path / "w"


@pytest.fixture
def elsewhere(warehouse):
    with pkray.connect(str(warehouse)) as catalog:
        yield catalog


def widen(table: pkray.Table, name: str, **row: object) -> pkray.Table:
    """Another column, and a row with it."""
    table.alter.add_column(name, "STRING")
    if row:
        table.upsert([row])
    return table


@pytest.fixture(params=["rolled back", "continued", "columns alone"])
def take_over(request, catalog, elsewhere):
    """A service elsewhere has the table's own second schema; then a branch's takes its place."""
    table, branch = catalog.load_table("db.t"), catalog.load_table("db.t$branch_b")
    if request.param == "rolled back":
        widen(table, "own", k=9, v="main", own="x")
    else:
        widen(table, "own")
    theirs = elsewhere.load_table("db.t")
    assert theirs.lookup([{"k": 1}]).to_pylist() == [{"k": 1, "v": "main", "own": None}]
    if request.param == "columns alone":
        widen(branch, "theirs")
    else:
        widen(branch, "theirs", k=9, v="branch", theirs="y")

    def take() -> list[dict[str, object]]:
        table.branches.fast_forward("b")
        rows = [{"k": 1, "v": "main", "theirs": None}]
        if request.param != "columns alone":
            rows.append({"k": 9, "v": "branch", "theirs": "y"})
        return rows

    return take


def test_a_table_that_is_loaded_again_goes_on(take_over, elsewhere):
    rows = take_over()
    table = elsewhere.load_table("db.t")
    assert table.lookup(KEYS).to_pylist() == rows
    with table.open_writer() as writer:
        writer.upsert([{"k": 2, "v": "after", "theirs": "z"}])
        assert table.lookup([{"k": 2}]).to_pylist() == [{"k": 2, "v": "after", "theirs": "z"}]
        writer.commit(full_compact=True)
    after = [rows[0], {"k": 2, "v": "after", "theirs": "z"}, *rows[1:]]
    assert elsewhere.load_table("db.t").to_arrow().sort_by("k").to_pylist() == after


def test_a_table_that_was_loaded_before_is_told(take_over, elsewhere):
    table = elsewhere.load_table("db.t")
    with table.open_writer() as writer:
        take_over()
        with pytest.raises(SchemaChangedError, match="load the table again"):
            writer.upsert([{"k": 2, "v": "late", "own": "late"}])
    with pytest.raises(SchemaChangedError, match="load the table again"):
        table.open_writer().upsert([{"k": 2, "v": "late", "own": "late"}])


def test_rows_that_were_written_before_are_refused(take_over, elsewhere):
    table = elsewhere.load_table("db.t")
    with table.open_writer() as writer:
        writer.upsert([{"k": 2, "v": "late", "own": "late"}])
        rows = take_over()
        for _ in range(2):
            with pytest.raises(SchemaChangedError, match="load the table again"):
                writer.commit()
        found = elsewhere.load_table("db.t")
        assert found.lookup([*KEYS, {"k": 2}]).to_pylist() == rows
    found.upsert([{"k": 2, "v": "again", "theirs": "again"}])
    assert found.lookup([{"k": 2}]).to_pylist() == [{"k": 2, "v": "again", "theirs": "again"}]


@pytest.fixture
def waiting(catalog, elsewhere):
    """A writer elsewhere whose rows are of a schema that is no more."""
    table = widen(catalog.load_table("db.t"), "own")
    put(catalog.load_table("db.t$branch_b"), {9: "branch"})
    with elsewhere.load_table("db.t").open_writer("waits") as writer:
        writer.upsert([{"k": 2, "v": "late", "own": "late"}])
        table.branches.fast_forward("b")
        yield writer


def test_lookups_go_on_beside_rows_whose_schema_is_gone(waiting, elsewhere):
    table = elsewhere.load_table("db.t")
    rows = [{"k": 1, "v": "main"}, {"k": 9, "v": "branch"}]
    for visibility in ("latest", "committed"):
        assert table.lookup([*KEYS, {"k": 2}], visibility=visibility).to_pylist() == rows
    with pytest.raises(SchemaChangedError, match="load the table again"):
        waiting.commit()
    assert table.lookup([*KEYS, {"k": 2}]).to_pylist() == rows


def test_rows_of_others_are_kept_safe_beside_those_whose_schema_is_gone(
    waiting, elsewhere, monkeypatch
):
    with elsewhere.load_table("db.t").open_writer() as writer:
        writer.upsert([{"k": 5, "v": "safe"}])
        renewed = []
        monkeypatch.setattr(OwnerSession, "renew", lambda held: renewed.append(held.schema_id))
        elsewhere.runtime._renew_files()
        assert renewed == [0]


@pytest.mark.parametrize("visibility", ["latest", "committed"])
def test_files_are_read_by_the_columns_that_took_the_place_of_theirs(
    catalog, elsewhere, visibility
):
    table = elsewhere.load_table("db.t")
    for name, column in (("db.t", "own"), ("db.t$branch_b", "theirs")):
        renamed = catalog.load_table(name)
        renamed.alter.rename_column("v", column)
        renamed.upsert([{"k": 9, column: column}])
        if column == "theirs":
            catalog.load_table("db.t").branches.fast_forward("b")
        assert table.lookup(KEYS, visibility=visibility)["v"].to_pylist() == ["main", column]


def test_lookups_of_new_rows_with_the_columns_of_before_are_refused(take_over, elsewhere):
    table = elsewhere.load_table("db.t")
    assert table.lookup([{"k": 1}]).num_rows == 1
    if len(take_over()) == 1:  # no snapshot is new
        assert table.lookup(KEYS).to_pylist() == [{"k": 1, "v": "main", "own": None}]
        return
    for visibility in ("latest", "committed"):
        with pytest.raises(SchemaChangedError, match="load the table again"):
            table.lookup(KEYS, visibility=visibility)


def test_a_compaction_of_before_is_not_committed(take_over, elsewhere):
    table = elsewhere.load_table("db.t")
    put(elsewhere.load_table("db.t$branch_b"), {5: "more"})
    take_over()
    assert table.compact(full=True) is not None
    found = elsewhere.load_table("db.t")
    assert found.files()["schema_id"].to_pylist() == [found.schema.id]
    assert found.lookup([{"k": 5}])["v"].to_pylist() == ["more"]


def test_a_branch_that_was_made_anew(catalog, elsewhere):
    own = widen(catalog.load_table("db.t$branch_b"), "own", k=9, v="branch", own="x")
    theirs = elsewhere.load_table("db.t$branch_b")
    assert theirs.lookup(KEYS)["own"].to_pylist() == [None, "x"]
    own.branches.delete("b")
    for _ in range(2):
        with pytest.raises(TableNotFoundError):
            theirs.lookup(KEYS)
        with pytest.raises(TableNotFoundError):
            put(theirs, {3: "lost"})
    own.branches.create("b", tag="first")
    widen(catalog.load_table("db.t$branch_b"), "other", k=9, v="anew", other="y")
    with pytest.raises(SchemaChangedError, match="load the table again"):
        theirs.lookup(KEYS)
    found = elsewhere.load_table("db.t$branch_b")
    assert found.lookup(KEYS).to_pylist() == [
        {"k": 1, "v": "main", "other": None},
        {"k": 9, "v": "anew", "other": "y"},
    ]
    put(found, {3: "after"})
    assert found.lookup([{"k": 3}])["v"].to_pylist() == ["after"]
