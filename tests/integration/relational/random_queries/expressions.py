"""Random typed expressions, in Spark's SQL and where it means the same in DuckDB's.

A line of `TEMPLATES` is a kind, an expression of it and, behind ``|||``, how DuckDB writes it:
``=`` the same. ``{kind}`` is a hole for an expression of a kind, ``{n}`` for a small number,
``{word}`` for a text and ``{pattern}`` for a regexp.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tests.integration.relational.random_queries.tables import WORDS

PATTERNS = ("a+", "^a", "b$", "[a-b]", "(a|b)", "\\\\d", "a.", "x?", "[^a]", "(a)(b)?", "^$")
_LITERALS = {
    "int": ("0", "1", "2", "-3"),
    "long": ("CAST(3 AS BIGINT)", "CAST(-1 AS BIGINT)"),
    "double": ("CAST(0.5 AS DOUBLE)", "CAST(-2 AS DOUBLE)"),
    "dec": ("CAST(1.25 AS DECIMAL(12, 2))", "CAST(-7 AS DECIMAL(12, 2))"),
    "text": tuple(f"'{word}'" for word in WORDS),
    "bool": ("true", "false", "CAST(NULL AS BOOLEAN)"),
    "date": ("DATE '2024-02-29'", "DATE '2023-12-31'"),
    "ts": ("TIMESTAMP_NTZ '2024-02-29 12:30:00' ||| TIMESTAMP '2024-02-29 12:30:00'",),
    "span": ("INTERVAL '90' MINUTE", "INTERVAL '1 02:03:04' DAY TO SECOND", "INTERVAL '0' DAY"),
    "months": ("INTERVAL '1' MONTH", "INTERVAL '1-2' YEAR TO MONTH"),
    "ints": ("array(1, NULL, 3) ||| [1, NULL, 3]", "array(2) ||| [2]"),
    "texts": ("array('a', 'b') ||| ['a', 'b']", "array('', NULL) ||| ['', NULL]"),
    "map": ("map('a', 1, 'b', NULL)", "map('ab', 2)"),
    "row": ("named_struct('a', 1, 'b', 'a') ||| {{'a': 1, 'b': 'a'}}",),
}
_WITHOUT_DUCK = {"span", "months", "map"}
INTERVALS = ("span", "months")
"""Kinds that are no columns: they are added to times, compared and taken apart."""

TEMPLATES = """
int: {int} + {int} ||| =
int: {int} - {int} ||| =
int: {int} * {n} ||| =
int: {int} % nullif({int}, 0) ||| =
int: abs({int}) ||| =
int: -({int}) ||| =
int: length({text}) ||| CAST(length({text}) AS INT)
int: year({date}) ||| CAST(year({date}) AS INT)
int: month({date}) ||| CAST(month({date}) AS INT)
int: day({ts}) ||| CAST(day({ts}) AS INT)
int: hour({ts}) ||| CAST(hour({ts}) AS INT)
int: dayofweek({date}) ||| CAST(dayofweek({date}) + 1 AS INT)
int: datediff({date}, {date})
int: size({ints}) ||| CAST(len({ints}) AS INT)
int: size({map})
int: cardinality({texts}) ||| CAST(len({texts}) AS INT)
int: get({ints}, {n}) ||| ({ints})[{n} + 1]
int: try_element_at({ints}, {n} + 1) ||| ({ints})[{n} + 1]
int: try_element_at({map}, {text})
int: {map}['a']
int: ({row}).a ||| ({row}).a
int: array_max({ints})
int: array_min(array_compact({ints}))
int: aggregate({ints}, 0, (m, e) -> m + coalesce(e, {n}))
int: array_position({texts}, {text})
int: try_cast({text} AS INT)
int: regexp_count({text}, {pattern})
int: regexp_instr({text}, {pattern})
int: position({text} IN {text})
int: extract(DAY FROM {span} + INTERVAL '0' DAY)
int: extract(MONTH FROM {months})
int: CAST({bool} AS INT) ||| =
double: sign({int}) ||| =
int: greatest({int}, {int}) ||| =
int: least({int}, {int}, {n}) ||| =
int: ascii({text})
int: bit_count({int})
int: {int} & {int} ||| =
long: CAST({int} AS BIGINT) ||| =
long: {long} + {int} ||| =
long: {long} - {long} ||| =
long: floor({double} / 4)
long: {long} div nullif({int}, 0)
long: hash({int}, {text})
long: xxhash64({ints}, {dec})
long: CAST({dec} AS BIGINT)
long: timestampdiff(MINUTE, {ts}, {ts})
long: unix_micros(CAST({ts} AS TIMESTAMP))
long: try_multiply({long}, {long})
double: {double} + {double} ||| =
double: {double} * CAST(0.5 AS DOUBLE) ||| =
double: abs({double}) ||| =
double: CAST({int} AS DOUBLE) ||| =
double: nanvl({double}, {double})
double: floor({double})
double: -({double}) ||| =
double: CAST({dec} AS DOUBLE) ||| =
dec: CAST({dec} + {dec} AS DECIMAL(12, 2)) ||| =
dec: CAST({dec} - {int} AS DECIMAL(12, 2)) ||| =
dec: abs({dec}) ||| =
dec: CAST(round({dec}, 1) AS DECIMAL(12, 2)) ||| =
dec: CAST({int} AS DECIMAL(12, 2)) ||| =
dec: try_cast({dec} * {dec} AS DECIMAL(12, 2))
dec: CAST(bround({dec}, 0) AS DECIMAL(12, 2))
dec: CAST(ceil({dec}) AS DECIMAL(12, 2)) ||| =
text: {text} || {text} ||| =
text: upper({text}) ||| =
text: lower({text}) ||| =
text: substring({text}, {n} + 1, 2) ||| =
text: substring({text}, -{n})
text: trim({text}) ||| =
text: replace({text}, {word}, {text})
text: reverse({text}) ||| =
text: lpad({text}, {n}, 'xy')
text: repeat({text}, {n}) ||| =
text: regexp_replace({text}, {pattern}, 'z')
text: regexp_replace({text}, 'a+', 'z') ||| regexp_replace({text}, 'a+', 'z', 'g')
text: regexp_extract({text}, '(a+)(b?)', 1) ||| =
text: regexp_extract({text}, {pattern}, 0)
text: regexp_substr({text}, {pattern})
text: split_part({text}, ',', {n} + 1) ||| =
text: translate({text}, 'ab', 'ba') ||| =
text: array_join({texts}, ';', 'none')
text: array_join(transform({ints}, e -> CAST(e AS STRING)), '-')
text: CAST({int} AS STRING) ||| CAST({int} AS VARCHAR)
text: CAST({date} AS STRING) ||| CAST({date} AS VARCHAR)
text: CAST({dec} AS STRING) ||| CAST({dec} AS VARCHAR)
text: CAST({ts} AS STRING)
text: CAST({bool} AS STRING) ||| CAST({bool} AS VARCHAR)
text: CAST({ints} AS STRING)
text: CAST({map} AS STRING)
text: CAST({row} AS STRING)
text: ({row}).b ||| ({row}).b
text: get({texts}, {n}) ||| ({texts})[{n} + 1]
text: map_keys({map})[0]
text: concat_ws('+', {text}, {texts})
text: md5({text}) ||| =
text: to_json({row})
text: date_format({ts}, 'yyyy-MM-dd HH:mm')
text: initcap({text})
text: elt({n} % 2 + 1, {text}, {text})
text: greatest({text}, {text}) ||| =
bool: {int} < {int} ||| =
bool: {int} = {long} ||| =
bool: {long} <> {long} ||| =
bool: {double} > {double} ||| =
bool: {dec} <= {dec} ||| =
bool: {dec} >= {int} ||| =
bool: {text} = {text} ||| =
bool: {text} < {text} ||| =
bool: {date} < {date} ||| =
bool: {ts} >= {ts} ||| =
bool: {ts} < CAST({date} AS TIMESTAMP_NTZ) ||| {ts} < CAST({date} AS TIMESTAMP)
bool: {span} < {span}
bool: {months} <= {months}
bool: {ints} = {ints} ||| =
bool: {texts} <> {texts} ||| =
bool: {ints} < {ints}
bool: {row} = {row}
bool: {bool} AND {bool} ||| =
bool: {bool} OR {bool} ||| =
bool: {bool} AND {bool} ||| =
bool: {bool} OR {bool} ||| =
bool: NOT {bool} ||| =
bool: {int} IS NULL ||| =
bool: {text} IS NOT NULL ||| =
bool: {bool} IS NOT TRUE ||| =
bool: {map} IS NULL
bool: {int} IS DISTINCT FROM {int} ||| =
bool: {text} <=> {text} ||| {text} IS NOT DISTINCT FROM {text}
bool: {int} BETWEEN {int} AND {int} ||| =
bool: {int} IN ({n}, {int}, NULL) ||| =
bool: {text} NOT IN ({word}, {text}) ||| =
bool: {text} LIKE 'a%' ||| =
bool: {text} NOT LIKE '%b%' ||| =
bool: {text} LIKE '_' ||| =
bool: {text} ILIKE 'B%' ||| =
bool: {text} LIKE ANY ('a%', '%b', {word})
bool: {text} NOT LIKE ALL ('a%', {word})
bool: {text} RLIKE {pattern}
bool: {text} RLIKE '^a.*b?$' ||| regexp_matches({text}, '^a.*b?$')
bool: startswith({text}, {text})
bool: contains({text}, {word}) ||| =
bool: array_contains({ints}, {int})
bool: arrays_overlap({ints}, {ints})
bool: exists({ints}, e -> e > {n})
bool: forall({texts}, e -> e LIKE '%a%')
bool: map_contains_key({map}, {word})
bool: isnan({double})
date: date_add({date}, {n}) ||| ({date} + {n})
date: date_sub({date}, {int})
date: add_months({date}, {n})
date: last_day({date}) ||| =
date: trunc({date}, 'MM') ||| CAST(date_trunc('month', {date}) AS DATE)
date: CAST({ts} AS DATE) ||| =
date: next_day({date}, 'MO')
date: make_date(2024, {n} + 1, 28) ||| =
date: {date} + {months}
date: try_cast({text} AS DATE)
ts: date_trunc('HOUR', {ts}) ||| =
ts: {ts} + INTERVAL '90' MINUTE ||| =
ts: {ts} - INTERVAL '1' DAY ||| =
ts: {ts} + {span}
ts: {ts} - {months}
ts: CAST({date} AS TIMESTAMP_NTZ) ||| CAST({date} AS TIMESTAMP)
ts: greatest({ts}, {ts}) ||| =
span: {ts} - {ts}
span: {span} + {span}
span: {span} * {n}
span: -({span})
span: make_dt_interval({n}, {int}, {int})
span: abs({span})
months: make_ym_interval({n}, {int})
months: {months} * {n}
months: {months} - {months}
ints: array({int}, {int}) ||| [{int}, {int}]
ints: sort_array({ints}) ||| list_sort({ints}, 'ASC', 'NULLS FIRST')
ints: sort_array({ints}, false)
ints: transform({ints}, e -> e + {n}) ||| list_transform({ints}, lambda e: e + {n})
ints: transform({ints}, (e, i) -> e * i)
ints: filter({ints}, e -> e > {n}) ||| list_filter({ints}, lambda e: e > {n})
ints: sort_array(array_distinct({ints}))
ints: sort_array(array_union({ints}, {ints}))
ints: sort_array(array_intersect({ints}, {ints}))
ints: array_except({ints}, {ints})
ints: array_remove({ints}, {int})
ints: array_append({ints}, {int})
ints: concat({ints}, {ints})
ints: flatten(array({ints}, {ints}))
ints: slice({ints}, {n} + 1, 2)
ints: reverse({ints})
ints: sequence(1, {n} + 1)
ints: array_repeat({int}, {n})
ints: map_values({map})
ints: zip_with({ints}, {ints}, (e, g) -> coalesce(e, 0) + g)
ints: array_sort({ints}, (e, g) -> CAST(sign(coalesce(g, 0) - coalesce(e, 0)) AS INT))
ints: array_insert({ints}, {n} + 1, {int})
ints: array_compact({ints})
texts: split({text}, ',')
texts: split({text}, {pattern})
texts: array({text}, {word}) ||| [{text}, {word}]
texts: map_keys({map})
texts: regexp_extract_all({text}, {pattern}, 0)
texts: transform({texts}, e -> upper(e)) ||| list_transform({texts}, lambda e: upper(e))
texts: filter({texts}, e -> e RLIKE {pattern})
texts: array_distinct({texts})
texts: transform({ints}, e -> CAST(e AS STRING))
map: map_filter({map}, (k, v) -> v > {n})
map: transform_values({map}, (k, v) -> v + length(k))
map: transform_keys({map}, (k, v) -> k || '!')
map: map_from_arrays(array('a', 'b'), array({int}, {int}))
map: map({word}, {int})
map: map_zip_with({map}, {map}, (k, v, w) -> coalesce(v, w))
map: map_from_entries(map_entries({map}))
row: named_struct('a', {int}, 'b', {text}) ||| {{'a': {int}, 'b': {text}}}
row: coalesce({row}, {row}) ||| =
"""
GENERAL = (
    "CASE WHEN {bool} THEN {kind} ELSE {kind} END ||| =",
    "CASE WHEN {bool} THEN {kind} WHEN {bool} THEN {kind} END ||| =",
    "coalesce({kind}, {kind}) ||| =",
    "if({bool}, {kind}, {kind}) ||| CASE WHEN {bool} THEN {kind} ELSE {kind} END",
)
"""What every kind may be."""

_HOLE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Term:
    """An expression.

    Attributes:
        duck: as DuckDB writes it; None: it has not the same there.
    """

    text: str
    duck: str | None


def _templates() -> dict[str, list[Term]]:
    found: dict[str, list[Term]] = defaultdict(list)
    for line in TEMPLATES.strip().splitlines():
        kind, _, rest = line.partition(": ")
        found[kind].append(_both(rest))
    for kind in set(_LITERALS).difference(INTERVALS):
        for each in GENERAL:
            term = _both(each.replace("{kind}", f"{{{kind}}}"))
            found[kind].append(term if kind not in _WITHOUT_DUCK else Term(term.text, None))
    return found


def _both(line: str) -> Term:
    text, _, duck = line.partition(" ||| ")
    return Term(text, text if duck == "=" else duck or None)


_BY_KIND = _templates()
KINDS = tuple(_BY_KIND)
_LITERAL_TERMS = {
    kind: [
        Term(each.text.replace("{{", "{").replace("}}", "}"), each.duck)
        for line in lines
        for each in [_both(line if "|||" in line or kind in _WITHOUT_DUCK else f"{line} ||| =")]
    ]
    for kind, lines in _LITERALS.items()
}


def expression(
    random: Random, kind: str, columns: Mapping[str, str], depth: int, *, duck: bool
) -> Term:
    """Grow an expression.

    Args:
        columns: names, as they are written, with their kinds.
        depth: most calls inside one another.
        duck: take only what DuckDB has too.
    """
    fitting = [name for name, each in columns.items() if each == kind]
    templates = [each for each in _BY_KIND[kind] if each.duck is not None or not duck]
    if depth <= 0 or not templates or random.random() < 0.25:
        if fitting and random.random() < 0.85:
            name = random.choice(fitting)
            return Term(name, name)
        return _literal(random, kind)
    return _filled(random, random.choice(templates), columns, depth - 1, duck)


def _literal(random: Random, kind: str) -> Term:
    found = random.choice(_LITERAL_TERMS[kind])
    duck = found.duck.replace("{{", "{").replace("}}", "}") if found.duck else None
    return Term(found.text, duck)


def _filled(
    random: Random, template: Term, columns: Mapping[str, str], depth: int, duck: bool
) -> Term:
    """Fill the holes: both texts have the same holes, the first of a kind the same filling."""
    made: dict[str, list[Term]] = {}
    for name in _HOLE.findall(template.text):
        made.setdefault(name, []).append(_hole(random, name, columns, depth, duck))
    text = _put(template.text, {name: [each.text for each in some] for name, some in made.items()})
    known = all(each.duck is not None for some in made.values() for each in some)
    if template.duck is None or not known:
        return Term(f"({text})", None)
    fillings = {name: [each.duck or "" for each in some] for name, some in made.items()}
    return Term(f"({text})", f"({_put(template.duck, fillings)})")


def _put(template: str, fillings: Mapping[str, list[str]]) -> str:
    left = {name: iter(some) for name, some in fillings.items()}
    text = _HOLE.sub(lambda hole: next(left[hole[1]]), template)
    return text.replace("{{", "{").replace("}}", "}") if "{{" in template else text


def _hole(random: Random, name: str, columns: Mapping[str, str], depth: int, duck: bool) -> Term:
    if name == "n":
        said = str(random.randint(0, 3))
    elif name == "word":
        said = f"'{random.choice(WORDS)}'"
    elif name == "pattern":
        said = f"'{random.choice(PATTERNS)}'"
    else:
        return expression(random, name, columns, depth, duck=duck)
    return Term(said, said)
