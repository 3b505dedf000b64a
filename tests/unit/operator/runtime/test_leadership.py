"""Holding a Lease: what a process does when somebody takes it away."""

import copy
import threading

import pytest
from readonly_operator.kube.api_server import HTTP_CONFLICT, KubeError
from readonly_operator.runtime.leadership import Leadership
from readonly_operator.runtime.lease import Terms

WAIT_SECONDS = 30.0
OTHER = {"holderIdentity": "other", "leaseDurationSeconds": 60}


class Leases:
    """An API server with one Lease."""

    def __init__(self):
        self.body = None
        self.versions = 0

    def get(self, kind, namespace, name):
        return copy.deepcopy(self.body)

    def put(self, manifest):
        said = manifest["metadata"].get("resourceVersion")
        if said != (self.body and self.body["metadata"]["resourceVersion"]):
            raise KubeError("the object has been modified", HTTP_CONFLICT)
        self.write(manifest["spec"])
        return copy.deepcopy(self.body)

    def write(self, spec):
        self.versions += 1
        self.body = {"metadata": {"resourceVersion": str(self.versions)}, "spec": spec}


@pytest.fixture
def leases():
    return Leases()


def leader(leases, seconds, lost):
    made = Leadership(leases, "system", "operator", Terms("me", seconds), lost.set)
    assert made.acquire(threading.Event())
    return made


def test_the_lease_of_another_is_not_given_back(leases):
    held = leader(leases, 3, lost := threading.Event())
    leases.write(OTHER)
    assert lost.wait(WAIT_SECONDS)
    held.release()
    assert leases.body["spec"] == OTHER


def test_the_own_lease_is_given_back(leases):
    leader(leases, 3, threading.Event()).release()
    assert leases.body["spec"]["holderIdentity"] == ""
