"""What the pages of `deploy/` name is there, and what is there is named."""

import re
from pathlib import Path

import pytest
import yaml

from pkray.service.settings import OTHERS, SETTINGS
from tests.deploy.files import DEPLOY, ROOT

README = (DEPLOY / "README.md").read_text()
VARIABLE = re.compile(r"\bPKRAY_[A-Z][A-Z_]*[A-Z]\b")
KNOWN = {each.variable for each in SETTINGS} | set(OTHERS)


def variables(paths: list[Path]) -> set[str]:
    found = {name for path in paths for name in VARIABLE.findall(path.read_text())}
    return {name for name in found if not name.startswith("PKRAY_TEST")}


def test_the_table_of_settings_is_that_of_the_code():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| (.*?) \| (.*?) \| (.*?) \|$", README, re.M)
    assert rows == [
        (
            each.name,
            each.variable,
            each.kind.allowed,
            "" if each.default is None else f"`{each.default}`",
            each.meaning,
        )
        for each in SETTINGS
    ]


def test_every_variable_of_the_code_is_documented():
    code = variables([*(ROOT / "pkray").rglob("*.py"), ROOT / "pkray/bundled_java/bin/java"])
    assert code <= KNOWN
    assert variables([DEPLOY / "README.md"]) >= code


@pytest.mark.parametrize(
    "path",
    [
        ROOT / "README.md",
        *sorted(path for path in (ROOT / ".docs").rglob("*.md")),
        *sorted(path for path in DEPLOY.rglob("*") if path.is_file()),
        *sorted((ROOT / ".github").rglob("*.*")),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_variable_that_is_written_is_one_of_the_code(path):
    assert variables([path]) <= KNOWN


@pytest.mark.parametrize("page", sorted(DEPLOY.glob("*.md")), ids=lambda path: path.name)
def test_links_lead_to_files(page):
    links = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_file_of_settings_is_one(tmp_path):
    from pkray.service.settings import Settings

    read = Settings.read({"PKRAY_SETTINGS": str(DEPLOY / "pkray.toml")})
    assert read["warehouse"].startswith("s3://")


def test_ray_takes_the_cluster_of_machines():
    from ray.autoscaler._private.util import prepare_config, validate_config

    cluster = yaml.safe_load((DEPLOY / "ray-cluster.yaml").read_text())
    validate_config(prepare_config(cluster))
    assert all((ROOT / path).exists() for path in cluster["file_mounts"].values())
    *_, last = cluster["head_start_ray_commands"]
    assert last.endswith("pkray service start --ray auto")
