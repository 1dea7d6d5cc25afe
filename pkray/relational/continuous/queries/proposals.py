"""Other plans for a query: what it would be with one, and going back to the one before."""

from msgspec import structs

from pkray.relational.continuous.feeds.feeds import Feeds, scans_of
from pkray.relational.continuous.feeds.streams import in_query, streams_in
from pkray.relational.continuous.operators.catalogue import check_operators
from pkray.relational.continuous.queries.compiling import Compiled
from pkray.relational.continuous.queries.definitions.definition import Definition
from pkray.relational.continuous.queries.incarnations.life import check_maps, columns_read
from pkray.relational.continuous.queries.starting import check_no_circle
from pkray.relational.continuous.queries.stored import StoredQuery
from pkray.relational.continuous.upgrades.stored import StoredUpgrade


def proposal(query: StoredQuery, plan: Compiled, generation: str) -> Definition:
    """Make what a query would be with another plan.

    Raises:
        UnsupportedError: a node does not run continuously.
        QueryDivergedError: the query is of an older version, and the plan keeps rows by MAPs.
    """
    current, dialect = query.definition, plan.document["dialect"]
    roots = in_query(plan.roots, query.folder, current.begun)
    for root in roots:
        check_operators(root, dialect)
    check_maps(current, roots)
    begun = {
        name: current.beginnings.get(name, at)
        for name, at in Feeds(scans_of(roots)).beginnings().items()
    }
    made = structs.replace(
        current,
        document=plan.document,
        before=tuple(plan.before),
        dialect=dialect,
        beginnings=begun,
        streams=tuple(each.name for each in streams_in(roots)),
        generation=generation,
        columns=columns_read(roots),
        sql=plan.text,
    )
    check_no_circle(roots, made.tables)
    query.changed(made).keep_roots(roots)
    return made


def keep_roots(query: StoredQuery, back: StoredUpgrade) -> None:
    """Take the older plan that this process has for the one that a query goes back to."""
    now = query.changed(back.new)
    older = now.in_process.roots.get(back.returns_to or "")
    if back.returns_to is not None and older is not None:
        now.keep_roots(older)
