import pytest
from compaction_samples import Process


@pytest.fixture
def started(tmp_path):
    """Starts a process of the test's table, by its name; `now` is the time of all of them."""
    processes = []
    now = [1_000_000]

    def start(name="a", **options):
        process = Process(tmp_path, name, lambda: now[0], **options)
        process.now = now
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.close()
