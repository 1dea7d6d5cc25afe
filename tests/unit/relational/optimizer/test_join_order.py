"""In which order joins are done, and where semi joins are."""

import pytest

from pkray.relational.optimizer import optimize
from tests.unit.relational.optimizer.shapes import Sized, Tables, shape

MILLION = 1_000_000
ORDERS = Sized("orders", MILLION, {"o": MILLION, "c": 100_000}, ("o",))
LINES = Sized("lines", 4 * MILLION, {"lo": MILLION, "lp": 200_000, "ls": 10_000, "q": 50})
CUSTOMERS = Sized("customers", 100_000, {"ck": 100_000, "cn": 25}, ("ck",))
PARTS = Sized("parts", 200_000, {"p": 200_000, "color": 100}, ("p",))
SUPPLIES = Sized("supplies", 800_000, {"sp": 200_000, "ss": 10_000}, ("sp", "ss"))
TABLES = Tables(ORDERS, LINES, CUSTOMERS, PARTS, SUPPLIES)


def optimized(query: str) -> str:
    return shape(optimize(TABLES.bound(query)))


def test_rows_that_refer_to_a_key_of_two_columns_are_not_taken_for_fewer() -> None:
    query = (
        "SELECT * FROM parts, lines, supplies, orders WHERE p = lp AND sp = lp AND ss = ls "
        "AND o = lo AND color = 7"
    )
    assert optimized(query) == "(orders, (supplies, (lines, parts)))"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "SELECT * FROM customers, orders, lines WHERE ck = c AND lo = o AND o IN "
            "(SELECT lo FROM lines GROUP BY lo HAVING SUM(q) > 300)",
            "(lines, (semi(orders, by[lo](lines)), customers))",
        ),
        (
            "SELECT * FROM customers, orders WHERE ck = c AND NOT EXISTS "
            "(SELECT 1 FROM lines WHERE lo = o AND q > ck)",
            "anti((customers, orders), lines)",
        ),
        (
            "SELECT * FROM orders LEFT JOIN customers ON ck = c WHERE NOT EXISTS "
            "(SELECT 1 FROM lines WHERE lo = o AND q > c)",
            "left(anti(orders, lines), customers)",
        ),
        (
            "SELECT * FROM customers JOIN orders ON ck = c WHERE cn = 3 AND o IN "
            "(SELECT lo FROM lines)",
            "semi((customers, orders), lines)",
        ),
    ],
)
def test_semi_joins_are_below_joins_that_leave_no_row_out(query: str, expected: str) -> None:
    assert optimized(query) == expected
