"""The bytes of a table, as Apache Paimon means them."""
