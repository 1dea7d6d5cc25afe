"""The README's tour of Spark works as it stands there, after the tours above it."""

from __future__ import annotations

import json

from tests.readme import blocks


def test_the_tour_of_spark(spark, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    batch, by_format, stream = blocks("Spark")
    tour: dict = {}
    for heading in ("Python", "Merge rules and changes", "Time and maintenance"):
        (code,) = blocks(heading)
        exec(compile(code, "README.md", "exec"), tour)
    exec(compile(batch, "README.md", "exec"), tour)
    exec(compile(by_format, "README.md", "exec"), tour)
    orders = tour["orders"]
    rows = orders.to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["amount"]) for row in rows] == [(2, 100.0), (3, 7.25)]
    assert "Grace" in capfd.readouterr().out

    (tmp_path / "incoming").mkdir()
    row = {"id": 4, "customer": "Alan", "amount": 1.0}
    (tmp_path / "incoming" / "1.json").write_text(json.dumps(row))
    # The JVM may have started in another working directory.
    for folder in ("incoming", "checkpoints"):
        stream = stream.replace(f'"{folder}/', f'"{tmp_path}/{folder}/')
    exec(compile(stream, "README.md", "exec"), tour)
    try:
        tour["query"].processAllAvailable()
    finally:
        tour["query"].stop()
    assert row in orders.to_arrow().to_pylist()
    tour["spending"].wait_ended(120)
    spent = tour["catalog"].load_table("shop.spent").to_arrow().select(["customer", "total"])
    assert spent.to_pylist() == [{"customer": "Alan", "total": 1.0}]
    tour["catalog"].close()
