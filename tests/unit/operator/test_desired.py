"""What a pool becomes, against golden files.

A change that is meant: UPDATE_GOLDEN=1 pytest tests/unit/operator/test_desired.py, then read the diff.
"""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import pytest
import yaml
from readonly_operator.desired.children import children
from readonly_operator.desired.lookup import LookupConfig
from readonly_operator.settings import Settings

if TYPE_CHECKING:
    from readonly_operator.api.pool import Pool

GOLDEN = pathlib.Path(__file__).parent / "golden"
SETTINGS = Settings(engine_image="pulsar-readonly/engine:1.2.3")
EVERYTHING = {
    "replicas": 3,
    "image": "example/engine:9",
    "imagePullPolicy": "Never",
    "resources": {"requests": {"cpu": 1, "memory": "512Mi"}, "limits": {"memory": "1Gi"}},
    "cache": {"size": "512Mi"},
    "explicitLac": {"management": "Verify", "interval": "200ms"},
}


def _template(pool: Pool, lookup: LookupConfig, settings: Settings = SETTINGS) -> dict:
    return children(pool, lookup, settings)[-1]["spec"]["template"]


@pytest.mark.parametrize(("name", "spec"), [("minimal", {}), ("everything", EVERYTHING)])
def test_children_are_those_of_the_golden_file(make_pool, make_binding, name, spec):
    lookup = LookupConfig.of([make_binding("orders"), make_binding("logs", "persistent://public/default/log-.*")])
    text = yaml.safe_dump_all(children(make_pool(**spec), lookup, SETTINGS), sort_keys=False, width=130)
    path = GOLDEN / f"{name}.yaml"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_same_spec_gives_the_same_pods_whatever_the_bindings(make_pool, make_binding):
    assert _template(make_pool(), LookupConfig.of([])) == _template(make_pool(), LookupConfig.of([make_binding()]))


def test_replicas_and_explicit_lac_do_not_roll_brokers(make_pool):
    lookup = LookupConfig.of([])
    assert _template(make_pool(), lookup) == _template(make_pool(replicas=9, explicitLac={"interval": "1s"}), lookup)


@pytest.mark.parametrize(
    "spec", [{"cache": {"size": "1Gi"}}, {"image": "other:1"}, {"resources": {"limits": {"cpu": 2}}}]
)
def test_what_brokers_read_at_their_start_rolls_them(make_pool, spec):
    lookup = LookupConfig.of([])
    assert _template(make_pool(), lookup) != _template(make_pool(**spec), lookup)


def test_brokers_advertise_themselves_under_the_cluster_domain(make_pool):
    template = _template(make_pool(), LookupConfig.of([]), Settings(engine_image="x", cluster_domain="corp.example"))
    args = template["spec"]["containers"][0]["args"]
    assert args[args.index("--advertised-url") + 1] == (
        "pulsar://$(POD_NAME).demo-headless.$(POD_NAMESPACE).svc.corp.example:6650"
    )


def test_lookup_config_does_not_depend_on_order(make_binding):
    one, two = make_binding("a", "persistent://x/y/1", "persistent://x/y/2"), make_binding("b")
    swapped = make_binding("a", "persistent://x/y/2", "persistent://x/y/1")
    assert LookupConfig.of([one, two]) == LookupConfig.of([two, swapped])


def test_lookup_revision_changes_with_every_content(make_binding):
    revisions = [
        LookupConfig.of(bindings).revision
        for bindings in (
            [],
            [make_binding("a")],
            [make_binding("b")],
            [make_binding("a"), make_binding("b")],
            [make_binding("a", "persistent://x/y/z")],
        )
    ]
    assert len(set(revisions)) == len(revisions)


def test_lookup_revision_is_stable_across_versions(make_binding):
    # brokers of a running pool must not be told of a new revision by a mere upgrade of the operator
    assert LookupConfig.of([]).revision == "r4f53cda18c2baa0c"
    assert LookupConfig.of([make_binding()]).revision == "r163207c9589c0fc5"


def test_the_lookup_file_says_what_the_bindings_say(make_binding):
    lookup = LookupConfig.of([make_binding("b", "persistent://x/y/a.*"), make_binding("a", "persistent://x/y/1")])
    assert yaml.safe_load(lookup.yaml()) == {
        "revision": lookup.revision,
        "bindings": [
            {"name": "team/a", "topics": ["persistent://x/y/1"]},
            {"name": "team/b", "topics": ["persistent://x/y/a.*"]},
        ],
    }
