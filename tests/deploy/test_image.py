"""The Dockerfile and the compose file are what their checkers take."""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import yaml

from pkray import logs, tracing
from pkray.service.settings import OTHERS, SETTINGS
from tests.deploy.files import DEPLOY, compose, instruction, instructions

SCRIPTS = Path(sysconfig.get_path("scripts"))


def test_hadolint_finds_nothing_to_remark():
    program = shutil.which("hadolint", path=str(SCRIPTS))
    assert program is not None
    done = subprocess.run([program, DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_builds_is_left_behind():
    stages = [rest for name, rest in instructions() if name == "FROM"]
    assert len(stages) == 2
    assert instruction("COPY")[-1] == "--from=build /opt/pkray /opt/pkray"
    last = [name for name, _ in instructions()]
    assert last.index("USER") > len(last) - last[::-1].index("FROM") - 1


def test_the_compose_file_is_one():
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*check, DEPLOY / "compose.yaml"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


def test_a_wrong_key_in_a_compose_file_is_found(tmp_path):
    wrong = json.loads(json.dumps(compose()))
    wrong["services"]["head"]["depend_on"] = []
    (tmp_path / "compose.yaml").write_text(yaml.safe_dump(wrong))
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*check, tmp_path / "compose.yaml"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "depend_on" in done.stdout


def test_services_wait_for_what_is_there_and_can_become_healthy():
    services = compose()["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, name
            if how["condition"] == "service_healthy":
                ours = "build" in services[other]
                assert ours or "healthcheck" in services[other], other


def test_secrets_are_files_alone():
    secrets = compose()["secrets"]
    assert {tuple(each) for each in secrets.values()} == {("file",)}
    for service in compose()["services"].values():
        assert set(service.get("secrets", [])) <= set(secrets)
    ignored = (DEPLOY.parent / ".gitignore").read_text().splitlines()
    assert "deploy/secrets/" in ignored


@pytest.mark.parametrize("name", ["head", "worker", "spark", "console"])
def test_what_compose_sets_are_settings(name):
    known = {each.variable for each in SETTINGS} | set(OTHERS)
    given = compose()["services"][name]["environment"]
    ours = {key for key in given if key.startswith("PKRAY_")}
    assert ours <= known
    others = {"RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH", "OTEL_EXPORTER_OTLP_ENDPOINT"}
    assert set(given) - ours == others
    assert all(
        str(value).startswith("/run/secrets/")
        for key, value in given.items()
        if key.endswith(("_FILE", "_PATH"))
    )


def test_compose_hands_the_form_of_logs_and_the_collector_on():
    given = compose()["services"]["worker"]["environment"]
    for name, default in ((logs.VARIABLE, "text"), (tracing.VARIABLE, "off")):
        assert given[name] == f"${{{name}:-{default}}}"


def test_images_have_versions():
    images = [each["image"] for each in compose()["services"].values()]
    images += [rest.split()[0] for name, rest in instructions() if name == "FROM"]
    assert all(re.search(r":[\w.-]*\d", each) for each in images), images
