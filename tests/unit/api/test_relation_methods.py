"""Methods of relations and SQL give the same plans."""

import datetime as dt
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
import pytest

from pkray import relational
from pkray.errors import ColumnNotFoundError, OptionError, QueryError, UnsupportedError
from pkray.relational.api import func as f

ORDERS = relational.from_arrow(
    pa.table(
        {
            "id": pa.array([1, 2, 3, 4], pa.int32()),
            "region": ["n", "s", None, "n"],
            "amount": pa.array([10, None, 30, 5], pa.int32()),
        }
    ),
    name="orders",
)
LINES = relational.from_arrow(
    pa.table({"id": pa.array([1, 1, 3], pa.int32()), "sku": ["a", "b", "c"]}), name="lines"
)
BIDS = relational.changelog(
    [("item", "STRING"), ("price", "INT"), ("at", "TIMESTAMP(3)")],
    watermark=("at", "at - INTERVAL '1' MINUTE"),
    name="bids",
)
RATES = relational.changelog(
    [("item", "STRING"), ("rate", "INT"), ("since", "TIMESTAMP(3)")],
    ["item"],
    "upsert",
    "since",
    name="rates",
)


def sql(text: str) -> relational.Relation:
    return relational.query(text, orders=ORDERS, lines=LINES, bids=BIDS, rates=RATES)


