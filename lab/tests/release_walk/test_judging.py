"""The judgement of a walk: lost messages, what is left, and what was pulled are each found."""

import json
from collections import Counter

import pytest
from readonly_engine import native

from devstack.errors import DevstackError
from devstack.registry.server import Request
from longtests.release_walk import judging
from longtests.release_walk.cluster import Cluster, check_program, ours, pulled
from longtests.release_walk.judging import Losses, Sent
from longtests.release_walk.walk import check_version, wrong_containers


def log(*lines: dict) -> str:
    return "client's own line\n" + "".join(f"{json.dumps(one)}\n" for one in lines)


def got(subscription: str, *numbers: int) -> list[dict]:
    return [{"subscription": subscription, "number": number} for number in numbers]


def test_the_last_line_of_a_publisher_counts():
    assert judging.sent("") == Sent()
    running = log({"ready": True}, {"sent": 20, "failed": 0}) + '{"sent": 4'
    assert judging.sent(running) == Sent(20)
    assert judging.sent(log({"sent": 20, "failed": 0}, {"sent": 31, "failed": 1, "ended": True})) == Sent(
        31, 1, ended=True
    )
    assert judging.is_ready(running)
    assert not judging.is_ready(log({"sent": 1}))


def test_messages_of_both_pods_count_together():
    found = judging.received(log(*got("a", 0, 1), *got("b", 0)), log(*got("a", 1, 2)))
    assert found == {"a": Counter({0: 1, 1: 2, 2: 1}), "b": Counter({0: 1})}
    assert judging.newest(found) == 2
    assert judging.newest({}) == -1


def test_every_message_must_have_come_to_every_subscription():
    found = judging.losses(3, judging.received(log(*got("a", 0, 1, 2, 2), *got("b", 0, 2, 7))), ["a", "b", "c"])
    assert found["a"] == Losses(received=3, lost=(), again=(2,), unknown=())
    assert found["b"] == Losses(received=2, lost=(1,), again=(), unknown=(7,))
    assert found["c"] == Losses(received=0, lost=(0, 1, 2), again=(), unknown=())
    wrong = judging.verdicts(found, 3, 0)
    assert wrong == [
        "b: 1 of 3 messages lost, such as (1,)",
        "b: 1 messages that nobody published, such as (7,)",
        "c: 3 of 3 messages lost, such as (0, 1, 2)",
    ]


def test_a_run_without_messages_or_receipts_proves_nothing():
    assert judging.verdicts(judging.losses(0, {}, ["a"]), 0, 0) == ["no message was published"]
    assert judging.verdicts({}, 5, 2) == ["2 of 5 messages were not published"]
    assert judging.verdicts(judging.losses(1, {"a": Counter({0: 3})}, ["a"]), 1, 0) == []


LISTED = """Connecting to localhost:2181
12:00:00.000 [main] INFO org.apache.zookeeper - Client environment:java.io.tmpdir=/tmp
/
/admin
/admin/clusters/pulsar
/administrators
/ledgers/available
/pulsar-readonly
/pulsar-readonly/pools/demo/brokers/pulsar%3A%2F%2Fdemo-0
/pulsar-readonly/pools/demo/claims
"""


def test_nodes_of_the_metadata_store_are_those_that_a_pool_could_leave():
    found = judging.znodes(LISTED)
    assert found == {
        "/admin",
        "/admin/clusters/pulsar",
        "/pulsar-readonly",
        "/pulsar-readonly/pools/demo/brokers/pulsar%3A%2F%2Fdemo-0",
        "/pulsar-readonly/pools/demo/claims",
    }
    assert judging.live(found, "demo") == ["/pulsar-readonly/pools/demo/brokers/pulsar%3A%2F%2Fdemo-0"]
    assert judging.live(found, "dem") == []


def test_what_is_left_and_what_is_gone():
    before, after = {"/admin", "/admin/x"}, {"/admin", "/pulsar-readonly", "/pulsar-readonly/pools/demo"}
    assert judging.left(before, after, judging.KEPT) == ["/pulsar-readonly/pools/demo", "gone: /admin/x"]
    assert judging.left(after, after) == []


