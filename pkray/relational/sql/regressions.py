"""Aggregates of linear regression, written in aggregates that there are."""

from collections.abc import Callable
from functools import cache

from sqlglot import exp

_X, _Y = "CASE WHEN y IS NOT NULL THEN x END", "CASE WHEN x IS NOT NULL THEN y END"
_SLOPE = f"covar_pop(y, x) / nullif(var_pop({_X}), 0)"
FORMULAS = {
    "regr_count": "count(y, x)",
    "regr_avgx": f"avg({_X})",
    "regr_avgy": f"avg({_Y})",
    "regr_sxx": f"var_pop({_X}) * count(y, x)",
    "regr_syy": f"var_pop({_Y}) * count(y, x)",
    "regr_sxy": "covar_pop(y, x) * count(y, x)",
    "regr_slope": _SLOPE,
    "regr_intercept": f"avg({_Y}) - {_SLOPE} * avg({_X})",
    "regr_r2": f"CASE WHEN var_pop({_X}) = 0 THEN NULL WHEN var_pop({_Y}) = 0 THEN 1D "
    f"ELSE power(covar_pop(y, x), 2) / (var_pop({_X}) * var_pop({_Y})) END",
}
"""By their names, of the dependent y and the independent x; rows where one is NULL do not count."""
_AGGREGATES = ("count", "avg", "var_pop", "covar_pop")


def expanded(
    call: exp.Expr, inner: exp.Anonymous, parse: Callable[[str], exp.Expr]
) -> exp.Expr | None:
    """Write a call of these in others; None for any other call.

    Args:
        call: with FILTER and OVER around it.
        inner: the call alone.
        parse: reads an expression.
    """
    formula = FORMULAS.get(inner.name.lower())
    if formula is None or len(inner.expressions) != 2:
        return None
    if any(isinstance(each, exp.Distinct | exp.Order) for each in inner.expressions):
        return None
    given = dict(zip("yx", inner.expressions, strict=True))
    tree = exp.Paren(this=_of(formula, parse).copy())
    for column in list(tree.find_all(exp.Column)):
        argument = given[column.name].copy()
        column.replace(exp.Paren(this=argument) if isinstance(argument, exp.Binary) else argument)
    for node in list(tree.find_all(exp.Anonymous)):
        if node.meta.get("formula"):
            node.meta.update(inner.meta)
            node.replace(_around(call, inner, node.copy()))
    tree.meta["said"] = call.sql("spark", normalize_functions="lower", comments=False)
    return tree


def _around(call: exp.Expr, inner: exp.Anonymous, aggregate: exp.Expr) -> exp.Expr:
    """Put what stands around a call around another."""
    aggregate.meta.pop("formula", None)
    if call is inner:
        return aggregate
    copied = call.copy()
    place = copied
    while not isinstance(place.this, exp.Anonymous):
        place = place.this
    place.set("this", aggregate)
    return copied


@cache
def _of(formula: str, parse: Callable[[str], exp.Expr]) -> exp.Expr:
    tree = parse(formula)
    for node in tree.find_all(exp.Anonymous):
        node.meta["formula"] = node.name in _AGGREGATES
    return tree
