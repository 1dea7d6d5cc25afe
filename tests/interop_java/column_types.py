"""Types of random columns: of keys, of sequences, for each aggregate function."""

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
DECIMALS = ("DECIMAL(5, 2)", "DECIMAL(18, 4)", "DECIMAL(38, 10)")
EXACT = (*INTEGERS, *DECIMALS)
NUMBERS = (*EXACT, "FLOAT", "DOUBLE")
STRINGS = ("STRING", "VARCHAR(40)")
KEYS = (
    "BOOLEAN", *INTEGERS, *DECIMALS, "CHAR(40)", *STRINGS, "BINARY(20)", "VARBINARY(20)", "BYTES",
    "DATE", "TIME", "TIME(3)",
    *(f"{kind}({n})" for kind in ("TIMESTAMP", "TIMESTAMP_LTZ") for n in (0, 1, 3, 6, 7, 9)),
    "FLOAT", "DOUBLE",
)  # fmt: skip
PARTITIONS = ("BOOLEAN", "SMALLINT", "INT", "BIGINT", "CHAR(40)", *STRINGS, "DATE", "TIMESTAMP(3)")
ORDERED = KEYS[1:]
ARRAYS = ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<DOUBLE>", "ARRAY<ARRAY<INT>>")
MAPS = ("MAP<STRING, INT>", "MAP<INT, STRING>", "MAP<STRING, ARRAY<INT>>")
TABLE = "ARRAY<ROW<a INT, b STRING, c INT>>"
NESTED = (*ARRAYS, *MAPS, TABLE, "ROW<a INT, b STRING>")
ANY = (*KEYS, *NESTED)
FUNCTIONS = {
    "sum": NUMBERS,
    "product": NUMBERS,
    "min": ORDERED,
    "max": ORDERED,
    "last_value": ANY,
    "last_non_null_value": ANY,
    "first_value": ANY,
    "first_non_null_value": ANY,
    "first_not_null_value": ANY,
    "listagg": STRINGS,
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "collect": ARRAYS,
    "merge_map": MAPS,
    "nested_update": (TABLE,),
}
DEFAULTS = {"INT": "5", "DECIMAL(5, 2)": "1.5", "STRING": "none", "DATE": "2024-02-29"}
TAKING_BACK = (
    "sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update",
)  # fmt: skip
WIDER: dict[str, tuple[str, ...]] = {
    "TINYINT": ("SMALLINT", "INT", "BIGINT", "DOUBLE", "DECIMAL(18, 4)"),
    "SMALLINT": ("INT", "BIGINT", "FLOAT"),
    "INT": ("BIGINT", "DOUBLE", "DECIMAL(38, 10)"),
    "FLOAT": ("DOUBLE",),
    "DECIMAL(5, 2)": ("DECIMAL(18, 4)", "DECIMAL(38, 10)"),
    "DECIMAL(18, 4)": ("DECIMAL(38, 10)",),
    "CHAR(40)": ("VARCHAR(40)", "STRING"),
    "VARCHAR(40)": ("STRING",),
    "VARBINARY(20)": ("BYTES",),
    "DATE": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    "TIME": ("TIME(3)",),
    "TIMESTAMP(0)": ("TIMESTAMP(3)", "TIMESTAMP(6)"),
    "TIMESTAMP(3)": ("TIMESTAMP(6)",),
    "TIMESTAMP_LTZ(3)": ("TIMESTAMP_LTZ(6)",),
}
OF_ANY_TYPE = ("last_value", "last_non_null_value", "first_value", "first_non_null_value")
