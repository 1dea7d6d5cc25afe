"""Rows a second of decoding Debezium's events, against Arrow's reader on the same file.

    python tests/benchmarks/bench_cdc.py [--rows 500000] [--runs 3]

The file has updates without a schema: an image before and after of seven columns, and Debezium's
source. Arrow's reader gives the events as they are nested; decoding gives the table's columns, with
kinds, and checks which members there are. Each run is in a process of its own; ratios are of
processor seconds, and their median counts.
"""

import json
import statistics
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.json as pa_json
from harness import Measured, in_own_process, measure, parsed, report, warm_up

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("name", pa.string()),
        ("email", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("score", pa.float64()),
        ("born", pa.date32()),
        ("note", pa.string()),
    ]
)


def write(path: Path, rows: int) -> None:
    """Write events of so many updates, each of another row."""
    source = {
        "version": "3.6.3.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_700_000_000_000,
        "snapshot": "false",
        "db": "shop",
        "sequence": '["24023119","24023128"]',
        "schema": "public",
        "table": "people",
        "txId": 555,
        "lsn": 24_023_128,
        "xmin": None,
    }
    with path.open("w") as file:
        for number in range(rows):
            before = {
                "id": number,
                "name": f"name {number % 1000}",
                "email": f"{number}@example.org",
                "price": f"{number % 10_000}.25",
                "score": number / 7,
                "born": number % 20_000,
                "note": None if number % 3 else "a note",
            }
            after = {**before, "name": f"name {number % 999}"}
            event = {"before": before, "after": after, "source": source, "op": "u", "ts_ms": 1}
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def decode(path: Path) -> int:
    from pkray.cdc.decoder import ChangeFormat, Decoder
    from pkray.cdc.row_changes import Target
    from pkray.cdc.sources import LineFile

    decoder = Decoder(ChangeFormat.debezium_json, Target.from_schema(SCHEMA))
    return sum(decoder.decode(some).rows.num_rows for some, _ in LineFile(path).records())


def run(engine: str, path: Path) -> Measured:
    warm_up("pyarrow.json", "pkray.cdc.decoder", "pkray.cdc.sources")
    if engine == "pkray":
        return measure(lambda: decode(path))
    return measure(lambda: pa_json.read_json(path).num_rows)


def main() -> None:
    arguments = parsed(__doc__, rows=500_000, runs=3, path="")
    if arguments.one:
        report(run(arguments.one, Path(arguments.path)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.json")
        write(path, arguments.rows)
        ratios = []
        for _ in range(arguments.runs):
            found = {
                engine: in_own_process(__file__, "--one", engine, "--path", str(path))
                for engine in ("arrow", "pkray")
            }
            ratios.append(found["pkray"].cpu_seconds / found["arrow"].cpu_seconds)
            for engine, measured in found.items():
                per_second = arguments.rows / measured.cpu_seconds
                peak = measured.peak_bytes >> 20
                print(f"{engine}: {per_second:,.0f} events a processor second, peak {peak} MB")
        size = path.stat().st_size / arguments.rows
        print(f"{statistics.median(ratios):.2f} times Arrow's reader, of {size:.0f} bytes an event")


if __name__ == "__main__":
    main()
