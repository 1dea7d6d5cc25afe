"""When partitions are too old: by what their values say, or by their newest file."""

from datetime import date, datetime

import msgspec
import pytest

from pkray.errors import UnsupportedError
from pkray.expiration.partition_expiry import PartitionTime, expired_partitions
from pkray.format.data_file import ADD, ManifestEntry
from tests import commit_samples as samples


@pytest.mark.parametrize(
    ("formatter", "pattern", "values", "expected"),
    [
        (None, None, {"dt": "2024-03-01"}, datetime(2024, 3, 1)),
        (None, None, {"dt": "2024-3-1 7:08:09"}, datetime(2024, 3, 1, 7, 8, 9)),
        (None, None, {"dt": date(2024, 3, 1)}, datetime(2024, 3, 1)),
        (None, None, {"dt": "20240301"}, None),
        (None, None, {"dt": None}, None),
        (None, None, {"dt": "2024-02-30"}, None),
        ("yyyyMMdd", None, {"dt": "20240301", "h": 5}, datetime(2024, 3, 1)),
        ("yyyyMMdd", None, {"dt": 20240301}, datetime(2024, 3, 1)),
        ("yyyyMMdd HH", "$dt $h", {"dt": "20240301", "h": "05"}, datetime(2024, 3, 1, 5)),
        (None, "$y-$m-01", {"y": 2024, "m": "12"}, datetime(2024, 12, 1)),
        (None, "$dt $dth:00", {"dt": "2024-03-01", "dth": 9}, datetime(2024, 3, 1, 9)),
        ("yyyy-MM-dd'T'HH:mm:ss.SSS", None, {"dt": "2024-03-01T01:02:03.5"}, None),
        (
            "yyyy-MM-dd'T'HH:mm:ss.SSS",
            None,
            {"dt": "2024-03-01T01:02:03.250"},
            datetime(2024, 3, 1, 1, 2, 3, 250_000),
        ),
        ("dd/MMM/yy[ HH]", None, {"dt": "05/Jul/24"}, datetime(2024, 7, 5)),
        ("d.M.yyyy", None, {"dt": "5.11.2024"}, datetime(2024, 11, 5)),
    ],
)
def test_times_of_partitions(formatter, pattern, values, expected):
    assert PartitionTime(formatter, pattern).parse(values) == expected


def test_a_formatter_that_is_not_read_is_refused():
    with pytest.raises(UnsupportedError, match="'ww'"):
        PartitionTime("yyyyww")


def entry(partition: str, created: int) -> ManifestEntry:
    file = msgspec.structs.replace(samples.data_file("f"), creation_time=created)
    return ManifestEntry(ADD, samples.partition(partition), 0, 2, file)


def expired(entries, now: datetime, **options: str) -> list[bytes]:
    given = {f"partition.{key.replace('_', '-')}": value for key, value in options.items()}
    schema = samples.schema(partitioned=True, **given)
    return expired_partitions(schema, entries, round(now.timestamp() * 1000))


NOW = datetime(2024, 3, 10, 12)


def test_by_values():
    entries = [entry(day, 0) for day in ("2024-03-09", "2024-03-01", "2024-02-01", "other")]
    gone = expired(entries, NOW, expiration_time="7 d")
    assert gone == [samples.partition("2024-02-01"), samples.partition("2024-03-01")]


def test_so_many_at_once():
    entries = [entry(day, 0) for day in ("2024-03-01", "2024-02-01")]
    gone = expired(entries, NOW, expiration_time="7 d", expiration_max_num="1")
    assert gone == [samples.partition("2024-02-01")]


def test_by_the_newest_file():
    now = round(NOW.timestamp() * 1000)
    entries = [entry("a", now - 10_000), entry("b", now - 90_000), entry("b", now - 30_000)]
    entries += [entry("c", now - 61_000)]
    options = {"expiration_time": "1 min", "expiration_strategy": "update-time"}
    assert expired(entries, NOW, **options) == [samples.partition("c")]


def test_not_unless_asked():
    assert expired([entry("2000-01-01", 0)], NOW) == []
