"""docs/reference/operator-features.md: every row once, with a page or a test that exists, and true where the code can tell."""

from __future__ import annotations

import re

import pytest
from readonly_operator.api.crds import DEFINITIONS
from readonly_operator.kube.kinds import CHILDREN, POOL, SECRET, WATCHED

from docsite.__main__ import DOCS
from tests.support.yaml_documents import load_all_yaml

ROOT = DOCS.parent
TEXT = (DOCS / "reference" / "operator-features.md").read_text(encoding="utf-8")
STATUS = (DOCS / "reference" / "status.md").read_text(encoding="utf-8")
ROWS = {
    int(number): (answer, evidence)
    for number, answer, evidence in re.findall(r"^\| (\d+) \| [^|]+ \| (\w+) \| (.+) \|$", TEXT, re.MULTILINE)
}


def answers(answer: str) -> int:
    return sum(one == answer for one, _ in ROWS.values())


def test_every_row_is_there_once_and_counted():
    assert sorted(ROWS) == list(range(1, 52))
    assert len(re.findall(r"^\| \d+ \|", TEXT, re.MULTILINE)) == 51
    assert {answer for answer, _ in ROWS.values()} == {"yes", "partly", "no"}
    counts = tuple(answers(one) for one in ("yes", "partly", "no"))
    assert "Of the 51 features, {} are there, {} are there partly, and {} are not.".format(*counts) in TEXT


@pytest.mark.parametrize("number", sorted(ROWS))
def test_a_row_has_evidence_or_a_reason(number):
    answer, evidence = ROWS[number]
    files = re.findall(r"`((?:tests|\.github)/[\w/.-]+)`", evidence)
    assert [name for name in files if not (ROOT / name).is_file()] == []
    if answer == "yes":
        assert files, "a test"
    else:
        words = re.sub(r"\[[^\]]*\]\([^)]*\)|`[^`]*`", "", evidence)
        assert len(words.split()) >= 6, "a reason"


def test_what_the_definitions_have():
    for definition in DEFINITIONS:
        made = definition.manifest()["spec"]
        for version in made["versions"]:
            assert "status" in version["subresources"]
            assert version["additionalPrinterColumns"]
        assert made["names"]["shortNames"]
        assert made["names"]["categories"]
        assert made["conversion"]["strategy"] == "None"
    assert [one.kind.kind for one in DEFINITIONS if one.scale]
    assert {ROWS[number][0] for number in (1, 2, 5, 6)} == {"yes"}
    assert ROWS[12][0] == "no"


def test_the_status_page_has_all_identities_of_a_pool():
    version = next(one for one in DEFINITIONS if one.kind == POOL).manifest()["spec"]["versions"][-1]
    source = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["source"]["properties"]
    (row,) = re.findall(r"^\| \[identity of a pool\]\S* \| (.+) \|$", STATUS, re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == source["authentication"]["properties"]["type"]["enum"]


def test_what_the_manifests_have():
    files = [*(ROOT / "manifests").rglob("*.yaml"), *(ROOT / "crds").glob("*.yaml")]
    kinds = {body["kind"] for path in files for body in load_all_yaml(path.read_text())}
    assert not [kind for kind in kinds if "Webhook" in kind]
    assert ROWS[11][0] == "no"
    assert {"PodDisruptionBudget", "NetworkPolicy"} <= kinds
    assert SECRET not in WATCHED
    assert ROWS[21][0] == "partly"
    assert {"PodDisruptionBudget", "HorizontalPodAutoscaler", "NetworkPolicy", "PodMonitor"} <= {
        one.kind for one in CHILDREN
    }
