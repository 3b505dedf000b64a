"""Generate docs/reference/support.md from what the project's files pin, and what CI therefore runs."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Final

from devstack.clients.versions import CLIENTS
from devstack.pulsar.assembled import assembled_versions
from devstack.pulsar.java import needed_java
from devstack.pulsar.spec import STOCK_VERSION
from docsite.markdown import NOTE, table

ROOT: Final = Path(__file__).resolve().parents[2]

HEAD: Final = f"""# Support

{NOTE}

"""
PROMISES: Final = """

## Promises
- **Tested means tested in CI.** A version is in the table above if each change of the project runs on it. `whole` is the whole test suite,
  `in short` is each subscription type with the owner's and with local cursors. [Releases of Pulsar](releases.md) has the results of the long suites.
- **Other versions** of the same major release are expected to work, and reports about them are welcome. Pulsar before 4.0 and BookKeeper
  before 4.16 are not supported.
- **Pulsar.** A new long-term release is added when Maven Central has its servers. A release stays as long as its own project mends
  it: 4.0 until October 2027.
- **Operator and brokers.** A pool's brokers have the version of its operator. The configuration that an operator writes is read by
  brokers of the same version only.
- **API.** Fields are only added within a version. [API versions](api-versions.md) has the promise, and how long a version stays.
- **Data.** Local cursors, export checkpoints and records below `/pulsar-readonly` of a version are read by the next one.
"""


def page() -> str:
    """Return the whole page, Markdown."""
    return HEAD + table(("subject", "version", "tests in CI"), _rows()) + PROMISES


def _rows() -> list[list[str]]:
    rows = [["Pulsar", STOCK_VERSION, "whole"]]
    rows += [["Pulsar", version, "in short"] for version in assembled_versions()]
    rows += [
        [
            "Java of the servers",
            f"{needed_java(STOCK_VERSION)} or newer; {needed_java('5')} or newer for 5.0",
            "as the Pulsar",
        ]
    ]
    rows += [
        ["BookKeeper", "that of each Pulsar: 4.17.2, 4.17.3, 4.18.2", "as the Pulsar"],
        ["metadata store", "ZooKeeper, that of each Pulsar: 3.9.4, 3.9.5", "as the Pulsar"],
        ["metadata store", f"Oxia {_go_module('lab/devstack/oxia/src', 'github.com/oxia-db/oxia')}", "in short"],
        ["Kubernetes", _go_module("lab/devstack/kube/src/kube", "k8s.io/kubernetes"), "whole"],
        [
            "Kubernetes",
            _go_module("lab/devstack/kube/src/kube-oldest", "k8s.io/kubernetes"),
            "none; now and then whole",
        ],
        ["Python", f"3.11 ({python_versions()} is allowed)", "whole"],
        ["Python", ", ".join(_matrix_versions()[1:]), "unit tests"],
        ["Spark", f"{_locked('spark', 'pyspark')}, with Java 17", "whole"],
    ]
    rows += [[f"{one.language.capitalize()} client", one.version, "whole"] for one in CLIENTS]
    return [*rows, ["processors", "x86-64", "whole"], ["processors", "arm64", "none"]]


def _matrix_versions() -> list[str]:
    """Return the versions of Python whose unit tests CI runs, the oldest first."""
    workflow = (ROOT / ".github" / "workflows" / "ci.yaml").read_text(encoding="utf-8")
    (found,) = re.findall(r"matrix: \{python: \[(.*?)\]\}", workflow)
    return re.findall(r"[\d.]+", found)


def _go_module(folder: str, module: str) -> str:
    """Return the version of a module that a folder's go.mod pins."""
    text = (ROOT / folder / "go.mod").read_text(encoding="utf-8")
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} v(\S+)", text, re.MULTILINE)
    assert found is not None, f"{folder}/go.mod does not pin {module}"
    return found[1]


def _locked(name: str, package: str) -> str:
    """Return the version of a package that requirements/NAME.txt locks."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    found = re.search(rf"^{re.escape(package)}==(\S+)", text, re.MULTILINE)
    assert found is not None, f"requirements/{name}.txt does not lock {package}"
    return found[1]


def python_versions() -> str:
    """Return the versions of Python that pyproject.toml allows, such as `>=3.11`."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["requires-python"])
