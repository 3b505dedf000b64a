"""Lock files: what is installed anywhere is what the tests run with."""

from devstack.release import lockfile
from longtests.spark_versions import REQUIREMENTS

LOCKS = sorted(set(REQUIREMENTS.glob("*.txt")) - set(REQUIREMENTS.glob("spark-*.txt")))
"""All but those whose purpose is another version."""


def test_each_package_has_one_version_in_all_files():
    found: dict[str, dict[str, list[str]]] = {}
    for path in LOCKS:
        for one in lockfile.read(path).values():
            found.setdefault(one.name, {}).setdefault(one.version, []).append(path.name)
    assert len(LOCKS) == 8
    assert {name: versions for name, versions in found.items() if len(versions) > 1} == {}, "make -C lab lock"


def test_no_file_names_an_index():
    assert [path.name for path in REQUIREMENTS.glob("*.txt") if "://" in path.read_text()] == []
