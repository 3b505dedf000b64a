"""Bookies that do not register again: the wait ends, and says how to start over."""

import json

import pytest

from devstack.errors import DevstackError
from devstack.writer.registration import BOOKIES, TIMEOUT_S, unregistered, wait_until_registered

ID = "{}.pulsar-bookie.pulsar.svc.cluster.local:3181"


class Kubernetes:
    """kubectl at bookies of which each either answers with a list, or does not; and a clock that its sleeps advance."""

    def __init__(self, *answers: dict[str, list[str]]) -> None:
        self.answers = list(answers)
        self.time = 100.0

    def run(self, *arguments: str, **_: float) -> str:
        if "--raw" not in arguments:
            return "NAME              READY\npulsar-bookie-1   0/1\n"
        (pod,) = (pod for pod in BOOKIES if f"/namespaces/pulsar/pods/{pod}:8000/proxy/" in arguments[-1])
        if pod not in self.answers[0]:
            raise DevstackError("kubectl get --raw failed")
        return json.dumps({ID.format(name): None for name in self.answers[0][pod]})

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if len(self.answers) > 1:
            self.answers.pop(0)

    def wait(self, *, again: bool) -> float:
        begin = self.time
        wait_until_registered(self, "pulsar", again=again, now=lambda: self.time, sleep=self.sleep)
        return self.time - begin


@pytest.mark.parametrize(
    ("answers", "missing"),
    [
        ({}, [*BOOKIES]),
        ({BOOKIES[0]: []}, [*BOOKIES]),
        ({BOOKIES[0]: [BOOKIES[0]]}, [BOOKIES[1]]),
        ({BOOKIES[1]: [BOOKIES[1]]}, [BOOKIES[0]]),
        ({BOOKIES[1]: [*BOOKIES]}, []),
    ],
)
def test_a_bookie_is_registered_once_a_bookie_lists_it(answers, missing):
    assert unregistered(Kubernetes(answers), "pulsar") == missing


def test_an_answer_of_another_kind_is_no_list():
    kubernetes = Kubernetes({})
    kubernetes.run = lambda *_, **__: "null"
    assert unregistered(kubernetes, "pulsar") == [*BOOKIES]
    kubernetes.run = lambda *_, **__: "<html>"
    assert unregistered(kubernetes, "pulsar") == [*BOOKIES]


def test_the_wait_ends_once_all_are_registered():
    late = Kubernetes({}, {}, {BOOKIES[0]: [BOOKIES[0]]}, {BOOKIES[0]: [*BOOKIES]})
    assert late.wait(again=True) == 3


def test_bookies_that_do_not_register_again_end_the_wait_with_the_remedy(capsys):
    kubernetes = Kubernetes({BOOKIES[0]: [BOOKIES[0]]})
    with pytest.raises(DevstackError) as caught:
        kubernetes.wait(again=True)
    assert kubernetes.time - 100 == TIMEOUT_S
    assert str(caught.value) == (
        "writer: pulsar-bookie-1 did not register again in the metadata store within 240 s (stock bookies sometimes do not after "
        "a stop of Kubernetes); start over with: make clean-demo, then make demo-kubernetes"
    )
    assert "pulsar-bookie-1   0/1" in caught.value.hint
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("] ")[2] for line in said] == [
        f"waiting for pulsar-bookie-1 to register in the metadata store, {seconds} of at most 240 s"
        for seconds in range(30, 240, 30)
    ]


def test_bookies_of_a_new_cluster_are_not_said_to_have_registered_before():
    kubernetes = Kubernetes({})
    with pytest.raises(
        DevstackError,
        match=r"^writer: pulsar-bookie-0 and pulsar-bookie-1 did not register in the metadata store within 240 s;",
    ):
        kubernetes.wait(again=False)
    assert kubernetes.time - 100 == TIMEOUT_S
