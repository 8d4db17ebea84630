"""Who speaks over HTTP: verifies the bearer token of a request, and names the principal of a call."""

import hmac
import json
from typing import Any

from fastmcp.server.auth import AccessToken, TokenVerifier
from fastmcp.server.dependencies import get_access_token

from qk_mcp.errors import IssuerUnusable

__all__ = ["StaticToken", "current_principal", "jwt_verifier"]

_WAIT = 10.0
"""Seconds in which an identity provider must answer."""
_DISCOVERY = ("/.well-known/openid-configuration", "/.well-known/oauth-authorization-server")
"""OpenID Connect Discovery 1.0, and RFC 8414."""
_ALGORITHM = "RS256"
_ASYMMETRIC = ("RS", "ES", "PS", "Ed")
_LARGEST = 1 << 20
"""Bytes of an identity provider's description at most."""


class StaticToken(TokenVerifier):
    """Accepts one token. Everybody who has it is the same principal."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the access that `token` gives, or None. Takes the same time for every wrong token."""
        if not hmac.compare_digest(token.encode("utf-8", "surrogatepass"), self._token):
            return None
        return AccessToken(token=token, client_id="token", scopes=[])


def jwt_verifier(issuer: str, audience: str) -> TokenVerifier:
    """Return a verifier of JSON Web Tokens that `issuer` signs for `audience`. Raises IssuerUnusable.

    Where the keys are is in the issuer's own description (OpenID Connect Discovery 1.0 or RFC 8414).
    """
    from fastmcp.server.auth.providers.jwt import JWTVerifier

    description = _describe(issuer)
    if description.get("issuer") != issuer or not isinstance(keys := description.get("jwks_uri"), str):
        why = "Its description names the issuer {issuer!r} and the keys {jwks_uri!r}.".format_map(
            {"issuer": None, "jwks_uri": None} | description
        )
        raise IssuerUnusable(issuer, why)
    offered = [str(name) for name in description.get("id_token_signing_alg_values_supported") or [_ALGORITHM]]
    usable = [name for name in offered if name.startswith(_ASYMMETRIC)]
    if not usable:
        raise IssuerUnusable(issuer, f"It signs with {', '.join(offered)}, not with a public key.")
    algorithm = _ALGORITHM if _ALGORITHM in usable else usable[0]
    return JWTVerifier(jwks_uri=keys, issuer=issuer, audience=audience, algorithm=algorithm)


def _describe(issuer: str) -> dict[str, Any]:
    from urllib.request import urlopen

    why = ""
    for path in _DISCOVERY:
        try:
            with urlopen(issuer.rstrip("/") + path, timeout=_WAIT) as answer:
                description = json.loads(answer.read(_LARGEST))
        except (OSError, ValueError) as error:
            why = str(getattr(error, "reason", error))
            continue
        if isinstance(description, dict):
            return description
    raise IssuerUnusable(issuer, f"{issuer.rstrip('/')}{_DISCOVERY[0]}: {why or 'not an object'}.")


def current_principal() -> str:
    """Return who makes the current call: the subject of its token. Empty on stdio, where there is one client."""
    token = get_access_token()
    if token is None:
        return ""
    return str(token.claims.get("sub") or token.client_id)
