"""Events of an auction site: new people, new auctions and bids, 1 : 3 : 46.

Event number n is the same in every run of a seed, whatever it is made together with: each random
value is a hash of the seed, the number of the event and of the value. Half of all bids go to the
newest hot auction, three of four come from a hot bidder, and three of four auctions are of a hot
seller.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

PEOPLE, AUCTIONS, EVENTS = 1, 3, 50
"""Of so many events in a row, how many are new people and new auctions; the others are bids."""
FIRST_PERSON, FIRST_AUCTION, FIRST_CATEGORY = 1000, 1000, 10
CATEGORIES = 5
ACTIVE_PEOPLE, OPEN_AUCTIONS = 1000, 100
PERSON_LEAD, AUCTION_LEAD = 10, 10
"""Ids that are not there yet and are chosen all the same."""
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
"""One of so many rows does not choose the hot id."""
HOT_STEP = 100
"""Ids between one hot id and the next."""
STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix",
    "Los Angeles",
    "San Francisco",
    "Boise",
    "Portland",
    "Bend",
    "Redmond",
    "Seattle",
    "Kent",
    "Cheyenne",
)
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Walter")
LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones")
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

TIME = pa.timestamp("ms")
PERSON = pa.schema(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("emailAddress", pa.string()),
        ("creditCard", pa.string()),
        ("city", pa.string()),
        ("state", pa.string()),
        ("dateTime", TIME),
        ("extra", pa.string()),
    ]
)
AUCTION = pa.schema(
    [
        ("id", pa.int64()),
        ("itemName", pa.string()),
        ("description", pa.string()),
        ("initialBid", pa.int64()),
        ("reserve", pa.int64()),
        ("dateTime", TIME),
        ("expires", TIME),
        ("seller", pa.int64()),
        ("category", pa.int64()),
        ("extra", pa.string()),
    ]
)
BID = pa.schema(
    [
        ("auction", pa.int64()),
        ("bidder", pa.int64()),
        ("price", pa.int64()),
        ("channel", pa.string()),
        ("url", pa.string()),
        ("dateTime", TIME),
        ("extra", pa.string()),
    ]
)
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}


@dataclass(frozen=True)
class Nexmark:
    """Makes events.

    Attributes:
        rate: events in a second of event time.
        begins: event time of the first: epoch milliseconds.
    """

    seed: int = 0
    rate: int = 10_000
    begins: int = 1_436_918_400_000

    def events(self, first: int, count: int) -> dict[str, pa.Table]:
        """Make the events with these numbers: rows of ``person``, ``auction`` and ``bid``."""
        numbers = np.arange(first, first + count)
        places = numbers % EVENTS
        kinds = np.digitize(places, [PEOPLE, PEOPLE + AUCTIONS])
        made = (self._people, self._auctions, self._bids)
        return {
            name: pa.Table.from_arrays(make(numbers[kinds == kind]), schema=schema)
            for kind, (make, (name, schema)) in enumerate(zip(made, SCHEMAS.items(), strict=True))
        }

    def _people(self, numbers: Numbers) -> list[pa.Array]:
        names = _words(FIRST_NAMES, self._below(numbers, 0, len(FIRST_NAMES)))
        families = _words(LAST_NAMES, self._below(numbers, 1, len(LAST_NAMES)))
        cards = [self._below(numbers, 2 + place, 10_000) for place in range(4)]
        return [
            pa.array(_last_person(numbers) + FIRST_PERSON),
            _joined(" ", names, families),
            _joined("@", names, _texts("{}.example", self._below(numbers, 6, 1000))),
            _joined(" ", *(_texts("{:04}", card) for card in cards)),
            _words(CITIES, self._below(numbers, 7, len(CITIES))),
            _words(STATES, self._below(numbers, 8, len(STATES))),
            self._times(numbers),
            self._extra(numbers),
        ]

    def _auctions(self, numbers: Numbers) -> list[pa.Array]:
        first_bid = self._price(numbers, 0)
        hot = self._below(numbers, 1, HOT_SELLERS) > 0
        newest = _last_person(numbers) // HOT_STEP * HOT_STEP
        seller = np.where(hot, newest, self._person(numbers, 2)) + FIRST_PERSON
        ahead = OPEN_AUCTIONS * EVENTS // AUCTIONS * 1000 // self.rate
        length = 1 + self._below(numbers, 3, max(2 * ahead, 1))
        return [
            pa.array(_last_auction(numbers) + FIRST_AUCTION),
            _texts("item {}", self._below(numbers, 4, 1 << 20)),
            _texts("a thing of lot {}", self._below(numbers, 5, 1 << 20)),
            pa.array(first_bid),
            pa.array(first_bid + self._price(numbers, 6)),
            self._times(numbers),
            pa.array(self._millis(numbers) + length).view(TIME),
            pa.array(seller),
            pa.array(FIRST_CATEGORY + self._below(numbers, 7, CATEGORIES)),
            self._extra(numbers),
        ]

    def _bids(self, numbers: Numbers) -> list[pa.Array]:
        newest = _last_auction(numbers)
        hot = self._below(numbers, 0, HOT_AUCTIONS) > 0
        auction = np.where(hot, newest // HOT_STEP * HOT_STEP, self._auction(numbers, 1))
        hot = self._below(numbers, 2, HOT_BIDDERS) > 0
        person = _last_person(numbers) // HOT_STEP * HOT_STEP + 1
        bidder = np.where(hot, person, self._person(numbers, 3))
        known = self._below(numbers, 4, 2) > 0
        rare = self._below(numbers, 5, 10_000)
        channel = np.where(known, self._below(numbers, 6, len(CHANNELS)), len(CHANNELS) + rare)
        names = pa.array([*CHANNELS, *(f"channel-{number}" for number in range(10_000))])
        return [
            pa.array(auction + FIRST_AUCTION),
            pa.array(bidder + FIRST_PERSON),
            pa.array(self._price(numbers, 7)),
            names.take(pa.array(channel)),
            _texts("https://www.nexmark.com/item/{}/bids.htm?query=1", channel),
            self._times(numbers),
            self._extra(numbers),
        ]

    def _person(self, numbers: Numbers, value: int) -> Numbers:
        """Choose one of the people who came last, or who come soon."""
        count = _last_person(numbers) + 1
        active = np.minimum(count, ACTIVE_PEOPLE)
        return count - active + self._below(numbers, value, active + PERSON_LEAD)

    def _auction(self, numbers: Numbers, value: int) -> Numbers:
        """Choose one of the auctions that opened last, or that open soon."""
        last = _last_auction(numbers)
        first = np.maximum(last - OPEN_AUCTIONS, 0)
        return first + self._below(numbers, value, last - first + 1 + AUCTION_LEAD)

    def _price(self, numbers: Numbers, value: int) -> Numbers:
        """Choose cents, as many of each number of digits."""
        share = self._random(numbers, value) / 2.0**64
        return np.round(10.0 ** (share * 6) * 100).astype(np.int64)

    def _millis(self, numbers: Numbers) -> Numbers:
        return self.begins + numbers * 1000 // self.rate

    def _times(self, numbers: Numbers) -> pa.Array:
        return pa.array(self._millis(numbers)).view(TIME)

    def _extra(self, numbers: Numbers) -> pa.Array:
        return _texts("{:016x}", self._random(numbers, 99))

    def _below(self, numbers: Numbers, value: int, bounds: int | Numbers) -> Numbers:
        """Choose a number from 0 to below a bound for each event."""
        found = self._random(numbers, value) % np.asarray(bounds, np.uint64)
        return found.astype(np.int64)

    def _random(self, numbers: Numbers, value: int) -> npt.NDArray[np.uint64]:
        """Hash the seed, the number of an event and that of a value of it (SplitMix64)."""
        with np.errstate(over="ignore"):
            mixed = numbers.astype(np.uint64) * np.uint64(128) + np.uint64(value)
            mixed = (mixed + np.uint64(self.seed << 48 | 1)) * np.uint64(0x9E3779B97F4A7C15)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            return mixed ^ (mixed >> np.uint64(31))


def _last_person(numbers: Numbers) -> Numbers:
    """Number the last person who had come at each event, from 0."""
    return numbers // EVENTS * PEOPLE + np.minimum(numbers % EVENTS, PEOPLE - 1)


def _last_auction(numbers: Numbers) -> Numbers:
    """Number the last auction that had opened at each event, from 0; -1 before the first."""
    place = np.clip(numbers % EVENTS - PEOPLE, -1, AUCTIONS - 1)
    return np.maximum(numbers // EVENTS * AUCTIONS + place, 0)


def _words(words: Sequence[str], chosen: Numbers) -> pa.Array:
    return pa.array(words).take(pa.array(chosen))


def _texts(form: str, values: npt.NDArray[np.generic]) -> pa.Array:
    return pa.array([form.format(value) for value in values.tolist()], pa.string())


def _joined(between: str, *columns: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*columns, between)
