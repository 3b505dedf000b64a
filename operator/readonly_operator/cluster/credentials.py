"""Credentials for a source cluster's admin API: the token and certificates that pools name.

They are read on demand from Secrets and ConfigMaps of the pool's namespace, and cached in memory for a short time. The operator
neither lists nor watches Secrets, and logs nothing of them.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

from readonly_engine.config.access_token import AccessTokenError, ClientCredentials

from readonly_operator.api.pool.authentication import OAUTH2, TOKEN
from readonly_operator.cluster.access_tokens import AccessTokens
from readonly_operator.cluster.fetch import Credentials, FetchError
from readonly_operator.kube.api_server import KubeError
from readonly_operator.kube.http_ports import KeyOf
from readonly_operator.kube.kinds import CONFIG_MAP, SECRET, Kind
from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable

    from readonly_operator.api.pool import Source
    from readonly_operator.api.pool.authentication import OAuth2
    from readonly_operator.api.pool.source import TlsClient
    from readonly_operator.api.secrets import Certificate, TrustedCertificates
    from readonly_operator.kube.api_server import Kube

CACHE_TTL_SECONDS = 30.0
"""How long credentials are cached: a rotated token is used within this time."""


class KeyReader:
    """Read keys of Secrets and ConfigMaps.

    Args:
        kube: the API server.
    """

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    def token(self, namespace: str, at: KeyOf) -> str:
        """Return a token.

        Raises:
            FetchError: it cannot be read, or is none.
        """
        token = self.read(at.kind, namespace, at.name, at.key).decode(errors="replace").strip()
        if not token or not token.isprintable() or not token.isascii():
            raise FetchError(f"key {at.key} of {at.kind.kind} {at.name} is no token")
        return token

    def trust(self, context: ssl.SSLContext, namespace: str, at: KeyOf) -> None:
        """Add authorities to those that a context trusts.

        Raises:
            FetchError: they cannot be read, or are none.
        """
        try:
            context.load_verify_locations(cadata=self.read(at.kind, namespace, at.name, at.key).decode("ascii"))
        except (ssl.SSLError, ValueError):
            raise FetchError(f"key {at.key} of {at.kind.kind} {at.name} has no PEM certificates") from None

    def read(self, kind: Kind, namespace: str, name: str, key: str) -> bytes:
        """Return the value of one key.

        Raises:
            FetchError: it cannot be read (status 403 without the right), or there is none.
        """
        try:
            found = self._kube.get(kind, namespace, name)
        except KubeError as error:
            if error.status != 403:
                raise FetchError(f"{kind.kind} {name} cannot be read: {error}") from None
            raise FetchError(
                f"the operator may not read {kind.kind} {name}; allow it: kubectl create role {OPERATOR}-{name} "
                f"-n {namespace} --verb=get --resource={kind.plural} --resource-name={name}, and bind it to the operator's "
                "service account",
                error.status,
            ) from None
        if found is None:
            raise FetchError(f"there is no {kind.kind} {name} in namespace {namespace}")
        value = (found.get("data") or {}).get(key)
        if value is None:
            raise FetchError(f"{kind.kind} {name} has no key {key}")
        try:
            return base64.b64decode(value, validate=True) if kind == SECRET else value.encode()
        except (binascii.Error, ValueError):
            raise FetchError(f"key {key} of {kind.kind} {name} cannot be decoded") from None


class CredentialsReader:
    """Read the credentials of sources.

    Args:
        kube: the API server.
        clock: seconds, monotonic.
    """

    def __init__(self, kube: Kube, clock: Callable[[], float] = time.monotonic) -> None:
        self._keys = KeyReader(kube)
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = AccessTokens(clock)
        self._known: dict[Source, tuple[float, Credentials]] = {}

    def __call__(self, source: Source) -> Credentials:
        """Return the credentials for a source's admin API.

        Raises:
            FetchError: a Secret or ConfigMap cannot be read, or lacks a valid value.
        """
        now = self._clock()
        with self._lock:
            self._known = {one: known for one, known in self._known.items() if now < known[0]}
            if source in self._known:
                return self._known[source][1]
        token, valid_seconds = self._token(source)
        credentials = Credentials(token, self._context(source), source.namespace, partial(self._reject, source, token))
        with self._lock:
            self._known[source] = now + min(CACHE_TTL_SECONDS, valid_seconds), credentials
        return credentials

    def _token(self, source: Source) -> tuple[str, float]:
        """Return the token of a source, empty for none, and the seconds for which it may be cached."""
        authentication = source.authentication
        if authentication is None:
            return "", CACHE_TTL_SECONDS
        if authentication.type == OAUTH2 and authentication.oauth2 is not None:
            return self._access_token(source.namespace, authentication.oauth2)
        secret = authentication.secret_ref
        if authentication.type != TOKEN or secret is None:
            return "", CACHE_TTL_SECONDS
        return self._keys.token(source.namespace, KeyOf(SECRET, secret.name, secret.key)), CACHE_TTL_SECONDS

    def _reject(self, source: Source, token: str) -> None:
        """Handle a token that the admin API refused: an access token may be revoked long before it expires."""
        authentication = source.authentication
        if authentication is not None and authentication.oauth2 is not None:
            self._tokens.reject(source.namespace, authentication.oauth2, token)

    def _access_token(self, namespace: str, wanted: OAuth2) -> tuple[str, float]:
        secret = wanted.secret_ref
        keys = [secret.key_file] if secret.key_file else [secret.client_id, secret.client_secret]
        texts = [self._keys.read(SECRET, namespace, secret.name, key).decode(errors="replace").strip() for key in keys]
        try:
            found = ClientCredentials.of_key_file(texts[0]) if secret.key_file else ClientCredentials(*texts)
        except AccessTokenError as error:
            raise FetchError(f"Secret {secret.name}: {error}") from None
        context = None
        if wanted.trust_certificates is not None:
            context = strict_context()
            self._keys.trust(context, namespace, _key_of(wanted.trust_certificates))
        return self._tokens.get(namespace, wanted, found, context)

    def _context(self, source: Source) -> ssl.SSLContext | None:
        wanted = None if source.tls is None else source.tls.brokers
        if wanted is None or not source.admin_url.startswith("https://"):
            return None
        return self.tls_context(source.namespace, wanted)

    def tls_context(self, namespace: str, wanted: TlsClient) -> ssl.SSLContext:
        """Return the TLS context of a part of a source.

        Raises:
            FetchError: a Secret or ConfigMap cannot be read (status 403 without the right), or lacks a valid value.
        """
        context = ssl.create_default_context()
        if wanted.trust_certificates is not None:
            context = strict_context()
            self._keys.trust(context, namespace, _key_of(wanted.trust_certificates))
        if wanted.client_certificate is not None:
            self._show(context, namespace, wanted.client_certificate)
        context.check_hostname = wanted.hostname_verification
        return context

    def _show(self, context: ssl.SSLContext, namespace: str, shown: Certificate) -> None:
        pair = [
            self._keys.read(SECRET, namespace, shown.secret_name, key) for key in (shown.certificate, shown.private_key)
        ]
        # the ssl module reads files only, and keys must not reach a disk
        file = os.memfd_create("certificate")
        try:
            os.write(file, b"\n".join(pair))
            context.load_cert_chain(f"/proc/self/fd/{file}")
        except (ssl.SSLError, OSError):
            raise FetchError(f"Secret {shown.secret_name} has no PEM certificate with its own key") from None
        finally:
            os.close(file)


def strict_context() -> ssl.SSLContext:
    """Return a context that trusts no authority yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _key_of(trusted: TrustedCertificates) -> KeyOf:
    if trusted.secret_name:
        return KeyOf(SECRET, trusted.secret_name, trusted.key)
    return KeyOf(CONFIG_MAP, trusted.config_map_name, trusted.key)
