"""References to Secrets (and ConfigMaps, for public data) with certificates, keys and credentials, in the pool's namespace.

Brokers read them as mounted files, never as environment variables or arguments, and read changed files again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Rule, declare
from readonly_operator.api.values import DATA_KEY, OBJECT_NAME


@dataclass(frozen=True, slots=True)
class SecretKey:
    """One key of a Secret.

    Attributes:
        name: of the Secret.
        key: in it.
    """

    name: str = field(
        metadata=declare(OBJECT_NAME, "A Secret of the pool's namespace.", required="give the name of a Secret")
    )
    key: str = field(default="token", metadata=declare(DATA_KEY, "Key of the Secret."))


@dataclass(frozen=True, slots=True)
class CredentialsKey:
    """One key of a Secret with credentials.

    Attributes:
        name: of the Secret.
        key: in it.
    """

    name: str = field(
        metadata=declare(OBJECT_NAME, "A Secret of the pool's namespace.", required="give the name of a Secret")
    )
    key: str = field(default="credentials", metadata=declare(DATA_KEY, "Key of the Secret."))


@dataclass(frozen=True, slots=True)
class LoginKey:
    """One key of a Secret with a login.

    Attributes:
        name: of the Secret.
        key: in it.
    """

    name: str = field(
        metadata=declare(OBJECT_NAME, "A Secret of the pool's namespace.", required="give the name of a Secret")
    )
    key: str = field(default="login", metadata=declare(DATA_KEY, "Key of the Secret, whose value is USER:PASSWORD."))


@dataclass(frozen=True, slots=True)
class TrustedCertificates:
    """Certificates of authorities, in a Secret or a ConfigMap.

    Attributes:
        secret_name: empty for a ConfigMap.
        config_map_name: empty for a Secret.
        key: in it.
    """

    RULES = (
        Rule(
            "has(self.secretName) != has(self.configMapName)",
            "must have either secretName or configMapName, and not both",
        ),
    )

    secret_name: str = field(
        default="",
        metadata=declare(
            OBJECT_NAME, "A Secret of the pool's namespace with the certificates. Without it, configMapName is given."
        ),
    )
    config_map_name: str = field(
        default="",
        metadata=declare(
            OBJECT_NAME, "A ConfigMap of the pool's namespace with the certificates. Without it, secretName is given."
        ),
    )
    key: str = field(default="ca.crt", metadata=declare(DATA_KEY, "Key of the certificates, as PEM."))


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its private key, in a Secret as cert-manager and `kubectl create secret tls` create it.

    Attributes:
        secret_name: the Secret.
        certificate: key of the certificate.
        private_key: key of the private key.
    """

    secret_name: str = field(
        metadata=declare(
            OBJECT_NAME,
            "A Secret of the pool's namespace, of type kubernetes.io/tls for example.",
            required="give the name of a Secret with a certificate and its private key",
        )
    )
    certificate: str = field(
        default="tls.crt", metadata=declare(DATA_KEY, "Key of the certificate and its chain, as PEM.")
    )
    private_key: str = field(
        default="tls.key", metadata=declare(DATA_KEY, "Key of the private key, as PEM without a password.")
    )
