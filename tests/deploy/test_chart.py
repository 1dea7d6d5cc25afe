"""The Helm chart renders what Kubernetes takes, and holds no secrets."""

import json
import re
import tomllib
from importlib.metadata import version
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from pkray.service.settings import SETTINGS, Settings
from tests.deploy.files import CHART, FULL, one, pod_templates, rendered

KUBERNETES = "1.30"
"""The oldest version that is served; the newest is checked, too."""
KINDS = {
    "ConfigMap",
    "Deployment",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PrometheusRule",
    "RayCluster",
    "Service",
    "ServiceMonitor",
    "StatefulSet",
}
EXTERNAL = {"redis": {"enabled": True, "address": "redis.data:6379"}}
CLUSTER = {"rayVersion", "headGroupSpec", "workerGroupSpecs", "gcsFaultToleranceOptions"}
GROUP = {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"}
"""Keys of KubeRay's RayCluster, version ray.io/v1, that the chart may use."""


@pytest.mark.parametrize("values", [{}, FULL, EXTERNAL], ids=["default", "full", "external"])
def test_helm_finds_nothing_to_remark(values):
    found = helm_python.lint(CHART, values, strict=True)
    said = [each["error"] for each in found["messages"] if each["error"] != "icon is recommended"]
    assert (said, found["errors"]) == ([], [])


@pytest.mark.parametrize("release", [KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_kubernetes_takes_each_object(values, release):
    for each in rendered(values):
        if each["kind"] not in ("RayCluster", "PrometheusRule", "ServiceMonitor"):
            kubernetes_validate.validate(each, release, strict=True)


@pytest.mark.parametrize("release", [KUBERNETES, kubernetes_validate.latest_version()])
@pytest.mark.parametrize("values", [{}, FULL], ids=["default", "full"])
def test_kubernetes_takes_the_pods_of_the_ray_cluster(values, release):
    for name, template in pod_templates(one(rendered(values), "RayCluster")).items():
        metadata = {**template.get("metadata", {}), "name": name}
        pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": metadata}
        kubernetes_validate.validate(pod, release, strict=True)


def test_a_pod_that_is_wrong_is_found():
    (template, _) = pod_templates(one(rendered(), "RayCluster")).values()
    pod = {"apiVersion": "v1", "kind": "Pod", **json.loads(json.dumps(template))}
    pod["spec"]["containers"][0]["livenessProb"] = {}
    with pytest.raises(kubernetes_validate.ValidationError, match="livenessProb"):
        kubernetes_validate.validate(pod, KUBERNETES, strict=True)


def test_kuberay_knows_the_keys_of_the_ray_cluster():
    cluster = one(rendered(FULL), "RayCluster")
    assert cluster["apiVersion"] == "ray.io/v1"
    assert set(cluster["spec"]) <= CLUSTER
    assert set(cluster["spec"]["headGroupSpec"]) <= {"rayStartParams", "template"}
    assert set(cluster["spec"]["workerGroupSpecs"][0]) <= GROUP
    assert set(cluster["spec"]["gcsFaultToleranceOptions"]) == {"redisAddress", "redisPassword"}
    parameters = cluster["spec"]["headGroupSpec"]["rayStartParams"]
    assert all(isinstance(value, str) for value in parameters.values())


def test_everything_is_rendered_with_all_values():
    assert {each["kind"] for each in rendered(FULL)} == KINDS


def test_without_redis_there_is_none():
    kinds = {each["kind"] for each in rendered()}
    assert kinds == KINDS - {
        "Deployment",
        "PrometheusRule",
        "Service",
        "ServiceMonitor",
        "StatefulSet",
    }
    assert "gcsFaultToleranceOptions" not in one(rendered(), "RayCluster")["spec"]


def test_a_redis_that_is_there_already_is_used():
    objects = rendered(EXTERNAL)
    assert not any(each["kind"] == "StatefulSet" for each in objects)
    options = one(objects, "RayCluster")["spec"]["gcsFaultToleranceOptions"]
    assert options["redisAddress"] == "redis.data:6379"


def settings_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return tomllib.loads(one(objects, "ConfigMap")["data"]["pkray.toml"])


def test_settings_are_a_file_that_pkray_reads(tmp_path):
    file = tmp_path / "pkray.toml"
    secrets = dict.fromkeys(FULL["secrets"])
    text = one(rendered(FULL), "ConfigMap")["data"]["pkray.toml"]
    for name in secrets:
        (tmp_path / name).write_text("k3y")
        text = text.replace(f"/run/secrets/pkray/{name}", str(tmp_path / name))
    file.write_text(text)
    read = Settings.read({"PKRAY_SETTINGS": str(file)})
    assert (read["warehouse"], read["pool_workers"], read["owner_cpus"]) == (
        "s3://bucket/warehouse",
        4,
        0.5,
    )
    assert read.storage_options() == {"access_key_id": "k3y", "secret_access_key": "k3y"}


def test_secrets_are_files_that_come_from_secrets():
    objects = rendered(FULL)
    found = settings_of(objects)
    for template in pod_templates(one(objects, "RayCluster")).values():
        (volume,) = (each for each in template["spec"]["volumes"] if each["name"] == "secrets")
        sources = {
            source["secret"]["items"][0]["path"]: (
                source["secret"]["name"],
                source["secret"]["items"][0]["key"],
            )
            for source in volume["projected"]["sources"]
        }
        assert sources == {
            "storage_access_key_id_file": ("store", "id"),
            "storage_secret_access_key_file": ("store", "key"),
        }
        (mount,) = (
            each
            for each in template["spec"]["containers"][0]["volumeMounts"]
            if each["name"] == "secrets"
        )
        assert {found[name] for name in sources} == {f"{mount['mountPath']}/{n}" for n in sources}


def environments(values: dict[str, Any]) -> list[dict[str, str]]:
    """The variables of each container of pkray that have a value."""
    objects = rendered(values)
    templates = [*pod_templates(one(objects, "RayCluster")).values()]
    if "console" in values:
        templates += [e["spec"]["template"] for e in objects if e["kind"] == "Deployment"]
    containers = [each["spec"]["containers"][0] for each in templates]
    return [{e["name"]: e["value"] for e in each["env"] if "value" in e} for each in containers]


def test_all_processes_write_logs_and_spans_as_the_values_say():
    found = environments(FULL)
    assert len(found) == 3
    for each in found:
        assert (each["PKRAY_LOG_FORMAT"], each["PKRAY_TRACING"]) == ("json", "otlp")
        assert each["OTEL_EXPORTER_OTLP_ENDPOINT"] == "http://collector:4318"
        assert each["OTEL_TRACES_SAMPLER_ARG"] == "0.01"


def test_by_default_logs_are_text_and_there_are_no_spans():
    for each in environments({}):
        assert each["PKRAY_LOG_FORMAT"] == "text"
        assert not {name for name in each if name.startswith(("PKRAY_TRACING", "OTEL_"))}


def test_the_console_takes_its_token_from_a_secret():
    pod = one(rendered(FULL), "Deployment")["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "token")
    assert volume["secret"]["secretName"] == "pkray-console"
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "token")
    path = f"{mount['mountPath']}/{volume['secret']['items'][0]['path']}"
    assert f"--token-file {path}" in pod["containers"][0]["args"][0]


def test_prometheus_is_led_to_the_console_with_its_token():
    objects = rendered(FULL)
    monitor = one(objects, "ServiceMonitor")
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    (service,) = (
        each
        for each in objects
        if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()
    )
    (endpoint,) = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {each["name"] for each in service["spec"]["ports"]}
    assert endpoint["authorization"]["credentials"] == {"name": "pkray-console", "key": "token"}
    assert {"targetLabel": "job", "replacement": "pkray"} in endpoint["relabelings"]
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


@pytest.mark.parametrize(("asked", "params"), [(False, None), (True, {"by": ["bucket"]})])
def test_series_of_buckets_are_scraped_where_that_is_asked_for(asked, params):
    console = FULL["console"]
    monitor = {**console["serviceMonitor"], "byBucket": asked}
    objects = rendered({**FULL, "console": {**console, "serviceMonitor": monitor}})
    (endpoint,) = one(objects, "ServiceMonitor")["spec"]["endpoints"]
    assert endpoint.get("params") == params


def test_the_charts_alerts_are_those_of_prometheus():
    rules = yaml.safe_load((CHART.parent / "prometheus/rules.yaml").read_text())
    assert one(rendered(FULL), "PrometheusRule")["spec"] == rules


def test_the_console_is_called_by_the_name_of_its_service():
    objects = rendered(FULL)
    line = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]["args"][0]
    names = [each["metadata"]["name"] for each in objects if each["kind"] == "Service"]
    assert re.search(r"--allow-host (shop-console)\s*$", line)[1] in names


def test_the_chart_makes_no_secret():
    assert not any(each["kind"] == "Secret" for each in rendered(FULL))


@pytest.mark.parametrize(
    "values",
    [
        {"settings": {"warehouse": "s3://b/w", "pool_worker": 3}},
        {"settings": {"warehouse": "s3://b/w", "storage_secret_access_key_file": "/k"}},
        {"secrets": {"storage_secret_access_key_file": "k3y"}},
        {"secrets": {"warehouse": {"name": "a", "key": "b"}}},
        {"workers": {"replica": 3}},
        {"logs": {"format": "xml"}},
        {"tracing": {"endpoint": "collector"}},
        {"tracing": {"ratio": 2}},
        {"worker": {}},
        {"redis": {"password": "k3y"}},
        {"console": {"token": "k3y"}},
        {"console": {"hosts": ["a; rm -rf /"]}},
    ],
    ids=str,
)
def test_a_wrong_value_is_refused_before_anything_is_made(values):
    with helm_python.Chart.load(CHART) as chart, pytest.raises(helm_python.HelmError):
        chart.validate_schema(chart.merge_values(values))


def test_values_list_the_settings_of_the_code():
    properties = json.loads((CHART / "values.schema.json").read_text())["properties"]
    of_file = {each.name for each in SETTINGS if each.of != "process"}
    secrets = {each.name for each in SETTINGS if each.is_secret}
    assert set(properties["settings"]["properties"]) == of_file - secrets
    assert set(properties["secrets"]["propertyNames"]["enum"]) == secrets


def test_no_variables_of_services_are_taken_for_settings():
    """Kubernetes sets PKRAY_PORT and others where a Service has the name pkray."""
    for template in pod_templates(one(rendered(), "RayCluster")).values():
        assert template["spec"]["enableServiceLinks"] is False


def test_names_are_short_enough_for_kuberay():
    with helm_python.Chart.load(CHART) as chart:
        texts = chart.render({}, name="a" * 53)
    (name,) = (
        yaml.safe_load(text)["metadata"]["name"]
        for path, text in texts.items()
        if path.endswith("raycluster.yaml")
    )
    assert len(name) <= 40


def test_a_pod_ends_after_its_parts_have_moved():
    template = pod_templates(one(rendered(), "RayCluster"))["ray-worker"]
    stop = template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert "--timeout 120" in stop
    assert template["spec"]["terminationGracePeriodSeconds"] > 120


def test_versions_are_those_of_the_package():
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert chart["appVersion"] == version("pkray")
    assert values["rayVersion"] == version("ray")
