"""The manual's guide to Spark works as it stands there, after those to tables."""

import json

from tests.manual import Tour, blocks


def test_the_guide_to_spark(spark, tmp_path, monkeypatch, capfd):
    tour = Tour(tmp_path, monkeypatch)
    tour.follow("guides/tables.md", "guides/merging.md", "guides/time.md")
    batch, by_sql, by_format, changes, stream, events = blocks("guides/spark.md")
    tour.execute(batch, "guides/spark.md")
    tour.execute(by_sql, "guides/spark.md")
    tour.execute(by_format, "guides/spark.md")
    orders = tour["orders"]
    rows = orders.to_arrow().sort_by("id").to_pylist()
    assert [(row["id"], row["amount"]) for row in rows] == [(2, 100.0), (3, 7.25)]
    assert "Grace" in capfd.readouterr().out
    tour.execute(changes, "guides/spark.md")
    assert tour["stream"].columns == ["op", "id", "amount"]

    (tmp_path / "incoming").mkdir()
    row = {"id": 4, "customer": "Alan", "amount": 1.0}
    (tmp_path / "incoming" / "1.json").write_text(json.dumps(row))
    # The JVM may have started in another working directory.
    for folder in ("incoming", "checkpoints"):
        stream = stream.replace(f'"{folder}/', f'"{tmp_path}/{folder}/')
    tour.execute(stream, "guides/spark.md")
    try:
        tour["query"].processAllAvailable()
    finally:
        tour["query"].stop()
    assert row in orders.to_arrow().to_pylist()
    tour["spending"].wait_ended(120)
    spent = tour["catalog"].load_table("shop.spent").to_arrow().select(["customer", "total"])
    assert spent.to_pylist() == [{"customer": "Alan", "total": 1.0}]

    tour.names["records"] = spark.createDataFrame([("{",), (None,)], "value STRING")
    tour.execute(events, "guides/spark.md")
    assert tour["bad"].to_arrow()["text"].to_pylist() == [b"{"]
    tour["catalog"].close()
