"""Long chains of operators, as trees that are not deep.

The parser reads ``a + 1 + 1 …`` as operators in each other, a level an operator. What works on
syntax, and on plans, takes some of Python's stack a level. So that long chains are made flat here,
where their meaning allows it, before anything else looks at them:

- AND, OR, ``||``, UNION and UNION ALL of many: a balanced tree, as their grouping does not matter;
- operators of numbers: an `OperatorChain`, whose steps are bound and computed from left to right.
"""

from collections.abc import Callable
from typing import ClassVar

from sqlglot import exp

from pkray.errors import QueryError

MOST_TERMS = 5000
"""Most terms of a chain of operators of numbers: binding one takes about 0.1 ms."""
_MOST_NESTED = 100
"""Terms of a chain that stays as it is read; so that the plans of short ones stay as they were."""
_KEPT = 8
"""Operators that a chain begins with as they are read: GROUP BY may name what they give."""
_SYMBOLS: dict[type[exp.Expr], str] = {
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "DIV",
    exp.Mod: "%",
    exp.Add: "+",
    exp.Sub: "-",
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "^",
}
OPERATORS = {symbol: kind for kind, symbol in _SYMBOLS.items()}
"""The operators of steps, by their symbols."""
CHAINED = frozenset(_SYMBOLS)
"""The operators that long chains of numbers are of."""
_LOOSENESS = {
    symbol: level
    for level, row in enumerate(("* / DIV %", "+ -", "& | ^"))
    for symbol in row.split()
}
_BALANCED = (exp.And, exp.Or, exp.DPipe)


class OperatorStep(exp.Expression):
    """An operator, by its symbol, and its second operand."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class OperatorChain(exp.Expression):
    """Operators of numbers from left to right: the first operand, and the steps after it."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": True}


def flattened(tree: exp.Expr) -> exp.Expr:
    """Make long chains flat; the tree is changed.

    Raises:
        QueryError: a chain has more than MOST_TERMS terms.
    """
    kinds: tuple[type[exp.Expr], ...] = (*_BALANCED, *_SYMBOLS, exp.Union)
    ends = [node for node in tree.find_all(*kinds) if not _goes_on(node.parent, node)]
    for end in reversed(ends):  # those within others first
        made = _flat(end)
        if made is None:
            continue
        if end is tree:
            tree = made
        else:
            end.replace(made)
    return tree


def applied(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Apply an operator to two operands, each in parentheses if it needs them.

    Where `left` is such a chain and long, it goes on, and is changed.

    Raises:
        QueryError: the chain has more than MOST_TERMS terms.
    """
    chain = left.unnest()
    if isinstance(chain, OperatorChain) and kind in _SYMBOLS:
        _check_terms(_KEPT + 2 + len(chain.expressions))
        chain.append("expressions", OperatorStep(this=_SYMBOLS[kind], expression=right))
        return chain
    made = kind(this=left, expression=right)
    operators: list[exp.Expr] = []
    node: exp.Expr = made
    while type(node) in _SYMBOLS:
        operators.append(node)
        node = node.this.unnest()
    if len(operators) < _MOST_NESTED // 2:  # each stands in parentheses
        return made
    operators.reverse()
    return _in_steps(operators, [node, *(each.expression for each in operators)])


def _goes_on(operator: exp.Expr | None, before: object) -> bool:
    """Whether an operator continues the chain that the one on its left ends."""
    if operator is None or operator.this is not before:
        return False
    if type(operator) in _SYMBOLS:
        return type(before) in _SYMBOLS
    if type(operator) is not type(before):
        return False
    if not isinstance(before, exp.Union):
        return True
    plain = {name for name, value in before.args.items() if value} <= {*_UNION, "distinct"}
    return plain and before.args.get("distinct") == operator.args.get("distinct")


_UNION = ("this", "expression")


def _flat(end: exp.Expr) -> exp.Expr | None:
    """Give what stands for a chain; None for one that stays."""
    operators = [end]
    while _goes_on(operators[-1], operators[-1].this):
        operators.append(operators[-1].this)
    operators.reverse()
    terms = [operators[0].this, *(each.expression for each in operators)]
    if type(end) in _SYMBOLS:
        return _in_steps(operators, terms) if len(terms) > _MOST_NESTED else None
    if len(terms) <= (_MOST_NESTED if isinstance(end, exp.Union) else 8):
        return None
    made = _joined(terms, operators[0])
    for name, value in end.args.items():
        if name not in _UNION:
            made.set(name, value)
    return made


def _joined(terms: list[exp.Expr], like: exp.Expr) -> exp.Expr:
    """Join terms by an operator, as a tree whose depth is that of a few."""
    if len(terms) == 1:
        return terms[0]
    half = len(terms) // 2
    distinct = {"distinct": like.args["distinct"]} if isinstance(like, exp.Union) else {}
    return type(like)(
        this=_joined(terms[:half], like), expression=_joined(terms[half:], like), **distinct
    )


def _in_steps(operators: list[exp.Expr], terms: list[exp.Expr]) -> exp.Expr:
    _check_terms(len(terms))
    steps = [
        OperatorStep(this=_SYMBOLS[type(operator)], expression=term)
        for operator, term in zip(operators[_KEPT:], terms[_KEPT + 1 :], strict=True)
    ]
    return OperatorChain(this=operators[_KEPT - 1], expressions=steps)


def _check_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise QueryError(
            f"a chain of operators has {count} terms, and at most {MOST_TERMS} are read: compute "
            "parts of it in WITH clauses"
        )


def chain_text(chain: OperatorChain, written: Callable[[exp.Expr], str]) -> str:
    """Write a chain as SQL; what stands before an operator that binds closer is in parentheses.

    Args:
        written: writes an operand.
    """
    first = chain.this
    text, loosest = [written(first)], _LOOSENESS.get(_SYMBOLS.get(type(first), ""), 0)
    for step in chain.expressions:
        if _LOOSENESS[step.name] < loosest:
            text = ["(", *text, ")"]
        loosest = _LOOSENESS[step.name]
        text.append(f" {step.name} {written(step.expression)}")
    return "".join(text)
