"""Options of queries: what SET takes, and what cannot be meant."""

import pytest

import pkray
from pkray.errors import OptionError
from pkray.relational.settings import SETTINGS, checked_setting

NONSENSE = {
    "execution.runtime-mode": ["fast", "", "batch streaming"],
    "execution.memory": ["0", "0 gb", "1", "1023", "-1 gb", "2000 tb", "99999999999999 tb", "1.5"],
    "table.exec.state.ttl": ["-1 d", "1 fortnight", "99999999999999999999 d", "soon", ""],
    "table.exec.emit.early-fire.enabled": ["1", "yes", ""],
    "table.exec.emit.early-fire.delay": ["-5 s", "5 parsecs", "99999999999999999999 d"],
    "table.exec.emit.allow-lateness": ["-5 s", "x", "99999999999999999999 d"],
    "table.exec.emit.late-fire.enabled": ["on", "2"],
    "table.exec.emit.late-fire.delay": ["-5 s", "1 1", "99999999999999999999 d"],
    "table.exec.source.cdc-events-duplicate": ["maybe", "0"],
    "table.exec.sink.not-null-enforcer": ["ignore", ""],
    "query.backfill-engine": ["flink", ""],
    "query.failure-url": [
        *("file:///etc/passwd", "ftp://host/x", "host/path", "", "http://", "https://:80/"),
        *("https://user:secret@host/", "http://host:99999/", "javascript:alert(1)"),
        *("http://ho st/", "https://host:0/", "http://host/a\nb"),
    ],
    "query.parallelism": ["0", "-1", "1.5", "1000000000", "1025", "many", ""],
    "query.memory": ["0", "1 b", "-1", "2000 tb"],
    "query.cpus": ["0", "-1", "nan", "inf", "1e9", "0.0000001", "two"],
    "execution.checkpointing.interval": ["-1 s", "99999999999999999999 d", "often"],
    "table.exec.source.idle-timeout": ["-1 s", "99999999999999999999 d", ""],
    "table.exec.mini-batch.enabled": ["ja"],
    "table.exec.mini-batch.allow-latency": ["-1 s", "99999999999999999999 d"],
    "table.exec.mini-batch.size": ["0", "-2", "99999999999999999999", "1.5"],
    "table.local-time-zone": ["Mars/Base", "+25:00", "+18:30", "/etc/passwd", "../UTC", ""],
    "sql.plan-paths": ["", "a\x00b"],
}
MEANT = {
    "execution.runtime-mode": ["batch", "STREAMING"],
    "execution.memory": ["1 mb", "200mb", "64 g", "1048576"],
    "query.failure-url": ["http://host", "https://host:8443/a?b=c"],
    "query.parallelism": ["1", "1024"],
    "query.memory": ["256 mb"],
    "query.cpus": ["0.5", "64"],
    "table.exec.state.ttl": ["0 ms", "36500 d"],
    "table.exec.mini-batch.size": ["-1", "1", "5000000000"],
    "table.local-time-zone": ["UTC", "+18:00", "-05:30", "Europe/Berlin"],
}


def test_every_option_has_values_that_cannot_be_meant() -> None:
    assert NONSENSE.keys() == SETTINGS.keys()


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in NONSENSE.items() for value in values]
)
def test_a_value_that_cannot_be_meant_is_refused(key: str, value: str) -> None:
    with pytest.raises(OptionError, match=key) as raised:
        checked_setting(key, value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in MEANT.items() for value in values]
)
def test_a_value_that_is_meant_is_taken(key: str, value: str) -> None:
    assert checked_setting(key, value) == value


def test_the_default_of_every_option_is_a_value_of_it() -> None:
    for key, setting in SETTINGS.items():
        if setting.default is not None:
            assert checked_setting(key, setting.default) == setting.default


def test_what_is_refused_leaves_what_was_set(tmp_path) -> None:
    with pkray.connect(str(tmp_path)) as catalog:
        catalog.sql("SET 'execution.memory' = '64 mb'")
        with pytest.raises(OptionError):
            catalog.sql("SET 'execution.memory' = '0'")
        assert catalog.session.memory == 64 << 20