PAIRS: dict[str, Callable[[], relational.Relation]] = {
    "SELECT id, amount * 2 AS twice FROM orders": lambda: ORDERS.select(
        "id", twice=ORDERS.amount * 2
    ),
    "SELECT id AS k, * FROM orders": lambda: ORDERS.select("id AS k", "*"),
    "SELECT count(*), sum(amount) AS s FROM orders": lambda: ORDERS.select(
        f.count(), s=f.sum("amount")
    ),
    "SELECT * FROM orders WHERE (amount > 1 OR id = 2) AND region = 'n'": lambda: ORDERS.filter(
        "amount > 1 OR id = 2", ORDERS.region == "n"
    ),
    "SELECT * FROM orders WHERE region IS NULL OR NOT id < 3": lambda: ORDERS.where(
        ORDERS.region.is_null() | ~(ORDERS.id < 3)
    ),
    "SELECT * FROM orders WHERE id > 1 AND id < 3": lambda: ORDERS.filter("id > 1").filter(
        "id < 3"
    ),
    "SELECT id, region, amount + 1 AS amount, amount > 9 AS big FROM orders": lambda: (
        ORDERS.with_columns(amount=ORDERS.amount + 1, big="amount > 9")
    ),
    "SELECT id, amount FROM orders": lambda: ORDERS.drop_columns("region"),
    "SELECT id AS k, region, amount AS a FROM orders": lambda: ORDERS.rename_columns(
        {"id": "k"}, amount="a"
    ),
    "SELECT region, count(*) AS n, sum(amount) AS s FROM orders GROUP BY region": lambda: (
        ORDERS.group_by("region").agg(n=f.count("*"), s=f.sum(ORDERS.amount))
    ),
    "SELECT upper(region) AS r, max(id) AS m FROM orders GROUP BY upper(region) "
    "HAVING count(*) > 1": lambda: (
        ORDERS.group_by(f.upper("region").alias("r")).having("count(*) > 1").agg(m="max(id)")
    ),
    "SELECT sum(amount) AS s FROM orders GROUP BY region": lambda: ORDERS.group_by("region").select(
        "sum(amount) AS s"
    ),
    "SELECT region, count(DISTINCT id) FILTER (WHERE amount > 5) AS n FROM orders "
    "GROUP BY region": lambda: ORDERS.group_by("region").agg(
        n=f.count(ORDERS.id).distinct().filter(ORDERS.amount > 5)
    ),
    "SELECT region, id, count(*) AS n FROM orders GROUP BY ROLLUP (region, id)": lambda: (
        ORDERS.group_by(relational.rollup("region", "id")).agg(n=f.count())
    ),
    "SELECT region, id, count(*) AS n FROM orders GROUP BY CUBE (region, id)": lambda: (
        ORDERS.group_by(relational.cube("region", "id")).agg(n=f.count())
    ),
    "SELECT region, id, count(*) AS n FROM orders GROUP BY "
    "GROUPING SETS ((region, id), ())": lambda: ORDERS.group_by(
        relational.grouping_sets(["region", "id"], [])
    ).agg(n=f.count()),
    "SELECT count(*) AS n FROM orders": lambda: ORDERS.group_by().agg(n=f.count()),
    "SELECT DISTINCT * FROM orders": lambda: ORDERS.distinct(),
    "SELECT * FROM orders ORDER BY amount DESC, id DESC NULLS FIRST, region": lambda: (
        ORDERS.order_by(ORDERS.amount.desc(), "id DESC NULLS FIRST", relational.col("region"))
    ),
    "SELECT * FROM orders ORDER BY amount DESC NULLS FIRST LIMIT 2 OFFSET 1": lambda: (
        ORDERS.order_by(ORDERS.amount.desc.nulls_first).limit(2, 1)
    ),
    "SELECT * FROM orders OFFSET 2": lambda: ORDERS.offset(2),
    "SELECT id FROM orders UNION SELECT id FROM lines": lambda: ORDERS.select("id").union(
        LINES.select("id")
    ),
    "SELECT id FROM orders UNION ALL SELECT id FROM lines": lambda: ORDERS.select("id").union(
        LINES.select("id"), all=True
    ),
    "SELECT id FROM orders INTERSECT SELECT id FROM lines": lambda: ORDERS.select("id").intersect(
        LINES.select("id")
    ),
    "SELECT id FROM orders EXCEPT ALL SELECT id FROM lines": lambda: ORDERS.select("id").except_(
        LINES.select("id"), all=True
    ),
    "SELECT * FROM orders JOIN lines ON orders.id = lines.id": lambda: ORDERS.join(
        LINES, ORDERS.id == LINES.id
    ),
    "SELECT * FROM orders LEFT JOIN lines ON orders.id = lines.id AND sku > 'a'": lambda: (
        ORDERS.join(LINES, "orders.id = lines.id AND sku > 'a'", "left")
    ),
    "SELECT lines.id, region, amount, sku FROM orders RIGHT JOIN lines "
    "ON orders.id = lines.id": lambda: ORDERS.join(LINES, "id", "right"),
    "SELECT coalesce(orders.id, lines.id) AS id, region, amount, sku FROM orders FULL JOIN lines "
    "ON orders.id = lines.id": lambda: ORDERS.join(LINES, ["id"], "full"),
    "SELECT * FROM orders LEFT SEMI JOIN lines ON orders.id = lines.id": lambda: ORDERS.join(
        LINES, "id", "semi"
    ),
    "SELECT * FROM orders LEFT ANTI JOIN lines ON orders.id = lines.id": lambda: ORDERS.join(
        LINES, "id", "anti"
    ),
    "SELECT * FROM orders CROSS JOIN lines": lambda: ORDERS.join(LINES, how="cross"),
    "SELECT orders.id AS id_o, region, amount, lines.id AS id_l, sku FROM orders JOIN lines "
    "ON orders.id = lines.id": lambda: ORDERS.join(
        LINES, ORDERS.id == LINES.id, suffixes=("_o", "_l")
    ),
    "SELECT * FROM orders WHERE id IN (SELECT id FROM lines)": lambda: ORDERS.filter(
        ORDERS.id.isin(LINES.select("id"))
    ),
    "SELECT * FROM orders WHERE EXISTS (SELECT * FROM lines)": lambda: ORDERS.filter(
        relational.exists(LINES)
    ),
    "SELECT * FROM orders WHERE id < (SELECT max(id) FROM lines)": lambda: ORDERS.filter(
        ORDERS.id < LINES.select("max(id)")
    ),
    "SELECT sum(amount) OVER (PARTITION BY region ORDER BY id "
    "ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS w FROM orders": lambda: ORDERS.select(
        w=f.sum("amount").over("region", ORDERS.id, rows=(-1, 0))
    ),
    "SELECT count(*) OVER (ORDER BY id "
    "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS w FROM orders": lambda: (
        ORDERS.select(w=f.count().over(order_by="id", range=(None, None)))
    ),
    "SELECT rank() OVER (ORDER BY amount DESC) AS w FROM orders": lambda: ORDERS.select(
        w=f.rank().over([], ORDERS.amount.desc)
    ),
    "SELECT CASE WHEN amount > 9 THEN 'big' WHEN amount IS NULL THEN NULL ELSE 'small' END AS size "
    "FROM orders": lambda: ORDERS.select(
        size=relational.when(ORDERS.amount > 9, "big")
        .when("amount IS NULL", relational.lit(None))
        .otherwise("small")
    ),
    "SELECT CAST(id AS DECIMAL(10, 2)) AS a, TRY_CAST(region AS INT) AS b FROM orders": lambda: (
        ORDERS.select(a=ORDERS.id.cast("DECIMAL(10, 2)"), b=ORDERS.region.try_cast("INT"))
    ),
    "SELECT * FROM orders WHERE region LIKE 'n%' AND id BETWEEN 1 AND 2 AND id IN (1, 2)": lambda: (
        ORDERS.filter(ORDERS.region.like("n%") & ORDERS.id.between(1, 2) & ORDERS.id.isin(1, 2))
    ),
    "SELECT id, region, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY region ORDER BY id "
    "ASC) AS rownum FROM orders) WHERE rownum = 1": lambda: ORDERS.deduplicate("region", "id"),
    "SELECT id, region, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY region ORDER BY id "
    "DESC) AS rownum FROM orders) WHERE rownum = 1": lambda: ORDERS.deduplicate(
        ["region"], ORDERS.id, keep_first=False
    ),
    "SELECT id, region, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY region ORDER BY "
    "amount DESC) AS rownum FROM orders) WHERE rownum <= 2": lambda: ORDERS.topn(
        2, "region", ORDERS.amount.desc()
    ),
    "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY amount DESC) AS rownum FROM orders) "
    "WHERE rownum >= 2 AND rownum <= 3": lambda: ORDERS.topn(
        (2, 3), order_by="amount DESC", with_rank=True
    ),
    "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '10' MINUTE))": lambda: (
        BIDS.window(relational.Tumble.over("10 minutes").on("at"))
    ),
    "SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '5' "
    "MINUTE))": lambda: BIDS.window(
        relational.Tumble.over(relational.lit(1).hours).on(BIDS["at"]).offset("5 min")
    ),
    "SELECT * FROM TABLE(HOP(TABLE bids, DESCRIPTOR(at), INTERVAL '30' MINUTE, INTERVAL '90' "
    "MINUTE))": lambda: BIDS.window(
        relational.Slide.over("1 hour 30 min").every(dt.timedelta(minutes=30)).on("at")
    ),
    "SELECT * FROM TABLE(SESSION(TABLE bids PARTITION BY item, DESCRIPTOR(at), "
    "INTERVAL '10' SECOND))": lambda: BIDS.window(
        relational.Session.with_gap("10 s").partition_by("item").on("at")
    ),
    "SELECT * FROM TABLE(CUMULATE(TABLE bids, DESCRIPTOR(at), INTERVAL '1' HOUR, "
    "INTERVAL '1' DAY))": lambda: BIDS.window(
        relational.Cumulate.over("1 day").step("1 hour").on("at")
    ),
    "WITH r AS (SELECT * FROM bids WHERE price > 1) SELECT window_start, window_end, count(*) AS n "
    "FROM TABLE(TUMBLE(TABLE r, DESCRIPTOR(at), INTERVAL '1' DAY)) "
    "GROUP BY window_start, window_end": lambda: (
        BIDS.filter("price > 1")
        .window(relational.Tumble.over("1 day").on("at"))
        .group_by("window_start", "window_end")
        .agg(n="count(*)")
    ),
    "SELECT * FROM bids LEFT JOIN rates FOR SYSTEM_TIME AS OF bids.at "
    "ON bids.item = rates.item": lambda: BIDS.join(
        RATES.as_of(BIDS["at"]), BIDS["item"] == RATES["item"], "left"
    ),
    "SELECT * FROM bids JOIN rates ON bids.item = rates.item AND bids.at >= rates.since - "
    "INTERVAL '10' MINUTE AND bids.at <= rates.since + INTERVAL '1' HOUR": lambda: (
        BIDS.interval_join(RATES, "item", "at", "since", "-10 minutes", relational.lit(1).hours)
    ),
    "SELECT /*+ STATE_TTL('orders' = '1d') */ * FROM orders JOIN lines "
    "ON orders.id = lines.id": lambda: ORDERS.join(LINES, ORDERS.id == LINES.id).hint(
        "STATE_TTL", {"orders": "1d"}
    ),
    "SELECT * FROM orders "
    "WHERE id IS NOT NULL AND region IS NOT NULL AND amount IS NOT NULL": lambda: ORDERS.dropna(),
    "SELECT * FROM orders WHERE (CASE WHEN region IS NOT NULL THEN 1 ELSE 0 END) + "
    "(CASE WHEN amount IS NOT NULL THEN 1 ELSE 0 END) >= 1": lambda: ORDERS.dropna(
        1, ["region", "amount"]
    ),
    "SELECT id, region, CASE WHEN amount IS NULL THEN 1 ELSE amount END AS amount "
    "FROM orders": lambda: ORDERS.fillna(1, ["amount"]),
    "SELECT id, CASE WHEN region IS NULL THEN '?' ELSE region END AS region, CASE WHEN amount IS "
    "NULL THEN 0 ELSE amount END AS amount FROM orders": lambda: ORDERS.fillna(
        {"region": "?", "amount": 0}
    ),
    "SELECT id, CASE WHEN region = 'n' THEN 'north' ELSE region END AS region, amount "
    "FROM orders": lambda: ORDERS.replace({"n": "north"}),
}


