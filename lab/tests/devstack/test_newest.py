"""Versions in registries beside those of the tests."""

import pytest

from devstack.newest import newest_of, pinned, subjects, table

LISTED = ["v1.29.6", "v1.30.4", "v1.30.14", "v1.36.4", "v1.37.2", "v1.38.0-beta.0"]


@pytest.mark.parametrize(
    ("line", "newest"), [("", "1.37.2"), ("1.30", "1.30.14"), ("1.3", ""), ("1.36", "1.36.4"), ("1.38", "")]
)
def test_the_newest_release_of_a_line_is_no_prerelease(line: str, newest: str) -> None:
    assert newest_of(LISTED, line) == newest


def test_newer_versions_are_marked() -> None:
    rows = table([("Pulsar", "5.0.0-M1", "5.0.1"), ("kopf", "1.44.1", "1.44.1"), ("Oxia", "0.14.0", "")]).splitlines()[
        2:
    ]
    assert rows == [
        "| Pulsar | 5.0.0-M1 | 5.0.1 | newer |",
        "| kopf | 1.44.1 | 1.44.1 |  |",
        "| Oxia | 0.14.0 | none found |  |",
    ]


def test_each_subject_has_the_version_of_the_tests() -> None:
    found = {one.name: one.tested for one in subjects()}
    assert found["Pulsar 4.0"] == "4.0.8"
    assert found["Kubernetes 1.30"].startswith("1.30.")
    assert all(found.values())
    assert pinned("kopf==1.2 \\\n", "kopf") == "1.2"
