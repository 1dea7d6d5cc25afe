"""Tells a topic from another one that was made under its name."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from pkray.errors import ChangeSourceError

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TopicIdentity:
    """Identifies a topic, as far as its brokers tell.

    Attributes:
        cluster: the cluster's id; None: it is not known.
        topic: the topic's id; None: it is not known, as before Kafka 2.8.
    """

    cluster: str | None = None
    topic: str | None = None

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """Read what `text` wrote; without one nothing is known."""
        return cls(**({} if text is None else json.loads(text)))

    @property
    def text(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))

    def known_with(self, earlier: TopicIdentity, topic: str, table: str) -> TopicIdentity:
        """Check that it is the topic that it was; give what is known of it by both.

        Raises:
            ChangeSourceError: it is another one.
        """
        known, found = asdict(earlier), asdict(self)
        for name, was in known.items():
            if was is not None and found[name] is not None and was != found[name]:
                raise ChangeSourceError(
                    f"topic {topic!r} has {name} id {found[name]}, and {table} was read from the "
                    f"one of {name} id {was}: the topic was made anew, or is of other brokers. "
                    "Make the table anew, or read into another",
                    topic=topic,
                    table=table,
                )
        return TopicIdentity(**{name: found[name] or was for name, was in known.items()})


class TopicAdmin:
    """Asks brokers for a topic's id.

    Args:
        config: of librdkafka, with its servers.
    """

    def __init__(self, config: Mapping[str, Any], seconds: float) -> None:
        from confluent_kafka.admin import AdminClient

        self._client = AdminClient(dict(config), logger=_log)
        self._seconds = seconds

    def topic_id(self, topic: str) -> str | None:
        """Ask for it; None: the brokers know of no ids.

        Raises:
            KafkaException: there is no such topic, or no answer.
        """
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        asked = self._client.describe_topics(
            TopicCollection([topic]), request_timeout=self._seconds
        )
        try:
            found = asked[topic].result(2 * self._seconds).topic_id
        except KafkaException as error:
            if error.args[0].code() in (
                KafkaError.UNSUPPORTED_VERSION,
                KafkaError._UNSUPPORTED_FEATURE,
            ):
                return None
            raise
        is_none = not (found.get_most_significant_bits() or found.get_least_significant_bits())
        return None if is_none else str(found)