@pytest.mark.parametrize("text", PAIRS, ids=lambda text: text[:60])
def test_a_method_and_its_sql_give_the_same_plan(text):
    assert PAIRS[text]().plan == sql(text).plan


@pytest.mark.parametrize("text", PAIRS, ids=lambda text: text[:60])
def test_the_sql_that_a_relation_shows_gives_its_plan(text):
    relation = PAIRS[text]()
    assert sql(relation.sql()).plan == relation.plan


def test_a_relation_does_not_change_by_its_methods():
    before = ORDERS.sql(), ORDERS.plan
    ORDERS.filter("id > 1").select("id").limit(1)
    assert (ORDERS.sql(), ORDERS.plan) == before


def test_columns_of_earlier_relations_are_found_in_later_ones():
    lines = LINES.alias("l")
    joined = ORDERS.filter("id > 0").join(lines, ORDERS.id == lines.id)
    assert joined.select(ORDERS.id, lines.id).columns == ["id", "id0"]


def test_a_column_that_was_replaced_is_not_the_old_one():
    changed = ORDERS.with_columns(amount=ORDERS.amount * 2)
    with pytest.raises(QueryError, match="no longer there"):
        changed.filter(ORDERS.amount > 1)
    assert changed.filter(changed.amount > 50).to_arrow().num_rows == 1


