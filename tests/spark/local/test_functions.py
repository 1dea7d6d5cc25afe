"""Functions of random rows: the local engine and plans on Spark against Spark's own SQL."""

import datetime
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pkray.relational import Relation, from_arrow
from tests.effort import examples

ROWS = examples(1000)
"""`test_every_function` takes more."""
UTC = datetime.UTC
INSTANTS = [
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
    datetime.datetime(2024, 2, 29, 12, 34, 56, 789_012, UTC),
    datetime.datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
    datetime.datetime(2024, 11, 3, 6, 30, tzinfo=UTC),
    datetime.datetime(1900, 1, 1, tzinfo=UTC),
    datetime.datetime(1970, 1, 1, tzinfo=UTC),
]
DOCUMENTS = [
    '{"a":1,"b":[1,2,{"c":"x"}],"d":"t","e":null,"f":1.50}', "[1,2]", '{"a":{"b":true}}', "no",
    '"s"', "{}", "",
]  # fmt: skip
TEXTS = ["", "a", "b", "é", "aa", "Spark SQL", "日本"]
INTS = [0, 1, -1, 2**31 - 1, -(2**31)]
FLOATS = [0.0, 1.5, -2.25, math.nan, math.inf, -math.inf]

TIME = """
year(ts); quarter(day); month(ts); day(day); dayofweek(day); weekday(day); dayofyear(ts)
weekofyear(day); hour(ts); minute(ts); second(ts); extract(second from ts)
extract(yearofweek from day); extract(dow from day); extract(doy from day); date_part('week', day)
date_add(day, s); date_sub(day, 3); datediff(day, date'2000-01-01'); add_months(day, s)
months_between(ts, timestamp'2001-05-31 10:00:00'); months_between(day, date'2020-02-29')
last_day(day); next_day(day, 'Fri'); trunc(day, 'quarter'); trunc(day, 'week'); trunc(ts, 'year')
date_trunc('hour', ts); date_trunc('month', ts); date_trunc('week', ts); date_trunc('day', day)
timestampadd(month, s, ts); timestampadd(hour, s, ts); timestampadd(day, s, day)
timestampdiff(month, ts, timestamp'2010-03-31 00:00:00')
timestampdiff(hour, ts, timestamp'2010-03-31 00:00:00')
timestampdiff(year, ts, timestamp'2024-02-29 12:34:56.789012')
timestampdiff(day, day, date'2010-03-31'); datediff(month, day, date'2010-03-31')
dateadd(week, s, ts); ts + interval '1' month; ts - interval '1' day; day + interval '2' month
day - interval 1 year; ts + interval '1 02:03:04' day to second; day + interval 1 hour
s * interval 1 hour + ts; date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS'); dayname(day)
date_format(day, 'EEE d MMM yy'); date_format(ts, 'h:mm a D Q'); date_format(ts, 'EEEE MMMM')
to_date('29/02/2024', 'dd/MM/yyyy'); to_timestamp('29.2.24 1:02 PM', 'd.M.yy h:mm a')
to_timestamp(date_format(ts, 'dd MMM yyyy HH:mm'), 'dd MMM yyyy HH:mm')
try_to_timestamp(t, 'yyyy'); unix_timestamp(ts); unix_timestamp(day); from_unixtime(l)
from_unixtime(l, 'yyyy/MM/dd'); timestamp_seconds(l); timestamp_seconds(1.5); timestamp_millis(l)
timestamp_micros(l); unix_seconds(ts); unix_millis(ts); unix_micros(ts); unix_date(day)
date_from_unix_date(s); make_date(2024, 2, 10 + s); make_timestamp(2024, 2, 29, 23, 59, 59.5)
make_timestamp(2024, 3, 31, 2, 30, 0, 'Europe/Berlin'); from_utc_timestamp(ts, 'Europe/Berlin')
to_utc_timestamp(ts, 'Europe/Berlin'); to_utc_timestamp(ts, 'America/New_York')
monthname(day); current_timezone(); current_date() > date'2020-01-01'
"""
NESTED = """
array(s, 1); array(s, 1.5); map('a', s, 'b', 2); struct(s, t); named_struct('x', s, 'y', t); (s, t)
struct(s AS a, t); st.p; st.P; element_at(mp, 'b'); try_element_at(arr, 2); get(arr, 1); mp['a']
size(arr); cardinality(mp); array_size(arr); array_contains(arr, 1); array_contains(words, 'a')
array_position(arr, 2); array_distinct(arr); array_join(words, '-'); array_join(words, '-', '?')
sort_array(arr); sort_array(arr, false); array_sort(arr); array_min(arr); array_max(arr)
array_max(words); slice(arr, 2, 2); slice(arr, -2, 2); flatten(array(arr, arr2)); sequence(1, 5)
sequence(5, 1, -2); sequence(s, 6); map_keys(mp); map_values(mp); map_entries(mp)
map_from_arrays(array('a', 'b'), array(1, s)); map_contains_key(mp, 'a')
map_from_entries(map_entries(mp)); transform(arr, x -> x + 1); transform(arr, (x, i) -> x * i)
transform(arr, x -> x + s); filter(arr, x -> x > 1); exists(arr, x -> x > 3)
forall(arr, x -> x < 4); aggregate(arr, 0, (a, x) -> a + x)
aggregate(arr, 0, (a, x) -> a + coalesce(x, 0), a -> a * 2); zip_with(arr, arr2, (x, y) -> x + y)
array_union(arr, arr2); array_intersect(arr, arr2); array_except(arr, arr2)
arrays_overlap(arr, arr2); array_remove(arr, 2); array_repeat(s, 2); array_compact(arr)
array_append(arr, 1); array_prepend(arr, s); arrays_zip(arr, arr2); concat(arr, arr2)
map_concat(mp, map('z', 1)); str_to_map('a:1,b:2'); map_filter(mp, (k, v) -> v > 0)
transform_values(mp, (k, v) -> v + 1); transform_keys(mp, (k, v) -> concat(k, 'x'))
"""
JSON = """
get_json_object(j, '$.a'); get_json_object(j, '$.b[0]'); get_json_object(j, '$.b')
get_json_object(j, '$.b[*]'); get_json_object(j, '$.b[2].c'); get_json_object(j, '$.b[*].c')
get_json_object(j, '$.f'); get_json_object(j, '$'); get_json_object(j, '$.d')
json_array_length(j); json_object_keys(j); to_json(st); to_json(arr); to_json(mp)
to_json(named_struct('a', ts, 'b', day, 'c', m, 'd', s, 'x', mp))
from_json(j, 'a INT, d STRING, f DOUBLE'); from_json(j, 'a STRING, b ARRAY<STRING>')
from_json(j, 'MAP<STRING, STRING>'); from_json(j, 'a INT, f DECIMAL(4, 1)')
"""
HASHES = """
md5(t); sha1(t); sha(t); sha2(t, 256); sha2(t, 0); crc32(t); hash(t); xxhash64(d); hash(big, d)
hash(s, t, e, m, b, day, ts); xxhash64(s, l, t, f, m, big, b, day, ts)
"""
AGGREGATES = """
count(*); count(i); count(distinct i); count(s, t); count(distinct s, t); sum(i); sum(l); sum(m)
sum(big); sum(e); sum(f); avg(i); avg(l); avg(m); avg(big); avg(e); avg(f); min(i); max(i); min(t)
max(t); min(d); max(d); min(m); max(big); min(b); max(ts); min(day); sum(distinct s)
avg(distinct s); bool_and(b); bool_or(b); every(b); some(b); count_if(b); stddev(e)
stddev_samp(s); stddev_pop(e); variance(e); var_pop(m); var_samp(i); skewness(e); kurtosis(e)
covar_pop(e, s); covar_samp(e, f); corr(e, s); bit_and(i); bit_or(i); bit_xor(i); median(e)
percentile(e, 0.3); percentile_approx(s, 0.4); max_by(t, n); min_by(i, e); max_by(st, e)
sum(i) filter (where b); count(*) filter (where b); approx_count_distinct(s)
array_sort(collect_list(s)); array_sort(collect_set(s)); first(g); any_value(g); try_sum(l)
try_avg(m); sum(d); avg(d)
"""
ORDERED = """
percentile_cont(0.25) within group (order by e); mode(s, true); last(g)
percentile_cont(0.25) within group (order by e desc); listagg(t, ',') within group (order by n)
percentile_disc(0.25) within group (order by e desc)
listagg(t) within group (order by t desc, n)
"""
"""Spark fails where these stand beside DISTINCT."""
WINDOWS = """
row_number() over (partition by g order by n); rank() over (partition by g order by s)
dense_rank() over (partition by g order by s desc); cume_dist() over (partition by g order by s)
percent_rank() over (partition by g order by s); ntile(3) over (partition by g order by n)
lag(s) over (partition by g order by n); lead(s, 2, 7) over (partition by g order by n)
lag(t, 1, 'zz') over (order by n); first_value(s) over (partition by g order by n)
last_value(s) over (partition by g order by n); nth_value(s, 2) over (partition by g order by n)
first_value(s) ignore nulls over (partition by g order by n)
sum(l) over (partition by g order by n); avg(m) over (partition by g)
max(t) over (partition by g order by n rows between 2 preceding and current row)
stddev(e) over (partition by g)
"""


