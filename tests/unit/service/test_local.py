import time
from concurrent.futures import ThreadPoolExecutor

from pkray.schema.table_schema import TableSchema
from pkray.service.local import LocalRuntime
from pkray.storage.location import TableLocation


def test_threads_that_ask_at_once_get_one_service(tmp_path, monkeypatch):
    """Two services of one table in a process would contradict each other's commits."""
    runtime = LocalRuntime(local_directory=str(tmp_path))
    location = TableLocation(f"{tmp_path}/db.db/t", "db.t")
    schema = TableSchema.create([("id", "BIGINT")], ["id"])

    def start(*_):
        time.sleep(0.05)
        return object()

    monkeypatch.setattr(runtime, "_start", start)
    with ThreadPoolExecutor(4) as pool:
        services = list(pool.map(lambda _: runtime.service(location, schema), range(4)))
    assert all(service is services[0] for service in services)
    runtime._services.clear()
    runtime.close()
