"""Whatever a pool's spec may say, the engine takes the configuration that comes of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.config.reader import make_config
from readonly_operator.api.pool import Pool
from readonly_operator.api.pool.authentication import AUDIENCE, SCOPE
from readonly_operator.api.pool.source import ADMIN_URL, METADATA_STORE_URL, SERVICE_URL
from readonly_operator.api.values import SIZE
from readonly_operator.model.configmaps import config_map

from tests.support.yaml_documents import load_yaml

pytestmark = pytest.mark.nightly

LETTERS = st.characters(codec="ascii")


def texts(schema):
    return st.from_regex(schema.pattern, fullmatch=True, alphabet=LETTERS).filter(
        lambda text: len(text) <= schema.longest
    )


def some(**fields):
    return st.fixed_dictionaries({}, optional=fields)


COUNT = st.integers(0, 1_000_000)
RATE = some(messages=st.integers(1, 1_000_000_000), bytes=texts(SIZE)).filter(bool)
SECRET_KEY = st.just({"name": "secret"})
TRUST = st.sampled_from([{"secretName": "ca"}, {"configMapName": "ca", "key": "ca.pem"}])
CERTIFICATE = st.just({"secretName": "tls"})
CLIENT = some(trustCertificates=TRUST, clientCertificate=CERTIFICATE, hostnameVerification=st.booleans())


ACCESS_TOKENS = st.builds(
    lambda optional, secret: {
        "type": "OAuth2",
        "oauth2": {"issuerUrl": "https://issuer:8443/a/", "secretRef": {"name": "oauth2", **secret}, **optional},
    },
    some(audience=texts(AUDIENCE), scope=texts(SCOPE), trustCertificates=TRUST),
    st.sampled_from([{"keyFile": "key"}, {"clientId": "id", "clientSecret": "secret"}]),
)


@st.composite
def specs(draw):
    spec = draw(
        some(
            cache=some(size=texts(SIZE)),
            limits=some(
                maxConnections=COUNT,
                maxConnectionsPerIp=COUNT,
                maxConsumersPerTopic=COUNT,
                maxConsumersPerSubscription=COUNT,
                maxBufferedBytes=texts(SIZE),
                dispatchRatePerSubscription=RATE,
                dispatchRatePerBroker=RATE,
            ),
            lookup=some(unbound=st.sampled_from(["Redirect", "Proxy", "Reject"])),
            locality=some(nodeLabels=st.sampled_from([[], ["zone"], ["region", "zone"]])),
            tieredStorage=some(
                readPriority=st.sampled_from(["TieredStorageFirst", "BookKeeperFirst"]),
                endpoint=st.sampled_from(["http://store:9000", "https://store/"]),
                region=st.just("eu"),
                bucket=st.just("b"),
                credentials=SECRET_KEY,
                filesystemRoot=st.just("/offloaded"),
                cacheSize=st.sampled_from(["4Mi", "1Gi"]),
            ),
            listeners=some(
                tls=st.fixed_dictionaries(
                    {"certificate": CERTIFICATE}, optional={"trustCertificates": TRUST, "peerTrustCertificates": TRUST}
                )
            ),
            logLevel=st.sampled_from(["debug", "info", "warning", "error"]),
            cursors=st.sampled_from(["Owner", "Local"]),
            cursorPartitions=st.integers(1, 1024),
            workers=st.integers(1, 16),
            onDeletion=st.sampled_from(["Keep", "Release"]),
        )
    )
    source = {
        "serviceUrl": draw(texts(SERVICE_URL)),
        "adminUrl": draw(texts(ADMIN_URL)),
        "metadataStoreUrl": draw(texts(METADATA_STORE_URL)),
    } | draw(
        some(
            authentication=st.one_of(st.just({"secretRef": {"name": "reader"}}), ACCESS_TOKENS),
            metadataStoreLogin=some(
                scheme=st.sampled_from(["Sasl", "Digest"]), nodeRights=st.sampled_from(["Creator", "Open"])
            ).map(lambda login: {"secretRef": {"name": "zookeeper"}, **login}),
            bookieLogin=st.just({"secretRef": {"name": "bookies", "key": "pool"}}),
        )
    )
    if source["serviceUrl"].startswith("pulsar+ssl:") or source["adminUrl"].startswith("https:"):
        # The schema refuses brokers elsewhere.
        source["tls"] = draw(some(brokers=CLIENT, bookies=CLIENT, metadataStore=CLIENT))
    return {**spec, "source": source}


@given(specs())
def test_the_engine_takes_the_configuration_of_every_pool(spec):
    pool = Pool.load({"metadata": {"name": "demo", "namespace": "team", "uid": "uid"}, "spec": spec})
    written = load_yaml(config_map(pool)["data"]["engine.yaml"])
    config = make_config(written, {"bindings": "bindings.yaml", "advertised-url": "pulsar://demo-0:6650"})
    assert (config.tls is not None) == (pool.listeners.tls is not None)
    authentication = pool.source.authentication
    oauth2 = None if authentication is None else authentication.oauth2
    assert (config.admin_token_file is not None) == (authentication is not None and oauth2 is None)
    assert (config.admin_oauth2 is not None) == (oauth2 is not None)
    if config.admin_oauth2 is not None and oauth2 is not None:
        assert (config.admin_oauth2.audience, config.admin_oauth2.scope) == (oauth2.audience, oauth2.scope)
        assert (config.admin_oauth2.key_file is not None) == bool(oauth2.secret_ref.key_file)
    login = pool.source.metadata_store_login
    assert (config.metadata_store_login_file is not None) == (login is not None)
    assert login is None or config.metadata_security.created_rights == login.node_rights.lower()
    assert (config.bookie_login_file is not None) == (pool.source.bookie_login is not None)
    assert (config.cursors.capitalize(), config.cursor_partitions) == (pool.cursors, pool.cursor_partitions)
