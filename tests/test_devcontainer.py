"""The development container sets up what the Makefile, CI and pyproject.toml name."""

import json
import re
import tomllib

import ruamel.yaml

from carry.config import paths

SETTINGS = json.loads((paths.ROOT / ".devcontainer/devcontainer.json").read_text("utf-8"))
MAKEFILE = (paths.ROOT / "Makefile").read_text("utf-8")
EDITOR = SETTINGS["customizations"]["vscode"]


def test_its_python_is_supported():
    project = tomllib.loads((paths.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    image, version = SETTINGS["image"].split(":")
    assert image == "mcr.microsoft.com/devcontainers/python"
    versions = re.findall(r"\d+\.(\d+)", project["requires-python"])  # ">=3.11,<3.14"
    assert int(versions[0]) <= int(version.removeprefix("3.")) < int(versions[1])


def test_it_runs_a_target_of_the_makefile_and_waits_for_it():
    command, target = SETTINGS["postCreateCommand"].split()
    assert command == "make" and re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    assert SETTINGS["waitFor"] == "postCreateCommand", "else a notebook opens without its kernel"


def test_packages_come_from_where_ci_has_them():
    workflow = ruamel.yaml.YAML().load(paths.ROOT / ".github/workflows/ci.yml")
    assert SETTINGS["containerEnv"] == workflow["env"]


def test_the_editor_has_the_environment_and_opens_a_notebook_that_exists():
    venv = re.search(r"^VENV \?= (\S+)$", MAKEFILE, re.MULTILINE)[1]
    interpreter = EDITOR["settings"]["python.defaultInterpreterPath"]
    assert interpreter == f"${{containerWorkspaceFolder}}/{venv}/bin/python"
    assert {"ms-python.python", "ms-toolsai.jupyter"} <= {*EDITOR["extensions"]}
    for name in SETTINGS["customizations"]["codespaces"]["openFiles"]:
        assert (paths.ROOT / name).is_file()


def test_the_port_of_jupyterlab_is_forwarded():
    assert SETTINGS["forwardPorts"] == [8888], "the default of `jupyter lab`, which `make lab` runs"
    assert re.search(r"\tJUPYTER_PATH= jupyter lab (?!.*--port)", MAKEFILE)
    assert [*SETTINGS["portsAttributes"]] == ["8888"]
