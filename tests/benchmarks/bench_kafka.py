"""Events a second of a topic into a table, or with --write the other way, and the memory it takes.

    python tests/benchmarks/bench_kafka.py [--rows 1000000] [--keys 100000] [--write]

The broker is librdkafka's own, in another process than the reader. It keeps some megabytes of a
partition, so that events are sent as they are read. Processor seconds are those of the process
with the table alone, its writer and compactions included; memory is its peak, of reading also after
a tenth of the events.
"""

import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any

from harness import parsed

COLUMNS = [("id", "BIGINT"), ("name", "STRING"), ("n", "BIGINT")]
_AHEAD = 50_000
"""Events that were sent and not read: the broker holds four partitions of 5 MB."""


def event(number: int, keys: int) -> tuple[str, str]:
    row = {"id": number % keys, "name": f"name {number % 1000}", "n": number}
    return str(row["id"]), json.dumps({"op": "u", "before": None, "after": row})


def read(folder: str, servers: str, rows: int) -> None:
    """Read until so many rows came; print how many there are, and what they took."""
    import pkray
    import pkray.kafka

    with pkray.connect(folder) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["id"], options={"bucket": "2"})
        source = pkray.kafka.read(table, "t", servers=servers, format="debezium-json")
        thread = threading.Thread(target=source.run, daemon=True)
        before, start, early = _used(), time.monotonic(), 0
        thread.start()
        while source.rows < rows and thread.is_alive():
            time.sleep(0.1)
            print(source.rows, flush=True)
            if not early and source.rows >= rows // 10:
                early = _used().ru_maxrss
        source.stop()
        thread.join()
        after = _used()
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(
            f"done {source.rows / cpu:,.0f} events a processor second, "
            f"{source.rows / (time.monotonic() - start):,.0f} a second; peak {early >> 10} MB after"
            f" a tenth, {after.ru_maxrss >> 10} MB at the end; "
            f"{table.to_arrow().num_rows:,} keys",
            flush=True,
        )


def write(folder: str, servers: str, rows: int) -> None:
    """Write a table of so many rows; print what it took."""
    import numpy as np
    import pyarrow as pa

    import pkray
    import pkray.kafka

    with pkray.connect(folder) as catalog:
        table = catalog.create_table("db.t", COLUMNS, ["id"], options={"bucket": "2"})
        numbers = np.arange(rows)
        names = pa.array(np.char.add("name ", (numbers % 1000).astype(str)))
        table.upsert(pa.table({"id": numbers, "name": names, "n": numbers}))
        for form in ("debezium-json", "upsert-json"):
            sink = pkray.kafka.write(
                table, "t", servers=servers, format=form, mode="latest-full", name=form
            )
            before, start = _used(), time.monotonic()
            sink.run(once=True)
            after = _used()
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            print(
                f"done {form}: {sink.rows / cpu:,.0f} events a processor second, "
                f"{sink.rows / (time.monotonic() - start):,.0f} a second; peak "
                f"{after.ru_maxrss >> 10} MB",
                flush=True,
            )


def _used() -> Any:
    return resource.getrusage(resource.RUSAGE_SELF)


def main() -> None:
    arguments = parsed(__doc__, rows=1_000_000, keys=100_000, write=False, folder="")
    if arguments.one:
        (write if arguments.write else read)(arguments.folder, arguments.one, arguments.rows)
        return
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2})
    (broker,) = producer.list_topics(timeout=60).brokers.values()
    producer.list_topics("t", timeout=60)  # makes it
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, *sys.argv[1:]]
        words += ["--folder", folder, "--one", f"{broker.host}:{broker.port}"]
        reader = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert reader.stdout is not None
        sent = 0
        for line in reader.stdout:
            if line.startswith("done"):
                print(line.removeprefix("done "), end="", flush=True)
                continue
            upto = min(arguments.rows, int(line) + _AHEAD)
            while sent < upto:
                key, value = event(sent, arguments.keys)
                producer.produce("t", key=key, value=value)
                sent += 1
                if sent % 1000 == 0:
                    producer.poll(0)
            producer.flush(60)
        reader.wait(120)


if __name__ == "__main__":
    main()
