"""Times in the session's zone: the local engine and plans on Spark against Spark's own SQL."""

import pytest

from pkray.relational import from_arrow
from pkray.relational.sources.rows import conformed
from tests.spark.local.random_rows import random_rows
from tests.spark.local.side_by_side import difference

EXPRESSIONS = [
    *("hour(tz1)", "day(tz1)", "weekofyear(tz1)", "date_trunc('day', tz1)", "last_day(tz1)"),
    *("date_format(tz1, 'yyyy-MM-dd HH:mm')", "tz1 + INTERVAL 1 DAY", "tz1 + INTERVAL 1 MONTH"),
    *("tz1 - INTERVAL '1 02:03:04' DAY TO SECOND", "tz1 + INTERVAL 5 HOURS", "from_unixtime(k)"),
    *("CAST(tz1 AS STRING)", "CAST(tz1 AS DATE)", "CAST(tz1 AS TIMESTAMP_NTZ)"),
    *("CAST(ts1 AS TIMESTAMP)", "CAST(dt1 AS TIMESTAMP)", "CAST(tss AS TIMESTAMP)"),
    *("CAST(concat(tss, '+03:00') AS TIMESTAMP)", "make_timestamp(2020, p, 5, 1, 2, 3)"),
    *(
        "to_timestamp('01.07.2020', 'dd.MM.yyyy')",
        "timestampdiff(DAY, TIMESTAMP '2010-01-01', tz1)",
    ),
    *("from_utc_timestamp(tz1, 'Asia/Tokyo')", "convert_timezone('America/New_York', ts1)"),
    *("tz1 = ts1", "unix_seconds(tz1)", "current_timezone()", "TIMESTAMP '2020-07-01 12:00:00'"),
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("zone", ["America/New_York", "+05:30"])
def test_times_are_in_the_zone_as_spark_s_are(spark, catalog, zone):
    rows = from_arrow(random_rows(seed=16, rows=2000), name="r")
    frame = rows.to_spark(spark)
    session = frame.sparkSession
    frame.createOrReplaceTempView("r")
    catalog.create_view("r", rows, temporary=True)
    catalog.sql(f"SET 'spark.sql.session.timeZone' = '{zone}'")
    columns = ", ".join(f"{each} AS v{place}" for place, each in enumerate(EXPRESSIONS))
    relation = catalog.sql(f"SELECT {columns} FROM r")
    found = relation.to_arrow()
    session.conf.set("spark.sql.session.timeZone", zone)
    own = conformed(session.sql(f"SELECT {columns} FROM r").toArrow(), relation.fields)
    session.conf.set("spark.sql.session.timeZone", "UTC")
    for theirs in (own, relation.to_arrow(engine="spark")):
        triples = zip(EXPRESSIONS, found.columns, theirs.columns, strict=True)
        assert [each for each, ours, other in triples if difference(ours, other)] == []
