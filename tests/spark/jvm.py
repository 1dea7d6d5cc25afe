"""Settings of Spark in tests: its JVMs live for seconds, and compile in haste."""

_QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
CONFIGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": _QUICK,
    "spark.executor.extraJavaOptions": _QUICK,
    "spark.ray.raydp_app_master.extraJavaOptions": _QUICK,
}
