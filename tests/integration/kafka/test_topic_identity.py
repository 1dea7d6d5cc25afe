"""What brokers tell of a topic's identity."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import confluent_kafka.admin
import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from pkray.errors import ChangeSourceError
from pkray.kafka.topic_identity import TopicAdmin, TopicIdentity


def told(monkeypatch: pytest.MonkeyPatch, answer: Uuid | KafkaException) -> str | None:
    class Client:
        def __init__(self, *_: Any, **__: Any) -> None:
            pass

        def describe_topics(self, _: Any, **__: Any) -> dict[str, Future[Any]]:
            found: Future[Any] = Future()
            if isinstance(answer, KafkaException):
                found.set_exception(answer)
            else:
                found.set_result(SimpleNamespace(topic_id=answer))
            return {"t": found}

    monkeypatch.setattr(confluent_kafka.admin, "AdminClient", Client)
    return TopicAdmin({}, 1.0).topic_id("t")


def test_an_id_is_told(monkeypatch):
    first, second = told(monkeypatch, Uuid(1, 2)), told(monkeypatch, Uuid(1, 3))
    assert first == told(monkeypatch, Uuid(1, 2))
    assert None not in (first, second)
    assert first != second


def test_brokers_that_know_of_none_tell_none(monkeypatch):
    assert told(monkeypatch, Uuid(0, 0)) is None
    for code in (KafkaError._UNSUPPORTED_FEATURE, KafkaError.UNSUPPORTED_VERSION):
        assert told(monkeypatch, KafkaException(KafkaError(code))) is None
    with pytest.raises(KafkaException):
        told(monkeypatch, KafkaException(KafkaError(KafkaError._TIMED_OUT)))


def test_what_is_not_known_is_not_compared_and_what_was_known_stays():
    cluster = TopicIdentity("c", None)
    whole = TopicIdentity("c", "x")
    assert TopicIdentity.from_text(None) == TopicIdentity()
    assert TopicIdentity.from_text(whole.text) == whole
    assert cluster.known_with(whole, "t", "db.t") == whole
    assert whole.known_with(cluster, "t", "db.t") == whole
    with pytest.raises(ChangeSourceError, match=r"topic id y, and db.t .* topic id x"):
        TopicIdentity("c", "y").known_with(whole, "t", "db.t")
