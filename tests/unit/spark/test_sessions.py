"""What a session is started with, and what becomes of one that does not start."""

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

import pkray.spark
from pkray.errors import ServiceUnavailableError
from pkray.spark import sessions


@pytest.fixture
def asked(monkeypatch, tmp_path):
    """The settings of a session that does not start."""
    settings: dict[str, str] = {}

    class Builder:
        def appName(self, _):  # noqa: N802
            return self

        def master(self, _):
            return self

        def config(self, key, value):
            settings[key] = value
            return self

        def getOrCreate(self):  # noqa: N802
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.setattr(sessions, "use_java", lambda: tmp_path)
    monkeypatch.setattr(SparkSession, "builder", Builder())
    return settings


def start(**arguments):
    with pytest.raises(
        ServiceUnavailableError, match=r"Spark did not start: \[JAVA_GATEWAY_EXITED"
    ):
        pkray.spark.session("test", **arguments)


def driver_options(settings):
    return settings["spark.driver.extraJavaOptions"]


def test_a_start_that_fails_is_typed_and_quiet(asked):
    start()
    said = [each for each in driver_options(asked).split() if "log4j2" in each]
    assert said == [f"-Dlog4j2.configurationFile={sessions._LOGGING.as_uri()}"]
    assert sessions._LOGGING.is_file()


def test_logging_that_a_user_configures_stays(asked, tmp_path):
    start(configs={"spark.driver.extraJavaOptions": "-Dlog4j.configurationFile=mine"})
    assert "log4j2" not in driver_options(asked)
    (tmp_path / "log4j2.properties").touch()
    start()
    assert "log4j2" not in driver_options(asked)
