"""Settings of a service come from a file and from the environment, and wrong ones are named."""

import pickle

import pytest

from pkray.errors import OptionError
from pkray.service.local import LocalRuntime
from pkray.service.ray.runtime import RayRuntime
from pkray.service.settings import SETTINGS, Settings

SECRET = "wJalrXUtnFEMI/K7MDENG"


@pytest.fixture
def file(tmp_path):
    """Write a file of settings; give the environment that names it."""

    def write(text: str) -> dict[str, str]:
        path = tmp_path / "pkray.toml"
        path.write_text(text)
        return {"PKRAY_SETTINGS": str(path)}

    return write


def test_nothing_is_set_where_nothing_is_said():
    read = Settings.read({"HOME": "/root", "PKRAY_RAY": ""})
    assert (read["warehouse"], read.storage_options(), read.runtime_options(True)) == (None, {}, {})


def test_a_file_and_the_environment_say_the_same(file):
    text = 'pool_workers = 4\nowner_cpus = 0.5\nworker_memory = "2 gb"\nstorage_allow_http = true'
    variables = {
        "PKRAY_POOL_WORKERS": "4",
        "PKRAY_OWNER_CPUS": "0.5",
        "PKRAY_WORKER_MEMORY": "2 gb",
        "PKRAY_STORAGE_ALLOW_HTTP": "true",
    }
    for read in (Settings.read(file(text)), Settings.read(variables)):
        assert read.runtime_options(True) == {
            "pool_workers": 4,
            "owner_cpus": 0.5,
            "worker_memory": 2 << 30,
        }
        assert read.storage_options() == {"allow_http": True}


def test_the_environment_counts_before_the_file(file):
    read = Settings.read({**file('ray = "auto"\nowners = 2'), "PKRAY_OWNERS": "3"})
    assert (read["owners"], read["ray"]) == (3, "auto")
    assert read.given["owners"].source == "the environment's PKRAY_OWNERS"


def test_the_embedded_runtime_is_not_told_what_only_ray_takes():
    read = Settings.read({"PKRAY_POOL_WORKERS": "4", "PKRAY_CALL_TIMEOUT": "5"})
    assert read.runtime_options(False) == {"call_timeout": 5.0}
    assert read.runtime_options(True) == {"call_timeout": 5.0, "pool_workers": 4}


@pytest.mark.parametrize("runtime", [LocalRuntime, RayRuntime])
def test_settings_of_the_runtime_are_what_it_takes(runtime):
    taken = set(runtime.__init__.__annotations__) - {"return", "address"}
    scopes = ("runtime", "ray") if runtime is RayRuntime else ("runtime",)
    assert {each.option for each in SETTINGS if each.of in scopes} == taken


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"PKRAY_POOL_WORKER": "3"}, "no setting pool_worker, .*PKRAY_POOL_WORKER.* pool_workers?"),
        ({"PKRAY_POOL_WORKERS": "many"}, "pool_workers, .* be 'many': give a whole number"),
        ({"PKRAY_POOL_WORKERS": "0"}, "cannot be '0': give a whole number of at least 1"),
        ({"PKRAY_OWNER_CPUS": "nan"}, "owner_cpus, .* be 'nan': give a number of at least 0"),
        ({"PKRAY_WORKER_MEMORY": "2 parsec"}, "worker_memory, .* give a size"),
        ({"PKRAY_METADATA_CACHE": "1"}, "metadata_cache, .* of at least 64 kb"),
        ({"PKRAY_STORAGE_ALLOW_HTTP": "yes"}, "storage_allow_http, .* give true or false"),
        ({"PKRAY_STORAGE_ACCOUNT_KEY_FILE": "/no"}, "'/no' cannot be read .No such file"),
        ({"PKRAY_SETTINGS": "/no/pkray.toml"}, "'/no/pkray.toml', .* cannot be read .No such file"),
    ],
)
def test_a_wrong_variable_is_named(variables, message):
    with pytest.raises(OptionError, match=message):
        Settings.read(variables)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pool_worker = 3", "no setting pool_worker, which the file .*pkray.toml.* pool_workers?"),
        ('pool_workers = "many"', "pool_workers, in the file .* be 'many'"),
        ("pool_workers = 1.5", "be '1.5': give a whole number"),
        ("pool_workers = true", "be 'true': give a whole number"),
        ("[storage]\nregion = 1", "there is no setting storage"),
        ("pool_workers: 4", "cannot be read .*it is to be TOML"),
        ('metadata_cache = "1 gb"', "set PKRAY_METADATA_CACHE in the environment of all nodes"),
    ],
)
def test_a_wrong_line_of_the_file_is_named(file, text, message):
    with pytest.raises(OptionError, match=message):
        Settings.read(file(text))


def test_a_secret_is_read_from_its_file_and_shown_by_nothing(tmp_path):
    (tmp_path / "key").write_text(f"{SECRET}\n")
    read = Settings.read({"PKRAY_STORAGE_SECRET_ACCESS_KEY_FILE": str(tmp_path / "key")})
    assert read.storage_options() == {"secret_access_key": SECRET}
    assert SECRET not in f"{read!r} {read.given} {read['storage_secret_access_key_file']}"
    assert SECRET not in repr(pickle.loads(pickle.dumps(read)))


@pytest.mark.parametrize("content", ["", " \n", "k" * 70_000])
def test_a_file_that_holds_no_key_is_refused(tmp_path, content):
    (tmp_path / "key").write_text(content)
    with pytest.raises(OptionError, match=r"key' is (empty|too long for a key)"):
        Settings.read({"PKRAY_STORAGE_ACCOUNT_KEY_FILE": str(tmp_path / "key")})


@pytest.mark.parametrize(
    "name", ["PKRAY_STORAGE_SECRET_ACCESS_KEY", "PKRAY_STORAGE_ENDPOINT", "PKRAY_LOCAL_DIRECTORI"]
)
def test_what_is_wrong_is_not_shown_where_it_may_be_a_secret(name):
    with pytest.raises(OptionError) as raised:
        Settings.read({name: f"http://{SECRET}@host"})
    assert SECRET not in str(raised.value)
    assert SECRET not in repr(raised.value.values)


def test_variables_of_tests_are_none_of_its_business():
    assert Settings.read({"PKRAY_TEST_EFFORT": "10"}).given == {}


def test_a_connection_goes_through_ray_where_an_address_is_given():
    read = Settings.read({"PKRAY_WAREHOUSE": "/w", "PKRAY_POOL_WORKERS": "2", "PKRAY_OWNERS": "3"})
    assert read.connection() == {"warehouse": "/w", "runtime_options": {"owners": 3}}
    assert read.connection(ray="auto") == {
        "warehouse": "/w",
        "runtime": "ray",
        "runtime_options": {"owners": 3, "pool_workers": 2, "address": "auto"},
    }


def test_a_folder_is_not_told_what_is_set_of_the_store():
    read = Settings.read({"PKRAY_STORAGE_REGION": "eu-central-1"})
    assert read.connection("/w") == {"warehouse": "/w", "runtime_options": {}}
    assert read.connection("s3://b/w")["region"] == "eu-central-1"
