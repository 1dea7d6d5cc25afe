"""Queries out of queries: what a relation's method writes around the syntax it has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from pkray.errors import QueryError
from pkray.relational.api.column import is_known
from pkray.relational.api.queried import Queried
from pkray.relational.dialect import Dialect
from pkray.relational.session import Environment, fresh_name
from pkray.relational.sql import syntax
from pkray.relational.sql.parser import parse_expression, parse_trees
from pkray.relational.sql.places import nearest

_OPEN = frozenset({"kind", "expressions", "from_", "where"})


@dataclass(frozen=True)
class Side:
    """A relation in a query that is being written.

    Attributes:
        name: what its columns are called by; None where there is but one.
    """

    relation: Queried
    name: str | None = None


_OF_A_KEY = ("expressions", "order")
"""Parts that ``SELECT 1 ORDER BY`` and one sort key have."""


class Writer:
    """Writes a query over some relations: reads the text in it, finds what its columns mean."""

    def __init__(self, sides: Sequence[Side], names: Environment) -> None:
        self._sides = sides
        self.names = names

    def settled(self, tree: exp.Expr) -> exp.Expr:
        """Bring a column's syntax into the query.

        Raises:
            QueryError: text that is no expression, or a column of a relation that is not here.
        """
        holder = exp.Paren(this=tree)
        for node in list(
            holder.find_all(syntax.Text, syntax.Inner, syntax.UserCall, exp.Column, bfs=False)
        ):
            if isinstance(node, syntax.Text):
                node.replace(self._read(node.this, node))
            elif isinstance(node, syntax.Inner):
                node.replace(self._taken(node.this))
            elif isinstance(node, syntax.UserCall):
                node.replace(self._called(node))
            elif isinstance(node, exp.Column) and syntax.ORIGIN in node.meta:
                node.replace(self._found(node))
        made: exp.Expr = holder.this
        made.pop()
        return made

    def _read(self, text: str, node: exp.Expr) -> exp.Expr:
        if node.arg_key == "to":
            cast = parse_expression(f"CAST(NULL AS {text})", self.names.dialect)
            kind: exp.Expr = cast.args["to"]
            return kind
        if isinstance(node.parent, exp.Order):
            return self._read_key(text)
        return parse_expression(text, self.names.dialect)

    def ordering(self, key: exp.Expr) -> exp.Expr:
        """Bring a sort key into the query; text may say ``a DESC NULLS LAST``."""
        return self._read_key(key.this) if isinstance(key, syntax.Text) else self.settled(key)

    def _read_key(self, text: str) -> exp.Expr:
        prefix = "SELECT 1 ORDER BY "
        tree, *others = parse_trees(prefix + text, self.names.dialect, shift=len(prefix))
        keys = tree.args["order"].expressions if tree.args.get("order") else []
        more = any(value for name, value in tree.args.items() if name not in _OF_A_KEY)
        if len(keys) != 1 or others or more:
            raise QueryError(f"one sort key is expected, not {text!r}")
        made: exp.Expr = keys[0].pop()
        return made

    def _taken(self, relation: Queried) -> exp.Query:
        self.names, tree = absorbed(self.names, relation)
        return tree

    def _called(self, node: syntax.UserCall) -> exp.Anonymous:
        """Give a user's function a name by which the query calls it."""
        known = self.names.functions
        names = [name for name, each in known.items() if each is node.this]
        name = names[0] if names else node.this.name.lower()
        if not names and (name in known or not name.isidentifier() or is_known(name)):
            name = fresh_name("function")
        self.names = replace(self.names, functions={**known, name: node.this})
        return syntax.call(name, *node.expressions)

    def _found(self, node: exp.Column) -> exp.Column:
        number, name = node.meta[syntax.ORIGIN], node.name
        sides = [side for side in self._sides if number in side.relation.origins]
        if len(sides) > 1:
            raise QueryError(
                f"column {name!r} may be of either side: give one of them an alias, and take the "
                "column from that relation",
                column_name=name,
            )
        if not sides:
            known = {name for side in self._sides for name in side.relation.columns}
            remedy = "join that relation first" if name not in known else f"write col({name!r})"
            raise QueryError(
                f"column {name!r} is of another relation than the ones here: {remedy}",
                column_name=name,
            )
        here = sides[0].relation.origins[number].get(name)
        if here is None:
            raise QueryError(
                f"column {name!r} is no longer there: an operation since has dropped or replaced "
                f"it{nearest(name, sides[0].relation.columns)}",
                column_name=name,
            )
        return syntax.column(here, sides[0].name)


