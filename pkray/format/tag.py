"""A tag: a snapshot kept under a name, perhaps for a limited time."""

import re
from dataclasses import dataclass
from datetime import datetime

import msgspec

from pkray.checksums import seal_json
from pkray.errors import CorruptFileError
from pkray.format.snapshot import Snapshot
from pkray.json_files import decode as decode_json

_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?")


@dataclass(frozen=True)
class Tag:
    """A named snapshot.

    Args:
        create_time: epoch milliseconds; None where the file does not say, as without a retention.
        time_retained: milliseconds after which the tag expires; None keeps it.
    """

    name: str
    snapshot: Snapshot
    create_time: int | None = None
    time_retained: int | None = None

    def __repr__(self) -> str:
        kept = "" if self.time_retained is None else f", for {self.time_retained} ms"
        return f"Tag({self.name!r}, snapshot {self.snapshot.id}{kept})"

    def has_expired(self, now: int) -> bool:
        """Whether the tag's time is over; ``now`` in epoch milliseconds."""
        if self.create_time is None or self.time_retained is None:
            return False
        return now > self.create_time + self.time_retained


class _TagFile(Snapshot, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Snapshot JSON with Java's local date and time, and a duration in seconds."""

    tag_create_time: list[int] | str | None = None
    tag_time_retained: float | str | None = None


_decoder = msgspec.json.Decoder(_TagFile)
_encoder = msgspec.json.Encoder()
_SNAPSHOT_FIELDS = Snapshot.__struct_fields__


def encode(tag: Tag) -> bytes:
    """Make the tag's file: a snapshot's, and with a retention also when it was made.

    Paimon up to 0.7 reads no tag that says when it was made; one without a retention does not.
    """
    if tag.time_retained is None or tag.create_time is None:
        data = _encoder.encode(tag.snapshot)
    else:
        fields = {name: getattr(tag.snapshot, name) for name in _SNAPSHOT_FIELDS}
        made = datetime.fromtimestamp(tag.create_time / 1000)
        nanos = tag.create_time % 1000 * 1_000_000
        data = _encoder.encode(
            _TagFile(
                **fields,
                tag_create_time=[*made.timetuple()[:6], nanos],
                tag_time_retained=tag.time_retained / 1000,
            )
        )
    return seal_json(msgspec.json.format(data, indent=2))


def decode(data: bytes, name: str, path: str) -> Tag:
    """Read a tag's file.

    Raises:
        CorruptFileError: the bytes are no tag; names ``path`` and what is wrong.
    """
    try:
        file = decode_json(data, _decoder)
        made, retained = _millis(file.tag_create_time), _duration(file.tag_time_retained)
    except (ValueError, OverflowError) as error:
        raise CorruptFileError(
            f"tag file {path} is damaged ({len(data)} bytes): {error}; delete the tag, or restore "
            "its file",
            path=path,
            reason=str(error),
        ) from error
    snapshot = Snapshot(**{field: getattr(file, field) for field in _SNAPSHOT_FIELDS})
    return Tag(name, snapshot, made, retained)


def _millis(made: list[int] | str | None) -> int | None:
    """Java leaves out seconds and nanoseconds that are zero."""
    if made is None:
        return None
    if isinstance(made, str):
        return round(datetime.fromisoformat(made).timestamp() * 1000)
    if not 5 <= len(made) <= 7:
        raise ValueError(f"{made} is no time")
    year, month, day, hour, minute, second, nanos = [*made, 0, 0][:7]
    moment = datetime(year, month, day, hour, minute, second)
    return round(moment.timestamp() * 1000) + nanos // 1_000_000


def _duration(retained: float | str | None) -> int | None:
    if not isinstance(retained, str):
        if retained is not None and retained < 0:
            raise ValueError(f"it is kept for {retained} seconds")
        return None if retained is None else round(retained * 1000)
    found = _DURATION.fullmatch(retained)
    if found is None:
        raise ValueError(f"{retained!r} is no duration")
    days, hours, minutes, seconds = (float(part or 0) for part in found.groups())
    return round(((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000)