def test_objects_are_compared_by_kind_namespace_and_name():
    shown = "Pod         pulsar   pulsar-bookie-0\nNamespace   <none>   pulsar\n\n"
    assert judging.objects(shown) == {"Pod pulsar pulsar-bookie-0", "Namespace <none> pulsar"}


def test_consumers_of_brokers_are_found_by_their_metadata():
    consumers = [{"consumerName": "x", "metadata": {"pulsar-readonly.pool": "demo"}}, {"metadata": {"team": "a"}}]
    assert judging.marks({"subscriptions": {"a": {"consumers": consumers}, "b": {}}}) == ["a: x"]
    assert judging.marks({}) == []


PREFIX = "10.202.0.1:15000/team"


def test_images_of_the_walk_are_known_by_name_id_and_digest():
    names = [
        f"{PREFIX}/a:1",
        "sha256:id",
        "localhost/a@sha256:manifest",
        "localhost/a:1",
        "sha256:other",
        "10.202.0.1:15000/b",
    ]
    assert ours(names, {"sha256:id", "sha256:manifest"}, PREFIX) == [
        f"{PREFIX}/a:1",
        "localhost/a@sha256:manifest",
        "sha256:id",
    ]


def test_only_what_containerd_fetched_was_pulled():
    path = "/v2/team/a/blobs/sha256:"
    requests = [
        Request("GET", f"{path}1", 200, "containerd/v2.3.7"),
        Request("GET", f"{path}2?ns=x", 206, "containerd/v2.3.7"),
        Request("HEAD", f"{path}3", 200, "containerd/v2.3.7"),
        Request("GET", f"{path}4", 404, "containerd/v2.3.7"),
        Request("GET", f"{path}5", 200, "Buildah/1.28.2"),
        Request("GET", "/v2/team/ab/blobs/sha256:6", 200, "containerd/v2.3.7"),
    ]
    assert pulled(requests, "team/a") == {"sha256:1", "sha256:2"}


def test_pods_must_run_images_of_the_registry_that_may_be_pulled():
    def pod(image: str, policy: str = "IfNotPresent") -> dict:
        container = {"image": image, "imagePullPolicy": policy}
        return {"metadata": {"name": "p"}, "spec": {"containers": [container]}}

    assert wrong_containers([pod(f"{PREFIX}/a:1")], PREFIX) == []
    assert wrong_containers([pod("localhost/a:1")], PREFIX) == ["p has localhost/a:1, pulled IfNotPresent"]
    assert wrong_containers([pod(f"{PREFIX}/a:1", "Never")], PREFIX) == [f"p has {PREFIX}/a:1, pulled Never"]
    assert wrong_containers([], PREFIX) == ["there is no pod"]


SAID = f"""pulsar-readonly 0.1.0
commit: cccc
Python: 3.11.2
native modules: {", ".join(native.MODULES)}
"""


def test_the_wheel_must_have_version_commit_and_all_modules():
    check_version(SAID, "0.1.0", "cccc")
    with pytest.raises(DevstackError, match=r"does not say pulsar-readonly 0\.2\.0"):
        check_version(SAID, "0.2.0", "cccc")
    with pytest.raises(DevstackError, match="does not say commit: dddd"):
        check_version(SAID, "0.1.0", "dddd")
    last = native.MODULES[-1]
    without = SAID.replace(f", {last}", f"; not loaded: {last}")
    with pytest.raises(DevstackError, match="does not say native modules: "):
        check_version(without, "0.1.0", "cccc")


@pytest.mark.parametrize("number", [0, 5])
def test_the_number_of_the_cluster_is_checked(number):
    with pytest.raises(DevstackError, match=f"--cluster must be a number from 1 to 4, not {number}"):
        Cluster(number, 15000)


def test_the_registry_is_where_the_nodes_reach_it():
    assert Cluster(3, 15000).prefix == PREFIX


def test_a_missing_program_is_named(tmp_path):
    with pytest.raises(DevstackError, match=r"the walk needs kubectl: the program .*kubectl is missing"):
        check_program(str(tmp_path / "kubectl"))