def absorbed(names: Environment, relation: Queried) -> tuple[Environment, exp.Query]:
    """Take a relation into a query of other names."""
    if relation.dialect is names.dialect:
        return names.joined(relation.names, relation.tree)
    name = fresh_name("relation")  # bound by the rules of its own dialect
    return names.with_bound((name,), relation.plan), syntax.star(
        exp.Table(this=syntax.identifier(name))
    )


def is_open(tree: exp.Expr) -> bool:
    """Whether a query is ``SELECT * FROM one [WHERE …]``: columns and order go right into it."""
    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return False
    bare = isinstance(tree.expressions[0], exp.Star) and not any(tree.expressions[0].args.values())
    return bare and all(key in _OPEN for key, value in tree.args.items() if value)


def opened(tree: exp.Query) -> exp.Select:
    """Give an open query of a query's rows."""
    return changeable(tree) if is_open(tree) else syntax.star(subquery(tree))


def changeable(tree: exp.Query) -> exp.Select:
    """Copy a SELECT to change its clauses, which are shared: nothing changes in them."""
    assert isinstance(tree, exp.Select)
    return exp.Select(**tree.args)


def subquery(tree: exp.Query, name: str | None = None) -> exp.Subquery:
    """Put a query in parentheses."""
    alias = exp.TableAlias(this=syntax.identifier(name)) if name else None
    return exp.Subquery(this=tree, alias=alias)


def table_of(tree: exp.Expr) -> exp.Table | None:
    """Find the table whose rows a query gives as they are; None where it does more."""
    if not is_open(tree) or tree.args.get("where") or "from_" not in tree.args:
        return None
    item = tree.args["from_"].this
    plain = isinstance(item, exp.Table) and item.name and not item.args.get("joins")
    return item if plain else None


def item_of(tree: exp.Query, taken: str | None = None) -> tuple[exp.Expr, str]:
    """Write a query as an item of FROM, and say by what name its columns go there.

    Args:
        taken: a name that another item has.
    """
    fresh = "r" if taken else "l"
    fresh = fresh if fresh != taken else f"{fresh}_1"
    if is_open(tree) and not tree.args.get("where") and tree.args.get("from_"):
        item: exp.Expr = tree.args["from_"].this.copy()
        name = item.alias_or_name
        if name and name != taken:
            return item, name
        if isinstance(item, exp.Table) and item.name:
            item.set("alias", exp.TableAlias(this=syntax.identifier(fresh)))
            return item, fresh
    return subquery(tree, fresh), fresh


def select_of(tree: exp.Query) -> exp.Query:
    """Write a query as an operand of UNION and the like."""
    bare = isinstance(tree, exp.Select) and not any(
        tree.args.get(key) for key in ("order", "limit", "offset", "with_")
    )
    return tree if bare else syntax.star(subquery(tree))


def passed_on(
    origins: Mapping[int, Mapping[str, str]], renamed: Mapping[str, str]
) -> dict[int, dict[str, str]]:
    """Follow columns through an operation.

    Args:
        renamed: the columns that come out as they are, by old name.
    """
    return {
        number: {name: renamed[here] for name, here in known.items() if here in renamed}
        for number, known in origins.items()
    }


def in_dialect(value: object) -> Dialect:
    """Take a dialect's name.

    Raises:
        QueryError: there is none of this name.
    """
    try:
        return Dialect(str(value).lower())
    except ValueError:
        raise QueryError(
            f"no dialect is called {value!r}: there are {' and '.join(each for each in Dialect)}"
        ) from None
