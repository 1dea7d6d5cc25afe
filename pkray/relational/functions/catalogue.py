"""Every family of functions: each puts its own into the table when it is imported."""

from pkray.relational.functions import checks, comparison, conditional, session
from pkray.relational.functions.casts import written
from pkray.relational.functions.hashing import chained, digests
from pkray.relational.functions.hashing import rows as rows_hashed
from pkray.relational.functions.json import building, functions, schemas
from pkray.relational.functions.nested import (
    arrays,
    comparators,
    elements,
    insertion,
    lambdas,
    making,
    maps,
    rows,
    sets,
)
from pkray.relational.functions.numbers import (
    arithmetic,
    bits,
    chance,
    division,
    mathematics,
    rounding,
    signs,
    trying,
)
from pkray.relational.functions.text import (
    characters,
    charsets,
    csv,
    encodings,
    formats,
    regular_expressions,
    search,
    strings,
    urls,
)
from pkray.relational.functions.time import arithmetic as arithmetic_of_time
from pkray.relational.functions.time import (
    clock,
    epoch,
    interval_texts,
    intervals,
    now,
    parts,
    replaced,
    shifts,
    truncation,
)
from pkray.relational.functions.time import formats as formats_of_time

FAMILIES = (
    *(arithmetic, bits, chance, division, mathematics, rounding, signs, trying),
    *(checks, comparison, conditional, session, written),
    *(characters, charsets, csv, encodings, formats, regular_expressions, search, strings, urls),
    *(arithmetic_of_time, clock, epoch, formats_of_time, interval_texts, intervals, now, parts),
    *(replaced, shifts, truncation),
    *(building, functions, schemas),
    *(arrays, comparators, elements, insertion, lambdas, making, maps, rows, sets),
    *(chained, digests, rows_hashed),
)
"""The modules that define functions; aggregates and window functions are in `aggregates`."""
