"""Random tables and what is written to them."""

import random
from collections import defaultdict
from typing import Any

from pkray.schema.types import DataType
from tests.interop_java import column_types as types
from tests.interop_java.both import Row
from tests.interop_java.history import Batch, History
from tests.interop_java.plain_samples import Samples

ADDS = ("+I", "+U")
EVERY = ("+I", "+I", "+U", "-U", "-D")
PRODUCERS = ("none", "input", "lookup", "full-compaction")
ENGINES = ("deduplicate", "first-row", "partial-update", "partial-update-groups", "aggregation")


def random_history(engine: str, seed: int) -> History:
    """The history of this number.

    Args:
        engine: one of `ENGINES`.
    """
    return _Builder(engine, random.Random(f"{engine} {seed}")).build()


class _Builder:
    def __init__(self, engine: str, chance: random.Random) -> None:
        self._engine = engine
        self._chance = chance
        self._producer = chance.choice(PRODUCERS if engine != "first-row" else ("none", "lookup"))
        self._deduplicates = self._often(0.3)
        self._samples = Samples(chance, equal=self._deduplicates)
        self._columns: dict[str, str] = {}
        self._options: dict[str, str] = {}
        self._keys: list[str] = []
        self._sequences: list[str] = []
        self._summed: list[str] = []
        self._never_null: list[str] = []
        self._named: list[str] = []
        self._unordered: list[str] = []
        self._added: set[str] = set()
        self._removed: set[str] = set()
        self._kinds = EVERY if self._often(0.6) else ADDS

    def build(self) -> History:
        partitions = self._add_keys()
        {
            "deduplicate": self._plain,
            "first-row": self._first_row,
            "partial-update": self._partial_update,
            "partial-update-groups": self._groups,
            "aggregation": self._aggregation,
        }[self._engine]()
        self._add_order()
        self._add_options()
        if self._often(0.15):
            self._columns["rk"] = "STRING"
            self._options["rowkind.field"] = "rk"
        if self._often(0.5):
            self._shuffle_columns()
        known = [self._key() for _ in range(self._chance.choice([2, 4, 9, 40]))]
        columns = dict(self._columns)
        texts = [*self._options, *self._options.values()]
        self._named = [
            name for text in texts for part in text.split(".") for name in part.split(",")
        ]
        batches = []
        for _ in range(self._chance.choice([3, 4, 5, 6, 9])):
            change = self._change() if batches and self._often(0.15) else None
            full = self._often(0.25)
            rows = [] if full and self._often(0.2) else self._rows(known)
            batches.append(Batch(rows, full, change))
        return History(columns, self._keys, partitions, self._options, batches, self._unordered)

    def _add_keys(self) -> list[str]:
        for number in range(self._chance.choice([1, 1, 2, 3])):
            name = self._column(f"k{number}", types.KEYS)
            self._keys.append(name)
        if self._often(0.2):
            self._options["bucket-key"] = self._chance.choice(self._keys)
        partitions = []
        if self._often(0.4):
            for number in range(self._chance.choice([1, 1, 2])):
                partitions.append(self._column(f"p{number}", types.PARTITIONS))
                self._keys.insert(self._chance.randrange(len(self._keys) + 1), partitions[-1])
        return partitions

    def _plain(self) -> None:
        for number in range(self._chance.randrange(1, 6)):
            name = self._column(f"v{number}", types.ANY)
            if self._columns[name] in types.DEFAULTS and self._often(0.2):
                default = types.DEFAULTS[self._columns[name]]
                self._options[f"fields.{name}.default-value"] = default

    def _first_row(self) -> None:
        self._options["merge-engine"] = "first-row"
        if self._kinds is EVERY and self._often(0.95):
            self._options["ignore-delete"] = "true"
        self._plain()

    def _partial_update(self) -> None:
        self._options["merge-engine"] = "partial-update"
        if self._kinds is EVERY and self._often(0.95):
            option = ["ignore-delete", "partial-update.remove-record-on-delete"]
            self._options[self._chance.choice(option)] = "true"
        self._plain()

    def _groups(self) -> None:
        self._options["merge-engine"] = "partial-update"
        for group in range(self._chance.choice([1, 1, 2])):
            ordering = [
                self._column(f"g{group}{number}", types.ORDERED)
                for number in range(self._chance.choice([1, 1, 2]))
            ]
            self._sequences += ordering
            if self._producer == "lookup":
                self._never_null.append(ordering[0])
            members = []
            for number in range(self._chance.randrange(1, 4)):
                name = f"m{group}{number}"
                if self._often(0.6):
                    self._aggregated(name)
                else:
                    self._column(name, types.ANY)
                members.append(name)
            self._options[f"fields.{','.join(ordering)}.sequence-group"] = ",".join(members)
        if self._often(0.5):
            self._column("v", types.ANY)
        if self._often(0.1):
            self._options["ignore-delete"] = "true"

    def _aggregation(self) -> None:
        self._options["merge-engine"] = "aggregation"
        for number in range(self._chance.randrange(1, 6)):
            self._aggregated(f"v{number}")
        if self._often(0.2):
            default = self._chance.choice(types.OF_ANY_TYPE)
            self._options["fields.default-aggregate-function"] = default
            name = self._column("v", types.FUNCTIONS[default])
            self._guard(name, default)

    def _aggregated(self, name: str) -> None:
        function = self._chance.choice(list(types.FUNCTIONS))
        self._column(name, types.FUNCTIONS[function])
        if function == "product" and self._deduplicates:
            self._column(name, types.EXACT)  # NaN may come of others
        self._options[f"fields.{name}.aggregate-function"] = function
        self._guard(name, function)
        if function == "sum":
            self._summed.append(name)
        if function == "listagg" and self._often(0.5):
            self._options[f"fields.{name}.list-agg-delimiter"] = self._chance.choice([",", ";;"])
        # Of a key's only row the Java core's lookup changelog may say what the table does not.
        if function == "collect" and self._producer != "lookup" and self._often(0.4):
            self._options[f"fields.{name}.distinct"] = "true"
            self._column(name, types.ARRAYS[:3])
            self._unordered.append(name)
        if function == "nested_update" and self._often(0.5):
            keys = self._chance.choice(["a", "a,b", "c"])
            self._options[f"fields.{name}.nested-key"] = keys
            self._unordered.append(name)

    def _guard(self, name: str, function: str) -> None:
        """Mostly so that rows that take back are no error."""
        refuses = function not in types.TAKING_BACK and self._kinds is EVERY
        if self._often(0.97 if refuses else 0.15):
            self._options[f"fields.{name}.ignore-retract"] = "true"

    def _add_order(self) -> None:
        if self._engine == "first-row" or not self._often(0.4):
            return
        if self._options.keys() & {
            "fields.default-aggregate-function",
            "partial-update.remove-record-on-delete",
        }:
            return
        names = [
            self._column(f"q{number}", types.ORDERED)
            for number in range(self._chance.choice([1, 1, 2]))
        ]
        self._sequences += names
        self._options["sequence.field"] = ",".join(names)

    def _add_options(self) -> None:
        options, pick = self._options, self._chance.choice
        options["changelog-producer"] = self._producer
        options["bucket"] = str(pick([1, 1, 2, 3]))
        # The Java core does not find maps equal.
        if self._deduplicates and not any("MAP" in kind for kind in self._columns.values()):
            options["changelog-producer.row-deduplicate"] = "true"
        if not self._shows_compaction() and self._often(0.5):
            options["num-sorted-run.compaction-trigger"] = pick(["2", "4"])
        else:
            # Which runs are merged hangs on the sizes of files, which differ: so all or none.
            options["num-sorted-run.compaction-trigger"] = pick(["2", "3", "50"])
            options["compaction.max-size-amplification-percent"] = "0"
        retracts = self._engine == "partial-update-groups" and self._kinds is EVERY
        if "sequence.field" in options or (retracts and self._producer == "lookup"):
            # With images of a key in several levels, the Java core 0.9 may take an older one.
            options["num-levels"] = "2"
        if self._engine != "first-row" and self._producer != "full-compaction":
            options["deletion-vectors.enabled"] = str(self._often(0.15)).lower()
        if self._engine in ("deduplicate", "aggregation") and self._often(0.1):
            options["ignore-delete"] = "true"

    def _shows_compaction(self) -> bool:
        """Whether the table or its changes depend on when rows are compacted."""
        merges = self._engine not in ("deduplicate", "first-row")
        return (
            "sequence.field" in self._options
            or self._producer == "full-compaction"
            or (merges and self._producer != "lookup")
        )

    def _shuffle_columns(self) -> None:
        columns = list(self._columns.items())
        self._chance.shuffle(columns)
        self._columns = dict(columns)

    def _column(self, name: str, kinds: tuple[str, ...]) -> str:
        self._columns[name] = self._chance.choice(kinds)
        return name

    def _key(self) -> Row:
        kinds = [DataType.parse(self._columns[name]) for name in self._keys]
        return [self._samples.value(kind, 0, plain=True) for kind in kinds]

    def _change(self) -> list[str] | None:
        """Of the schema, as `Batch` has it."""
        pick = self._chance.choice
        others = [name for name in self._columns if name not in (*self._keys, "rk")]
        free = [name for name in others if name not in self._named]
        wider = [name for name in others if self._columns[name] in types.WIDER]
        unused = [name for name in ("x", "y", "z") if name not in self._columns]
        kinds = {"add": unused, "rename": unused, "drop": free[1:], "change": wider}
        what = pick([kind for kind, names in kinds.items() if names])
        name = pick(kinds[what])
        if what == "drop":
            del self._columns[name]
            return [what, name]
        if what == "rename":
            old = pick(others)
            self._columns = {
                name if one == old else one: kind for one, kind in self._columns.items()
            }
            for names in (self._sequences, self._summed, self._never_null, self._named):
                names[:] = [name if one == old else one for one in names]
            return [what, old, name]
        to = types.WIDER[self._columns[name]] if what == "change" else types.KEYS
        return [what, name, self._columns[self._column(name, to)]]

    def _rows(self, known: list[Row]) -> list[Row]:
        rows = [self._row(known) for _ in range(self._chance.randrange(1, 13))]
        if self._kinds is ADDS or not self._engine.startswith("partial-update"):
            return rows
        by_key = defaultdict(list)
        for row in rows:
            by_key[str(self._key_of(row))].append(row)
        return [row for key, of_key in by_key.items() for row in self._spared(key, of_key)]

    def _spared(self, key: str, rows: list[Row]) -> list[Row]:
        """Without what the Java core fails at.

        It loses a key's own columns where all of several rows take back. And where a -D removes the
        row, it does not merge rows after it, and forgets it where it ends several rows.
        """
        removes = "partial-update.remove-record-on-delete" in self._options
        if key in self._removed:
            self._set_kind(rows[-1], "-D")
            return rows[-1:]
        if removes and len(rows) > 1:
            for row in rows:
                self._set_kind(row, "+U" if row[0] == "-D" else row[0])
        if all(row[0] not in ADDS for row in rows) and (len(rows) > 1 or key not in self._added):
            self._set_kind(rows[-1], "+I")
        if removes and rows[-1][0] == "-D":
            self._removed.add(key)
        self._added.add(key)
        return rows

    def _set_kind(self, row: Row, kind: str) -> None:
        row[0] = kind
        if "rk" in self._columns:
            row[1 + list(self._columns).index("rk")] = kind

    def _key_of(self, row: Row) -> Row:
        places = [list(self._columns).index(name) for name in self._keys]
        return [row[1 + place] for place in places]

    def _row(self, known: list[Row]) -> Row:
        key = dict(zip(self._keys, self._chance.choice(known), strict=True))
        kind = self._chance.choice(self._kinds)
        return [kind, *(self._value(name, key, kind) for name in self._columns)]

    def _value(self, name: str, key: dict[str, Any], kind: str) -> Any:
        if name in key:
            return key[name]
        if name == "rk":
            return kind
        few = 0.1 if name in self._sequences else 0.25
        few *= name not in self._never_null
        plain = name in self._sequences
        small = name in self._summed
        data_type = DataType.parse(self._columns[name])
        return self._samples.value(data_type, few, small=small, plain=plain)

    def _often(self, probability: float) -> bool:
        return self._chance.random() < probability
