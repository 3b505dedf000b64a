"""ReadOnlyBrokerPool: spec.source.authentication, the pool's own identity at the source cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from readonly_operator.api.schema import Choice, Nested, Rule, Text, declare
from readonly_operator.api.secrets import SecretKey, TrustedCertificates
from readonly_operator.api.values import DATA_KEY, HOST_PORT, OBJECT_NAME

TOKEN = "Token"  # noqa: S105 (the name of a type)
OAUTH2 = "OAuth2"
TLS = "Tls"

ISSUER_URL = Text(
    512,
    rf"https?://{HOST_PORT}(/[A-Za-z0-9._~/-]*)?",
    "must be https://HOST[:PORT][/PATH] without user, query and fragment, for example https://issuer.example.com/realms/pulsar",
)
AUDIENCE = Text(512, "[!-~]+", "must be printable ASCII without blanks, for example urn:pulsar:orders")
SCOPE = Text(512, "[!-~]+( [!-~]+)*", "must be scopes of printable ASCII, separated by single blanks")


@dataclass(frozen=True, slots=True)
class OAuth2Secret:
    """Secret with the credentials of a client: a key file of stock clients, or id and secret.

    Attributes:
        name: of the Secret.
        key_file: key of the key file; empty for id and secret.
        client_id: key of the client id; empty for a key file.
        client_secret: key of the client secret; empty for a key file.
    """

    RULES = (
        Rule(
            "has(self.keyFile) ? !has(self.clientId) && !has(self.clientSecret) : has(self.clientId) && "
            "has(self.clientSecret)",
            "must have either keyFile, or clientId and clientSecret: the keys of the Secret with them",
        ),
    )

    name: str = field(
        metadata=declare(OBJECT_NAME, "A Secret of the pool's namespace.", required="give the name of a Secret")
    )
    key_file: str = field(
        default="",
        metadata=declare(
            DATA_KEY,
            "Key of a JSON text with client_id and client_secret, as the stock clients' AuthenticationOAuth2 reads it. "
            "Without it, clientId and clientSecret are given.",
        ),
    )
    client_id: str = field(
        default="", metadata=declare(DATA_KEY, "Key of the client id. Without it, keyFile is given.")
    )
    client_secret: str = field(
        default="", metadata=declare(DATA_KEY, "Key of the client secret. Without it, keyFile is given.")
    )


@dataclass(frozen=True, slots=True)
class OAuth2:
    """Access tokens by client credentials.

    Attributes:
        issuer_url: issuer, below which the token endpoint is discovered.
        secret_ref: Secret with the client's credentials.
        audience: audience of the tokens; empty for none.
        scope: scopes of the tokens; empty for none.
        trust_certificates: authorities of the issuer; None for those that the image trusts.
    """

    issuer_url: str = field(
        metadata=declare(
            ISSUER_URL,
            "Issuer of the tokens. Its document /.well-known/openid-configuration names the token endpoint.",
            required="give the issuer of the tokens, for example https://issuer.example.com/realms/pulsar",
        )
    )
    secret_ref: OAuth2Secret = field(
        metadata=declare(
            Nested(OAuth2Secret),
            "Secret with the client's credentials. Changed credentials are used at once.",
            required="say which Secret has the credentials, for example secretRef: {name: pulsar-oauth2, keyFile: key.json}",
        )
    )
    audience: str = field(
        default="", metadata=declare(AUDIENCE, "Audience of the tokens. Without it, none is requested.")
    )
    scope: str = field(default="", metadata=declare(SCOPE, "Scopes of the tokens. Without it, none is requested."))
    trust_certificates: TrustedCertificates | None = field(
        default=None,
        metadata=declare(
            Nested(TrustedCertificates),
            "Authorities of the certificates of issuer and token endpoint. Without it, those that the image trusts.",
        ),
    )


@dataclass(frozen=True, slots=True)
class Authentication:
    """The pool's own identity. Brokers pass clients' credentials on.

    Attributes:
        type: TOKEN, OAUTH2 or TLS.
        secret_ref: Secret with the token; None for other types.
        oauth2: access tokens; None for other types.
    """

    RULES = (
        Rule(
            "has(self.secretRef) || (has(self.type) && self.type != 'Token')",
            "say which Secret has the token, for example secretRef: {name: pulsar-readonly-token, key: token}",
            ".secretRef",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.secretRef) || !has(self.type) || self.type == 'Token'",
            "can be given only when type is Token: the Secret of type OAuth2 is oauth2.secretRef, that of type Tls is "
            "tls.brokers.clientCertificate",
            ".secretRef",
        ),
        Rule(
            "has(self.oauth2) || !has(self.type) || self.type != 'OAuth2'",
            "say where the tokens come from when type is OAuth2, with issuerUrl and secretRef",
            ".oauth2",
            "FieldValueRequired",
        ),
        Rule(
            "!has(self.oauth2) || (has(self.type) && self.type == 'OAuth2')",
            "can be given only when type is OAuth2",
            ".oauth2",
        ),
    )

    secret_ref: SecretKey | None = field(
        default=None,
        metadata=declare(
            Nested(SecretKey), "Secret with the token, for type Token. Brokers read a changed token again."
        ),
    )
    type: str = field(
        default=TOKEN,
        metadata=declare(
            Choice((TOKEN, OAUTH2, TLS)),
            "Token: a JSON Web Token, sent to the admin API as a bearer token. OAuth2: the same with access tokens of an "
            "OAuth 2.0 server, which are renewed before they expire. Tls: the certificate tls.brokers.clientCertificate.",
        ),
    )
    oauth2: OAuth2 | None = field(
        default=None, metadata=declare(Nested(OAuth2), "Access tokens by client credentials, for type OAuth2.")
    )
