"""What tasks of Spark take along."""

from types import SimpleNamespace

import pyarrow as pa

from pkray import spans
from pkray.service.protocol import PushReport
from pkray.spark import batch
from pkray.spark.failure import ErrorChannel
from tests.recorded_spans import recorded


class Target:
    """Takes rows of a task, and reports none."""

    def open(self, source, attempt):
        return self

    def push(self, rows, row_kinds, missing):
        pass

    def finish(self):
        return PushReport(source=0, attempt=1, rows=1, batches={})


def test_a_task_works_below_the_batch_of_its_driver(monkeypatch):
    task = SimpleNamespace(partitionId=lambda: 0, taskAttemptId=lambda: 1)
    monkeypatch.setattr(batch.TaskContext, "get", lambda: task)
    with recorded() as exporter:
        with spans.within(epoch=7), spans.span("spark_batch", table="shop.stock"):
            push = batch.push_task(Target(), None, "error", ErrorChannel())
        list(push([pa.record_batch({"k": [1]})]))
    of_driver, of_task = exporter.get_finished_spans()
    assert of_task.name == "pkray.push"
    assert of_task.parent.span_id == of_driver.context.span_id
    assert of_task.attributes == {"pkray.table": "shop.stock", "pkray.epoch": 7}