def expressions(text: str) -> list[str]:
    return [each.strip() for line in text.split("\n") for each in line.split(";") if each.strip()]


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    chance = random.Random(20)

    def instant() -> datetime.datetime:
        away = datetime.timedelta(
            seconds=chance.randint(-(10**9), 10**9), microseconds=chance.randint(0, 999_999)
        )
        return chance.choice([*INSTANTS, datetime.datetime(2000, 1, 1, tzinfo=UTC) + away])

    def numbers(most: int, longest: int) -> list[int | None]:
        count = chance.randint(0, longest)
        return [maybe(lambda: chance.randint(0, most)) for _ in range(count)]

    def maybe(make: Callable[[], Any]) -> Any:
        return None if chance.random() < 0.2 else make()

    makers: dict[str, tuple[pa.DataType, Callable[[], Any]]] = {
        "g": (pa.int32(), lambda: chance.randint(0, 8)),
        "i": (pa.int32(), lambda: chance.choice([*INTS, chance.randint(-50, 50)])),
        "s": (pa.int32(), lambda: chance.randint(-5, 5)),
        "l": (pa.int64(), lambda: chance.randint(-(10**9), 10**9)),
        "d": (pa.float64(), lambda: chance.choice([*FLOATS, chance.gauss(0, 3)])),
        "f": (pa.float32(), lambda: chance.gauss(0, 3)),
        "e": (pa.float64(), lambda: chance.gauss(5, 2)),
        "m": (pa.decimal128(12, 2), lambda: Decimal(chance.randint(-(10**9), 10**9)) / 100),
        "big": (pa.decimal128(30, 5), lambda: Decimal(chance.randint(-(10**24), 10**24)) / 10**5),
        "b": (pa.bool_(), lambda: chance.random() < 0.5),
        "t": (pa.string(), lambda: chance.choice(TEXTS)),
        "day": (pa.date32(), lambda: instant().date()),
        "ts": (pa.timestamp("us", "UTC"), instant),
        "arr": (pa.list_(pa.int32()), lambda: numbers(4, 5)),
        "arr2": (pa.list_(pa.int32()), lambda: numbers(4, 4)),
        "words": (
            pa.list_(pa.string()),
            lambda: [maybe(lambda: chance.choice("abc")) for _ in range(chance.randint(0, 4))],
        ),
        "mp": (
            pa.map_(pa.string(), pa.int32()),
            lambda: [
                (key, maybe(lambda: chance.randint(0, 3)))
                for key in chance.sample("abcd", chance.randint(0, 4))
            ],
        ),
        "j": (pa.string(), lambda: chance.choice(DOCUMENTS)),
        "st": (
            pa.struct([("p", pa.int32()), ("q", pa.string())]),
            lambda: {"p": maybe(lambda: 1), "q": maybe(lambda: chance.choice("xy"))},
        ),
    }
    columns = {
        name: pa.array([maybe(make) for _ in range(ROWS)], kind)
        for name, (kind, make) in makers.items()
    }
    return pa.table({"n": pa.array(range(ROWS), pa.int32()), **columns})