def test_columns_of_two_sides_of_one_origin_are_ambiguous():
    with pytest.raises(QueryError, match="may be of either side"):
        ORDERS.join(ORDERS.filter("id > 1"), ORDERS.id == ORDERS.id)


def test_columns_of_other_relations_are_refused():
    with pytest.raises(QueryError, match="another relation"):
        ORDERS.filter(LINES.sku == "a")


def test_relations_of_two_sources_of_one_name_do_not_mix():
    other = relational.from_arrow({"id": [7]}, name="orders")
    both = ORDERS.select("id").union(other).order_by("id")
    assert both.to_arrow()["id"].to_pylist() == [1, 2, 3, 4, 7]


def test_a_relation_of_another_dialect_keeps_its_own_rules():
    halves = relational.query("SELECT 7 / 2 AS h", "flink")
    assert halves.select(h=halves.h + 0).to_arrow()["h"].to_pylist() == [3]
    both = relational.query("SELECT 7 / 2 AS h").union(halves.select(h="CAST(h AS DOUBLE)"))
    assert sorted(both.to_arrow()["h"].to_pylist()) == [3.0, 3.5]


@pytest.mark.parametrize(
    ("value", "back"),
    [
        (1, 1),
        (-5, -5),
        (2**40, 2**40),
        (1.5, 1.5),
        (-0.25, -0.25),
        (1e300, 1e300),
        (Decimal("-1.50"), Decimal("-1.50")),
        ("it's \\ \n", "it's \\ \n"),
        (b"\x00\xff", b"\x00\xff"),
        (True, True),
        (None, None),
        (dt.date(2020, 2, 29), dt.date(2020, 2, 29)),
        (dt.datetime(2020, 1, 2, 3, 4, 5, 678900), dt.datetime(2020, 1, 2, 3, 4, 5, 678900)),
    ],
)
@pytest.mark.parametrize("dialect", ["spark", "flink"])
def test_constants_come_out_as_they_went_in(value, back, dialect):
    one = relational.from_arrow({"x": [1]}, dialect=dialect)
    found = one.select(v=relational.lit(value))
    assert found.to_arrow()["v"].to_pylist() == [back]
    assert relational.query(found.sql(), dialect, **{one.sql().split()[-1]: one}).plan == found.plan


