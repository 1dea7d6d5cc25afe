"""The tables of TPC-H, without rows."""

from tests.unit.relational.sql.plans import schemas, table


def _not_null(columns: str) -> str:
    return ", ".join(f"{each.strip()} NOT NULL" for each in columns.split(";"))


TPCH = schemas(
    *(
        table(name, _not_null(columns))
        for name, columns in {
            "customer": "c_custkey BIGINT; c_name STRING; c_address STRING; c_nationkey INT; "
            "c_phone STRING; c_acctbal DECIMAL(15,2); c_mktsegment STRING; c_comment STRING",
            "lineitem": "l_orderkey BIGINT; l_partkey BIGINT; l_suppkey BIGINT; "
            "l_linenumber BIGINT; l_quantity DECIMAL(15,2); l_extendedprice DECIMAL(15,2); "
            "l_discount DECIMAL(15,2); l_tax DECIMAL(15,2); l_returnflag STRING; "
            "l_linestatus STRING; l_shipdate DATE; l_commitdate DATE; l_receiptdate DATE; "
            "l_shipinstruct STRING; l_shipmode STRING; l_comment STRING",
            "nation": "n_nationkey INT; n_name STRING; n_regionkey INT; n_comment STRING",
            "orders": "o_orderkey BIGINT; o_custkey BIGINT; o_orderstatus STRING; "
            "o_totalprice DECIMAL(15,2); o_orderdate DATE; o_orderpriority STRING; "
            "o_clerk STRING; o_shippriority INT; o_comment STRING",
            "part": "p_partkey BIGINT; p_name STRING; p_mfgr STRING; p_brand STRING; "
            "p_type STRING; p_size INT; p_container STRING; p_retailprice DECIMAL(15,2); "
            "p_comment STRING",
            "partsupp": "ps_partkey BIGINT; ps_suppkey BIGINT; ps_availqty BIGINT; "
            "ps_supplycost DECIMAL(15,2); ps_comment STRING",
            "region": "r_regionkey INT; r_name STRING; r_comment STRING",
            "supplier": "s_suppkey BIGINT; s_name STRING; s_address STRING; s_nationkey INT; "
            "s_phone STRING; s_acctbal DECIMAL(15,2); s_comment STRING",
        }.items()
    )
)
