"""The dry run of a write: its transaction always fails at its last operation, and a missing right fails before."""

import asyncio

import pytest
from kazoo.exceptions import (
    InvalidACLError,
    MarshallingError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    RolledBackError,
    RuntimeInconsistency,
)
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError
from readonly_engine.metadata.zookeeper_dry_run import MAX_ATTEMPTS, dry_run

PATH = "/pulsar-readonly/pools/p/brokers/x"


class Transaction:
    def __init__(self, client):
        self.client, self.operations = client, []

    def create(self, path, value, acl, ephemeral):
        self.operations.append(("create", path, ephemeral))

    def set_data(self, path, value):
        self.operations.append(("set", path))

    def delete(self, path):
        self.operations.append(("delete", path))

    def check(self, path, version):
        self.operations.append(("check", path))

    def commit_async(self):
        self.client.committed.append(self.operations)
        return self.client.answer(self.operations)


class Client:
    """ZooKeeper with these nodes; `fail` has the error of an operation, by its number from the end or as ("create", path)."""

    def __init__(self, nodes, fail=None):
        self.nodes, self.fail, self.committed = set(nodes), fail or {}, []

    def transaction(self):
        return Transaction(self)

    def exists_async(self, path):
        return object() if path in self.nodes else None

    def answer(self, operations):
        for index, operation in enumerate(operations):
            error = self.fail.get(operation[:2], NoNodeError() if operation[0] == "check" else None)
            if error is not None:
                return [
                    *(RolledBackError() for _ in operations[:index]),
                    error,
                    *(RuntimeInconsistency() for _ in operations[index + 1 :]),
                ]
        raise AssertionError("the transaction would be applied")


class Requests:
    def __init__(self):
        self.denied = []

    async def call(self, function, *args):
        return function(*args)

    async def denial(self, right, path):
        self.denied.append((right, path))
        return AccessDeniedError(f"{right} on {path}")


def run(client, requests=None):
    asyncio.run(dry_run(requests or Requests(), client, PATH))


def test_every_operation_of_a_broker_is_tried_and_none_is_applied():
    client = Client(["/pulsar-readonly", "/pulsar-readonly/pools"])
    run(client)
    assert client.committed == [
        [
            ("create", "/pulsar-readonly/pools/p", False),
            ("create", "/pulsar-readonly/pools/p/brokers", False),
            ("create", PATH, True),
            ("set", PATH),
            ("delete", PATH),
            ("check", f"{PATH}/never"),
        ]
    ]


@pytest.mark.parametrize("nodes", [[], ["/pulsar-readonly/pools/p/brokers"]])
def test_the_missing_parents_alone_are_created(nodes):
    client = Client(nodes)
    run(client)
    first = client.committed[0][0]
    assert first[1] == ("/pulsar-readonly" if not nodes else PATH)


@pytest.mark.parametrize(
    ("operation", "denied"),
    [
        (("create", "/pulsar-readonly"), ("create", "/pulsar-readonly")),
        (("create", PATH), ("create", PATH)),
        (("set", PATH), ("write", PATH)),
        (("delete", PATH), ("delete", PATH)),
    ],
)
def test_a_missing_right_is_named(operation, denied):
    requests = Requests()
    with pytest.raises(AccessDeniedError):
        run(Client([], {operation: NoAuthError()}), requests)
    assert requests.denied == [denied]


def test_rights_that_zookeeper_does_not_know():
    with pytest.raises(AccessDeniedError, match="metadata-store-node-rights to open"):
        run(Client([], {("create", "/pulsar-readonly"): InvalidACLError()}))


def test_parents_that_another_broker_creates_meanwhile():
    client = Client([], {("create", "/pulsar-readonly"): NodeExistsError()})
    with pytest.raises(MetadataUnavailableError, match="change all the time"):
        run(client)
    assert len(client.committed) == MAX_ATTEMPTS


def test_another_error():
    with pytest.raises(MetadataUnavailableError, match="MarshallingError"):
        run(Client([], {("set", PATH): MarshallingError()}))