def plain(value: Any) -> Any:
    """Give a value as it is compared: floats by ten digits, times without zones."""
    match value:
        case float():
            return "NaN" if math.isnan(value) else float(f"{value:.10g}") + 0.0
        case list() | tuple():
            return [plain(each) for each in value]
        case dict():
            return {name: plain(each) for name, each in value.items()}
        case datetime.datetime() if value.tzinfo:
            return value.astimezone(UTC).replace(tzinfo=None)
    return value


def first_difference(said: list[str], one: pa.Table, other: pa.Table) -> list[Any]:
    """List for each expression that differs the first row that does."""
    assert one.num_rows == other.num_rows
    differing = []
    for expression, left, right in zip(said, one.columns[1:], other.columns[1:], strict=True):
        pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
        found = next(((a, b) for a, b in pairs if plain(a) != plain(b)), None)
        if found is not None:
            differing.append((expression, *found))
    return differing


def check(spark: Any, rows: pa.Table, said: list[str], grouped: bool = False) -> None:
    columns = {f"c{place}": expression for place, expression in enumerate(said)}
    relation: Relation = from_arrow(rows, name="t")
    key = "g" if grouped else "n"
    grouping = relation.group_by("g").agg
    relation = grouping(**columns) if grouped else relation.select("n", **columns)
    local = relation.order_by(key).to_arrow()
    text = ", ".join(f"{expression} AS {name}" for name, expression in columns.items())
    spark.createDataFrame(rows).createOrReplaceTempView("t")
    direct = spark.sql(
        f"SELECT {key}, {text} FROM t {'GROUP BY g' if grouped else ''} ORDER BY {key}"
    ).toArrow()
    assert first_difference(said, local, direct) == []
    rendered = relation.order_by(key).to_arrow(engine="spark")
    assert first_difference(said, local, rendered) == []


@pytest.mark.sampled(3)
@pytest.mark.parametrize("family", ["TIME", "NESTED", "JSON", "HASHES", "WINDOWS"])
def test_functions_give_what_spark_gives(spark, rows, family: str) -> None:
    check(spark, rows, expressions(globals()[family]))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("family", ["AGGREGATES", "ORDERED"])
def test_aggregates_give_what_spark_gives(spark, rows, family: str) -> None:
    check(spark, rows, expressions(globals()[family]), grouped=True)
