from pathlib import Path

import pytest
import yaml

from devstack.demo.run import EXAMPLES
from devstack.errors import DevstackError
from devstack.images import targets
from devstack.writer.cluster import Home, WriterSpec, WriterStatus, render
from devstack.writer.image.apply_config import apply
from tests.support.yaml_documents import load_all_yaml

PROJECT = Path(__file__).resolve().parents[3]
STORES = ("metadataStoreUrl", "bookkeeperMetadataStoreUrl")


def test_select_one_all_or_none() -> None:
    assert [target.name for target in targets.select("engine")] == ["engine"]
    assert [target.name for target in targets.select("all")] == ["engine", "operator", "client", "pulsar"]
    assert [target.name for target in targets.select("spark")] == ["spark"]  # big, and only on request
    with pytest.raises(
        DevstackError, match="TARGET must be all or one of engine, operator, spark, client, pulsar, oxia, not x"
    ):
        targets.select("x")


def test_images_are_named_in_part_or_in_full() -> None:
    assert targets.by_image("engine") == "localhost/pulsar-readonly/engine:dev"
    assert targets.by_image("pulsar-readonly/engine:dev") == "localhost/pulsar-readonly/engine:dev"
    assert targets.by_image("localhost/a:b") == "localhost/a:b"
    assert targets.by_image("a") == "localhost/a:latest"
    assert targets.TARGETS["pulsar"].image("x") == "localhost/pulsar-readonly/pulsar:x"


def test_an_images_key_follows_its_base_and_its_inputs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "PROJECT", tmp_path)
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    (tmp_path / "Dockerfile").write_text("FROM scratch")
    (tmp_path / "src" / "a.py").write_text("a")
    target = targets.Target("t", "dev", tmp_path / "Dockerfile", None, (tmp_path / "src",), lambda: None)  # type: ignore[arg-type, return-value]
    key = target.key("base")
    assert key == target.key("base")
    (tmp_path / "src" / "__pycache__" / "a.pyc").write_text("compiled")
    assert key == target.key("base")
    assert key != target.key("another base")
    (tmp_path / "src" / "a.py").rename(tmp_path / "src" / "b.py")
    assert key != target.key("base")


def test_every_input_of_the_images_is_let_into_the_build() -> None:
    let_in = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for line in (PROJECT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from=" not in line:
            for source in line.split()[1:-1]:
                assert source.split("/")[0].replace("[s]", "s") in let_in, line  # jar[s] may be missing


def documents(name: str, spec: WriterSpec) -> list[dict]:
    return list(load_all_yaml(render(name, spec, "localhost/p:1", Home("node1", "/data/x"))))


@pytest.mark.parametrize("metadata", ["zookeeper", "oxia"])
def test_the_writer_is_named_as_pulsars_helm_chart_names_it(metadata: str) -> None:
    spec = WriterSpec(namespace="w", brokers=1, explicit_lac_ms=250, metadata=metadata)
    broker = {document["kind"]: document for document in documents("broker", spec)}
    assert {kind: document["metadata"]["name"] for kind, document in broker.items()} == {
        "ConfigMap": "pulsar-broker",
        "Service": "pulsar-broker",
        "StatefulSet": "pulsar-broker",
    }
    assert {document["metadata"]["namespace"] for document in broker.values()} == {"w"}
    assert broker["ConfigMap"]["data"]["PULSAR_PREFIX_bookkeeperExplicitLacIntervalInMills"] == "250"
    assert broker["StatefulSet"]["spec"]["replicas"] == 1
    for name in (spec.metadata, "bookkeeper", "broker", "init"):
        for document in documents(name, spec):
            assert "${" not in yaml.safe_dump(document)
            values = document.get("data", {}).values()
            assert all(isinstance(value, str) for value in values), "a ConfigMap holds strings only"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"brokers": 3}, "--brokers must be between 1 and 2, not 3"),
        ({"brokers": 0}, "--brokers must be between 1 and 2, not 0"),
        ({"metadata": "migration"}, "METADATA must be zookeeper or oxia for a demo, not migration"),
        ({"explicit_lac_ms": -1}, r"--explicit-lac-ms must be between 0 \(off\) and 60000, not -1"),
    ],
)
def test_a_bad_option_of_the_writer_is_named(arguments: dict, message: str) -> None:
    with pytest.raises(DevstackError, match=message):
        WriterSpec(**arguments)


def test_the_writer_is_up_when_all_that_is_wanted_is_ready() -> None:
    def status(ready: dict[str, int], wanted: dict[str, int]) -> WriterStatus:
        return WriterStatus("n", ready, wanted, "s", "a", "m", "b")

    assert status({"x": 2}, {"x": 2}).up
    assert not status({"x": 1}, {"x": 2}).up
    assert not status({}, {}).up


CONF = """# comment
zkServers=old
#advertisedAddress=
# a=b in words is no key of ours
twice=1
#twice=2
last=x"""


def test_environment_replaces_keys_of_the_file_and_adds_only_with_the_prefix() -> None:
    applied = apply(CONF, {"zkServers": "", "advertisedAddress": "me", "unknown": "1", "PULSAR_PREFIX_added": "v"})
    assert applied == CONF.replace("zkServers=old", "zkServers=").replace(
        "#advertisedAddress=", "advertisedAddress=me"
    ) + ("\nadded=v\n")


def test_a_live_key_is_replaced_where_it_stands_and_its_comment_stays() -> None:
    applied = apply(CONF, {"PULSAR_PREFIX_twice": "3", "last": "y"})
    assert "twice=3\n#twice=2\nlast=y\n" in applied


def test_bookies_and_brokers_use_the_metadata_store_of_the_spec() -> None:
    def settings(metadata: str) -> tuple[str, str, str]:
        spec = WriterSpec(metadata=metadata)
        broker, bookie = (
            next(one["data"] for one in documents(name, spec) if one["kind"] == "ConfigMap")
            for name in ("broker", "bookkeeper")
        )
        return (
            broker["PULSAR_PREFIX_metadataStoreUrl"],
            broker["PULSAR_PREFIX_bookkeeperMetadataServiceUri"],
            bookie["metadataServiceUri"],
        )

    zookeeper = "zk:pulsar-zookeeper:2181"
    assert settings("zookeeper") == (zookeeper, "", f"metadata-store:{zookeeper}")
    bookies = "metadata-store:oxia://pulsar-oxia:6648/bookkeeper"
    assert settings("oxia") == ("oxia://pulsar-oxia:6648/broker", bookies, bookies)


def test_the_two_quickstarts_differ_in_the_metadata_store_only() -> None:
    def parsed(path: Path) -> tuple[list[dict], dict]:
        pool, binding = load_all_yaml(path.read_text())
        stores = {key: pool["spec"]["source"].pop(key, None) for key in STORES}
        return [pool, binding], stores

    found = {metadata: parsed(path) for metadata, path in EXAMPLES.items()}
    assert found["zookeeper"][0] == found["oxia"][0]
    for metadata, (_, stores) in found.items():
        spec, domain = WriterSpec(metadata=metadata), ".pulsar.svc.cluster.local"
        bookies = spec.metadata_store(domain, "bookkeeper") if metadata == "oxia" else None
        assert stores == dict(zip(STORES, (spec.metadata_store(domain), bookies), strict=True))
