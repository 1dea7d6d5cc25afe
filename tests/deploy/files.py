"""The files of `deploy/`, and the commands in them as a plain shell would have them."""

import json
import re
import shlex
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import helm_python
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))

FULL: dict[str, Any] = {
    "settings": {"warehouse": "s3://bucket/warehouse", "pool_workers": 4, "owner_cpus": 0.5},
    "secrets": {
        "storage_access_key_id_file": {"name": "store", "key": "id"},
        "storage_secret_access_key_file": {"name": "store", "key": "key"},
    },
    "auth": {"secret": {"name": "ray", "key": "token"}},
    "logs": {"format": "json"},
    "tracing": {"endpoint": "http://collector:4318", "ratio": 0.01},
    "imagePullSecrets": [{"name": "registry"}],
    "redis": {"enabled": True},
    "networkPolicy": {"from": [{"namespaceSelector": {"matchLabels": {"team": "data"}}}]},
    "console": {
        "enabled": True,
        "hosts": ["console.example.org"],
        "allowChanges": True,
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
    },
    "head": {"env": [{"name": "A", "value": "1"}], "nodeSelector": {"disk": "fast"}},
    "workers": {
        "env": [{"name": "PKRAY_METADATA_CACHE", "value": "128 mb"}],
        "tolerations": [{"key": "batch", "operator": "Exists"}],
    },
}
"""Values of the chart by which everything in it is rendered."""


@cache
def _rendered(values: str) -> tuple[dict[str, Any], ...]:
    with helm_python.Chart.load(CHART) as chart:
        texts = chart.render(json.loads(values), name="shop", namespace="data")
    files = (text for path, text in sorted(texts.items()) if path.endswith(".yaml"))
    return tuple(each for text in files for each in yaml.safe_load_all(text) if each)


def rendered(values: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Render the chart: its objects."""
    return list(_rendered(json.dumps(values or {})))


def one(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Give the only object of a kind."""
    (found,) = (each for each in objects if each["kind"] == kind)
    return found


def pod_templates(cluster: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give the templates of a RayCluster by the names of their Ray containers."""
    spec = cluster["spec"]
    groups = [spec["headGroupSpec"], *spec["workerGroupSpecs"]]
    return {each["template"]["spec"]["containers"][0]["name"]: each["template"] for each in groups}


@cache
def compose() -> dict[str, Any]:
    """Read the compose file."""
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def unit(path: Path) -> dict[str, list[str]]:
    """Read the lines of a unit by their keys."""
    found: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(key, []).append(value)
    return found


@cache
def instructions() -> list[tuple[str, str]]:
    """Read the Dockerfile's instructions, each on one line."""
    text = re.sub(r"(?m)^#.*\n", "", (DEPLOY / "Dockerfile").read_text()).replace("\\\n", " ")
    lines = (line.strip().partition(" ") for line in text.splitlines() if line.strip())
    return [(name, re.sub(r"\s+", " ", rest.strip())) for name, _, rest in lines]


def instruction(name: str) -> list[str]:
    """Give what stands after an instruction, wherever it comes."""
    return [rest for each, rest in instructions() if each == name]


def commands() -> dict[str, str]:
    """Give all commands that containers and units run, as lines of a shell, by where they stand."""
    found = {}
    for name in ("CMD", "HEALTHCHECK"):
        (text,) = instruction(name)
        found[f"Dockerfile {name}"] = shlex.join(json.loads(text[text.index("[") :]))
    for name, service in compose()["services"].items():
        for key in ("entrypoint", "command"):
            if key in service and "image" in service and service["image"].startswith("pkray"):
                words = [word.replace("$$", "$") for word in service[key]]
                found[f"compose {name} {key}"] = _line(words)
    for path in UNITS:
        lines = unit(path)
        for key in ("ExecStartPre", "ExecStart", "ExecStop"):
            for value in lines.get(key, []):
                found[f"{path.name} {key}"] = value.replace("/opt/pkray/bin/", "")
    console = one(rendered(FULL), "Deployment")["spec"]["template"]["spec"]["containers"][0]
    found["chart console"] = _line([*console["command"], *console["args"]])
    cluster = one(rendered(FULL), "RayCluster")
    for name, template in pod_templates(cluster).items():
        container = template["spec"]["containers"][0]
        found[f"chart {name}"] = _line([*container["command"], *container["args"]])
        if "lifecycle" in container:
            stop = container["lifecycle"]["preStop"]["exec"]["command"]
            found[f"chart {name} preStop"] = _line(stop)
    return found


def _line(words: list[str]) -> str:
    """Write words as a shell has them; of ``bash -c TEXT`` the text."""
    return words[2] if words[:2] == ["bash", "-c"] else shlex.join(words)


def calls(line: str, program: str) -> list[list[str]]:
    """Find the calls of a program in a line of a shell."""
    text = line.replace("\\\n", " ")
    found = re.findall(rf"(?<![\w./-]){program} [^&|;\n'\"]*(?:\"[^\"]*\"[^&|;\n'\"]*)*", text)
    return [shlex.split(each) for each in found]


def is_shell(line: str) -> bool:
    """Whether a shell understands the text."""
    return subprocess.run(["bash", "-n", "-c", line], capture_output=True).returncode == 0
