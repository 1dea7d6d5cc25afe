"""Random queries: each step selects from what was written before it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from tests.integration.relational.random_queries.expressions import Term, expression
from tests.integration.relational.random_queries.tables import COLUMNS, fields_of

_KINDS = ("int", "long", "double", "dec", "text", "bool", "date", "ts", "ints", "texts", "row")
_FLAT = ("int", "long", "double", "dec", "text", "bool", "date", "ts")
_GROUPED = (*_FLAT, "ints", "texts", "row")


@dataclass(frozen=True)
class Frame:
    """A query that is being written.

    Attributes:
        duck: as DuckDB writes it, if it can.
        columns: names and kinds of what it gives.
    """

    text: str
    duck: str | None
    columns: Mapping[str, str]


def formed(template: str, *parts: Frame | Term) -> tuple[str, str | None]:
    """Put parts into the places ``{}`` of a text, in both dialects."""
    text = template.format(*(each.text for each in parts))
    ducks = [each.duck for each in parts]
    return text, None if None in ducks else template.format(*ducks)


def listed(terms: Sequence[Term]) -> Term:
    """Write terms one after another."""
    known = [each.duck for each in terms if each.duck is not None]
    duck = ", ".join(known) if len(known) == len(terms) else None
    return Term(", ".join(each.text for each in terms), duck)


class Writer:
    """Writes one query.

    Args:
        duck: only what DuckDB has too.
        depth: most calls inside one another.
    """

    def __init__(self, random: Random, *, duck: bool, depth: int = 3) -> None:
        self.random = random
        self.duck = duck
        self.depth = depth
        self._names = 0

    def name(self) -> str:
        self._names += 1
        return f"c{self._names}"

    def kind(self) -> str:
        return self.random.choice(_KINDS if self.duck else (*_KINDS, "map"))

    @property
    def ordered(self) -> Sequence[str]:
        """Kinds that ORDER BY, MIN and MAX take; NULL in an array is the greatest in DuckDB."""
        return _FLAT if self.duck else (*_FLAT, "ints", "texts")

    def term(self, kind: str, columns: Mapping[str, str]) -> Term:
        return expression(self.random, kind, columns, self.depth, duck=self.duck)

    def condition(self, frame: Frame) -> Term:
        """Write a condition over the columns of a frame."""
        return self.term("bool", frame.columns)

    def frame(self, steps: int) -> Frame:
        table = self.random.choice(list(COLUMNS))
        fields = fields_of(table)
        taken = sorted(self.random.sample(list(fields), self.random.randint(2, 5)))
        if self.duck:
            taken = [each for each in taken if fields[each] != "map"] or [f"{table}0"]
        text = f"SELECT {', '.join(taken)} FROM {table}"
        frame = Frame(text, text, {name: fields[name] for name in taken})
        for _ in range(steps):
            frame = self.random.choice(STEPS)(self, frame)
        return frame

    def sample(self, columns: Mapping[str, str], kinds: Sequence[str], most: int) -> list[str]:
        """Choose some columns of these kinds; none where there are none."""
        fitting = [name for name, kind in columns.items() if kind in kinds]
        return self.random.sample(fitting, min(len(fitting), self.random.randint(1, most)))


Step = Callable[[Writer, Frame], Frame]


def filtered(writer: Writer, frame: Frame) -> Frame:
    made = formed("SELECT * FROM ({}) WHERE {}", frame, writer.condition(frame))
    return Frame(*made, frame.columns)


def projected(writer: Writer, frame: Frame) -> Frame:
    kept = writer.sample(frame.columns, tuple(frame.columns.values()), 3)
    columns = {name: frame.columns[name] for name in kept}
    terms = [Term(name, name) for name in kept]
    for _ in range(writer.random.randint(1, 3)):
        name, kind = writer.name(), writer.kind()
        terms.append(Term(*formed(f"{{}} AS {name}", writer.term(kind, frame.columns))))
        columns[name] = kind
    distinct = "map" not in columns.values() and writer.random.random() < 0.15
    word = "DISTINCT " if distinct else ""
    return Frame(*formed(f"SELECT {word}{{}} FROM ({{}})", listed(terms), frame), columns)


_CALLS = (
    ("count(*)", None, "long"),
    ("count({})", "any", "long"),
    ("count(DISTINCT {})", "ordered", "long"),
    ("sum({})", "int", "long"),
    ("sum(DISTINCT {})", "int", "long"),
    ("sum({})", "double", "double"),
    ("CAST(sum({}) AS DECIMAL(12, 2))", "dec", "dec"),
    ("CAST(avg({}) * 8 AS BIGINT)", "int", "spark long"),
    ("avg({})", "int", "double"),
    ("min({})", "ordered", "same"),
    ("max({})", "ordered", "same"),
    ("bool_and({})", "bool", "bool"),
    ("bool_or({})", "bool", "bool"),
    ("sort_array(collect_list({}))", "int", "spark ints"),
    ("sort_array(collect_set({}))", "text", "spark texts"),
    ("listagg({0}, ',') WITHIN GROUP (ORDER BY {0})", "text", "spark text"),
    ("bit_xor({})", "int", "spark int"),
    ("percentile_disc(0.5) WITHIN GROUP (ORDER BY {})", "double", "spark double"),
    ("count_if({})", "bool", "spark long"),
    ("max(named_struct('a', {0}, 'b', {0})).a", "long", "spark long"),
)


def call(writer: Writer, columns: Mapping[str, str]) -> tuple[Term, str]:
    """Write an aggregate, with its kind."""
    while True:
        template, wanted, kind = writer.random.choice(_CALLS)
        if kind.startswith("spark") and writer.duck:
            continue
        argument = wanted or "int"
        if wanted in ("any", "ordered"):
            argument = writer.random.choice(writer.ordered)
        term = writer.term(argument, columns)
        text, duck = formed(template, term)
        if kind.startswith("spark"):
            duck = None
        if writer.random.random() < 0.25:
            text, duck = formed(
                "{} FILTER (WHERE {})", Term(text, duck), writer.term("bool", columns)
            )
            if template.startswith(("CAST(", "sort_", "max(n")):
                continue
        return Term(text, duck), argument if kind == "same" else kind.split()[-1]


def grouped(writer: Writer, frame: Frame) -> Frame:
    keys = writer.sample(frame.columns, _GROUPED, 2)
    columns = {name: frame.columns[name] for name in keys}
    terms = [Term(name, name) for name in keys]
    for _ in range(writer.random.randint(1, 3)):
        made, kind = call(writer, frame.columns)
        name = writer.name()
        terms.append(Term(*formed(f"{{}} AS {name}", made)))
        columns[name] = kind
    form = writer.random.choice(("{}", "{}", "{}", "{}", "ROLLUP ({})", "CUBE ({})"))
    by = f" GROUP BY {form.format(', '.join(keys))}" if keys else ""
    having = Term("", "")
    if form != "{}" and keys:
        having = Term(" HAVING count(*) > 0", " HAVING count(*) > 0")  # of no rows, DuckDB has one
    if keys and writer.random.random() < 0.3:
        condition, _ = call(writer, frame.columns)
        having = Term(*formed(" HAVING {} IS NOT NULL AND count(*) > 1", condition))
    made = formed(f"SELECT {{}} FROM ({{}}){by}{{}}", listed(terms), frame, having)
    return Frame(*made, columns)


def joined(writer: Writer, frame: Frame) -> Frame:
    other = writer.frame(writer.random.randint(0, 1))
    left = {f"a.{name}": kind for name, kind in list(frame.columns.items())[:4]}
    right = {f"b.{name}": kind for name, kind in list(other.columns.items())[:4]}
    pairs = [(x, y) for x, k in left.items() for y, j in right.items() if k == j and k in _GROUPED]
    conditions = []
    if pairs:
        one, two = writer.random.choice(pairs)
        conditions.append(Term(f"{one} = {two}", f"{one} = {two}"))
    if not pairs or writer.random.random() < 0.4:
        conditions.append(writer.term("bool", {**left, **right}))
    on = conditions[0]
    for each in conditions[1:]:
        on = Term(*formed("{} AND {}", on, each))
    kind = writer.random.choice(("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI"))
    both = left if kind in ("LEFT SEMI", "LEFT ANTI") else {**left, **right}
    names = {name: writer.name() for name in both}
    shown = ", ".join(f"{name} AS {made}" for name, made in names.items())
    text, _ = formed(f"SELECT {shown} FROM ({{}}) a {kind} JOIN ({{}}) b ON {{}}", frame, other, on)
    as_duck = kind.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")
    _, duck = formed(
        f"SELECT {shown} FROM ({{}}) a {as_duck} JOIN ({{}}) b ON {{}}", frame, other, on
    )
    return Frame(text, duck, {made: both[name] for name, made in names.items()})


def related(writer: Writer, frame: Frame) -> Frame:
    """Keep rows by a subquery."""
    other = writer.frame(writer.random.randint(0, 1))
    kinds = _GROUPED
    pairs = [
        (mine, theirs)
        for mine, kind in frame.columns.items()
        for theirs, each in other.columns.items()
        if kind == each and kind in kinds
    ]
    if not pairs:
        return filtered(writer, frame)
    mine, theirs = writer.random.choice(pairs)
    word = writer.random.choice(("", "NOT "))
    form = writer.random.choice(("exists", "in", "or", "scalar", "shown"))
    there = formed(f"SELECT {theirs} FROM ({{}})", other)
    if form == "exists":
        made = formed(
            f"SELECT * FROM ({{}}) a WHERE {word}EXISTS "
            f"(SELECT 1 FROM ({{}}) b WHERE b.{theirs} = a.{mine})",
            frame,
            other,
        )
    elif form == "in":
        made = formed(f"SELECT * FROM ({{}}) WHERE {mine} {word}IN ({{}})", frame, Term(*there))
    elif form == "or":
        made = formed(
            f"SELECT * FROM ({{}}) WHERE {mine} {word}IN ({{}}) OR {{}}",
            frame,
            Term(*there),
            writer.condition(frame),
        )
    elif form == "scalar":
        kind = frame.columns[mine]
        if kind not in writer.ordered:
            return filtered(writer, frame)
        made = formed(
            f"SELECT * FROM ({{}}) WHERE {mine} >= (SELECT min({theirs}) FROM ({{}}))", frame, other
        )
    else:
        name = writer.name()
        made = formed(
            f"SELECT *, (SELECT count(*) FROM ({{}}) b WHERE b.{theirs} = a.{mine}) AS {name} "
            "FROM ({}) a",
            other,
            frame,
        )
        return Frame(*made, {**frame.columns, name: "long"})
    return Frame(*made, frame.columns)


def combined(writer: Writer, frame: Frame) -> Frame:
    other = writer.frame(writer.random.randint(0, 1))
    width = writer.random.randint(1, 3)
    pairs = []
    for name, kind in frame.columns.items():
        fitting = [each for each, theirs in other.columns.items() if theirs == kind]
        if fitting and kind != "map" and len(pairs) < width:
            pairs.append((name, writer.random.choice(fitting), kind))
    if not pairs:
        return projected(writer, frame)
    names = [writer.name() for _ in pairs]
    left = ", ".join(f"{a} AS {n}" for (a, _, _), n in zip(pairs, names, strict=True))
    right = ", ".join(f"{b} AS {n}" for (_, b, _), n in zip(pairs, names, strict=True))
    word = writer.random.choice(("UNION", "INTERSECT", "EXCEPT")) + writer.random.choice(
        ("", " ALL")
    )
    made = formed(f"(SELECT {left} FROM ({{}})) {word} (SELECT {right} FROM ({{}}))", frame, other)
    return Frame(*made, {n: kind for (_, _, kind), n in zip(pairs, names, strict=True)})


def ordered(writer: Writer, frame: Frame) -> tuple[Frame, str]:
    """Keep the columns that can be ordered, and write an order in which only equal rows tie."""
    names = [name for name, kind in frame.columns.items() if kind in writer.ordered]
    if not names:
        name = writer.name()
        frame = Frame(*formed(f"SELECT 1 AS {name} FROM ({{}})", frame), {name: "int"})
        names = [name]
    kept = Frame(
        *formed(f"SELECT {', '.join(names)} FROM ({{}})", frame),
        {name: frame.columns[name] for name in names},
    )
    ways = ("ASC NULLS FIRST", "DESC NULLS LAST", "ASC NULLS LAST", "DESC NULLS FIRST")
    shuffled = writer.random.sample(names, len(names))
    return kept, ", ".join(f"{name} {writer.random.choice(ways)}" for name in shuffled)


def limited(writer: Writer, frame: Frame) -> Frame:
    kept, order = ordered(writer, frame)
    offset = writer.random.choice(("", "", " OFFSET 2"))
    count = writer.random.randint(1, 9)
    text = f"SELECT * FROM ({{}}) ORDER BY {order} LIMIT {count}{offset}"
    return Frame(*formed(text, kept), kept.columns)


def windowed(writer: Writer, frame: Frame) -> Frame:
    kept, order = ordered(writer, frame)
    name = writer.name()
    of_kind = writer.random.choice(list(kept.columns))
    whole = [each for each, kind in kept.columns.items() if kind in ("int", "long")]
    choices = [
        ("row_number()", "int", ""),
        ("rank()", "int", ""),
        ("dense_rank()", "int", ""),
        ("count(*)", "long", ""),
        (f"lag({of_kind})", kept.columns[of_kind], ""),
        (f"lead({of_kind}, 2)", kept.columns[of_kind], ""),
        (f"first_value({of_kind})", kept.columns[of_kind], ""),
        (f"max({of_kind})", kept.columns[of_kind], " ROWS BETWEEN 2 PRECEDING AND CURRENT ROW"),
        (f"count({of_kind})", "long", " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"),
    ]
    if whole:
        column = writer.random.choice(whole)
        choices.append(
            (f"sum({column})", "long", " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING")
        )
        choices.append((f"avg({column})", "double", ""))
    said, kind, bounds = writer.random.choice(choices)
    partition = writer.random.choice(
        ("", f"PARTITION BY {writer.random.choice(list(kept.columns))} ")
    )
    text = f"SELECT *, {said} OVER ({partition}ORDER BY {order}{bounds}) AS {name} FROM ({{}})"
    return Frame(*formed(text, kept), {**kept.columns, name: kind})


def exploded(writer: Writer, frame: Frame) -> Frame:
    name = writer.name()
    if writer.duck:
        kind = writer.random.choice(("ints", "texts"))
        value = writer.term(kind, frame.columns)
        made = formed(f"unnest({{}}) AS {name}", value)[1]
        text = formed(f"SELECT *, explode({{}}) AS {name} FROM ({{}})", value, frame)[0]
        duck = (
            None if made is None or frame.duck is None else f"SELECT *, {made} FROM ({frame.duck})"
        )
        return Frame(text, duck, {**frame.columns, name: kind[:-1]})
    form = writer.random.choice(("explode", "explode_outer", "posexplode", "map", "inline"))
    if form == "map":
        key, value = writer.name(), writer.name()
        source = writer.term("map", frame.columns).text
        text = f"SELECT * FROM ({frame.text}) LATERAL VIEW explode({source}) v AS {key}, {value}"
        return Frame(text, None, {**frame.columns, key: "text", value: "int"})
    kind = writer.random.choice(("ints", "texts"))
    source = writer.term(kind, frame.columns).text
    if form == "posexplode":
        place = writer.name()
        text = (
            f"SELECT * FROM ({frame.text}) LATERAL VIEW posexplode({source}) v AS {place}, {name}"
        )
        return Frame(text, None, {**frame.columns, place: "int", name: kind[:-1]})
    if form == "inline":
        first, second = writer.name(), writer.name()
        row = writer.term("row", frame.columns).text
        text = (
            f"SELECT * FROM ({frame.text}) LATERAL VIEW OUTER inline(array({row})) v "
            f"AS {first}, {second}"
        )
        return Frame(text, None, {**frame.columns, first: "int", second: "text"})
    outer = "OUTER " if form == "explode_outer" else ""
    text = f"SELECT * FROM ({frame.text}) LATERAL VIEW {outer}explode({source}) v AS {name}"
    return Frame(text, None, {**frame.columns, name: kind[:-1]})


STEPS: tuple[Step, ...] = (
    filtered,
    filtered,
    projected,
    projected,
    grouped,
    grouped,
    joined,
    joined,
    related,
    combined,
    limited,
    windowed,
    exploded,
)