def test_attributes_are_columns_where_no_method_has_the_name():
    named = relational.from_arrow({"count": [1], "a b": [2]})
    assert named["count"] + 1 is not None
    assert callable(named.count)
    assert named.select(named["a b"]).columns == ["a b"]


def test_an_unknown_column_is_an_attribute_error_that_says_the_nearest():
    with pytest.raises(ColumnNotFoundError, match="did you mean amount"):
        ORDERS["amont"]
    assert not hasattr(ORDERS, "amont")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: ORDERS.select("nope"), "no column nope"),
        (lambda: ORDERS.filter("id >"), "missing"),
        (lambda: ORDERS.filter(ORDERS.id == None), "is_null"),  # noqa: E711
        (lambda: bool(ORDERS.id > 1), "no truth"),
        (lambda: ORDERS.join(LINES), "needs `on`"),
        (lambda: ORDERS.join(LINES, "id", "cross"), "no condition"),
        (lambda: ORDERS.window(relational.Tumble.over("10 minutes")), r"needs \.on"),
        (lambda: ORDERS.window(relational.Tumble.over("ten")), "no duration"),
        (lambda: relational.Slide.over("1 hour").step("1 min"), "no step"),
        (lambda: ORDERS.hint("TTL", {}), "no hint is called"),
        (lambda: ORDERS.filter("id > 1").hint("OPTIONS", {"scan.mode": "latest"}), "of a table"),
        (lambda: ORDERS.fillna("x", ["id"]), "does not hold"),
        (lambda: ORDERS.drop_columns("id", "region", "amount"), "all columns"),
        (lambda: ORDERS.with_columns("amount + 1"), "no name"),
        (lambda: ORDERS.select(f.sum("amount")).select("amount"), "no column amount"),
        (lambda: f.sum("id").over(rows=(0, 1), range=(0, 1)), "one of them"),
        (lambda: list(ORDERS), "not iterated"),
        (lambda: ORDERS.rename_columns(id="amount"), "two columns"),
        (lambda: ORDERS.select(relational.lit(object())), "cannot be written"),
    ],
)
def test_wrong_calls_say_what_to_write(wrong, words):
    with pytest.raises(QueryError, match=words):
        wrong()


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: ORDERS.topn(0, order_by="id"),
        lambda: ORDERS.sample(2),
        lambda: ORDERS.split([]),
        lambda: ORDERS.limit(-1),
        lambda: ORDERS.dropna(9),
        lambda: ORDERS.join(LINES, "id", "outer"),
    ],
)
def test_numbers_and_words_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError):
        wrong()


def test_splits_are_disjoint_complete_and_stable():
    numbers = relational.from_arrow({"x": list(range(1000))})
    parts = [each.to_arrow()["x"].to_pylist() for each in numbers.split([1, 2, 1], seed=3)]
    assert sorted(x for part in parts for x in part) == list(range(1000))
    assert [each.to_arrow()["x"].to_pylist() for each in numbers.split([1, 2, 1], seed=3)] == parts
    assert 400 < len(parts[1]) < 600


def test_a_sample_takes_about_its_share_and_another_seed_other_rows():
    numbers = relational.from_arrow({"x": list(range(1000))})
    one, other = (numbers.sample(0.3, seed).to_arrow()["x"].to_pylist() for seed in (1, 2))
    assert 200 < len(one) < 400
    assert one != other
    assert numbers.sample(1.0, 1).count() == 1000
    assert numbers.sample(0.0, 1).count() == 0


def test_describe_says_types_keys_and_watermarks():
    described = RATES.describe()
    assert described.column_names == ["name", "type", "null", "key", "extras", "watermark"]
    assert [tuple(row.values()) for row in described.to_pylist()] == [
        ("item", "STRING", False, "PRI(item)", None, None),
        ("rate", "INT", True, None, None, None),
        ("since", "TIMESTAMP(3) *ROWTIME*", True, None, None, "since"),
    ]


def test_a_long_chain_of_methods_runs():
    changed = ORDERS
    for _ in range(80):
        changed = changed.with_columns(amount=changed.amount + 1)
    assert changed.to_arrow()["amount"].to_pylist() == [90, None, 110, 85]
    assert "amount INT" in repr(changed)


def test_a_condition_of_hundreds_of_parts_runs():
    within = ORDERS.id > 0
    for number in range(300):
        within = within & (ORDERS.id != 100 + number)
    assert ORDERS.filter(within).count() == 4


def test_what_is_nested_too_deeply_is_refused():
    total = ORDERS.amount
    for _ in range(400):
        total = -(total + 1)
    with pytest.raises(QueryError, match=r"deep|levels"):
        ORDERS.select(total=total)


def test_dates_later_than_python_s_are_shown(capsys):
    far = sql("SELECT make_date(12345, 1, 2) AS d, array(make_date(12345, 1, 2)) AS a")
    far.show()
    assert "12345-01-02 | ['12345-01-02']" in capsys.readouterr().out
    with pytest.raises(UnsupportedError, match="cast it to STRING"):
        far.to_pandas()


def test_it_shows_its_sql_and_columns_without_running():
    assert "SELECT id FROM orders" in repr(ORDERS.select("id"))
    assert "id INT" in repr(ORDERS.select("id"))
    assert "<table>" in ORDERS._repr_html_()


@pytest.mark.parametrize(
    ("wrong", "column"),
    [
        (lambda: ORDERS.filter("amont > 1"), 1),
        (lambda: ORDERS.filter("amount > 1 AND amont > 1"), 16),
        (lambda: ORDERS.select(x="uper(region)"), 1),
        (lambda: ORDERS.select("amount +"), 8),
        (lambda: ORDERS.order_by("amont DESC"), 1),
    ],
)
def test_errors_in_text_count_columns_from_its_own_beginning(wrong, column):
    with pytest.raises(QueryError) as caught:
        wrong()
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    "made",
    [
        lambda: ORDERS.filter(None),
        lambda: ORDERS.where("id > 1", None),
        lambda: ORDERS.group_by("region").having(None),
        lambda: f.sum("amount").filter(None),
        lambda: relational.when(None, 1),
        lambda: relational.when(relational.col("id") > 1, 1).when(None, 2),
    ],
)
def test_none_is_no_condition(made: Callable[[], object]) -> None:
    with pytest.raises(QueryError, match="a condition is None"):
        made()


@pytest.mark.parametrize("text", ["id; drop", "id; id", "id LIMIT 3", "id WHERE true", "id, id"])
@pytest.mark.parametrize("method", ["order_by", "select", "filter", "group_by"])
def test_text_that_is_more_than_one_expression_is_refused(method: str, text: str) -> None:
    with pytest.raises(QueryError, match=r"one (sort key|expression) is expected"):
        getattr(ORDERS, method)(text)
