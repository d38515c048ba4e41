"""A software authenticator (WebAuthn level 2), with one passkey."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from fido2.cose import ES256, CoseKey
from fido2.utils import websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

FLAG = AuthenticatorData.FLAG
ORIGIN = "http://localhost:8000"


def get_options(page: Any) -> dict[str, Any]:
    """Find the WebAuthn options in a page's data block."""
    match = re.search(r'<script id="js_data" type="application/json">(.*?)</script>', page.text)
    assert match
    [options] = json.loads(match[1]).values()
    public_key: dict[str, Any] = options["publicKey"]
    return public_key


class Passkey:
    """Responds to the options of a page like a browser at `origin`."""

    def __init__(self, origin: str = ORIGIN) -> None:
        self.origin = origin
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.public_key: CoseKey | None = ES256.from_cryptography_key(self.key.public_key())  # type: ignore[no-untyped-call]
        self.credential_id = os.urandom(32)
        self.user_handle = ""

    def create(self, options: dict[str, Any], *, rp_id: str = "") -> str:
        self.user_handle = options["user"]["id"]
        client_data = CollectedClientData.create("webauthn.create", options["challenge"], self.origin)
        flags, credential = FLAG.UP | FLAG.UV, b""
        if self.public_key is not None:
            flags |= FLAG.AT
            credential = AttestedCredentialData.create(b"\0" * 16, self.credential_id, self.public_key)
        rp_hash = hashlib.sha256((rp_id or options["rp"]["id"]).encode()).digest()
        data = AuthenticatorData.create(rp_hash, flags, 0, credential)
        attestation = AttestationObject.create("none", data, {})
        response = {
            "clientDataJSON": websafe_encode(client_data),
            "attestationObject": websafe_encode(attestation),
        }
        return self.encode(response, {"credProps": {"rk": True}})

    def get(self, options: dict[str, Any], *, rp_id: str = "", user_handle: str = "") -> str:
        client_data = CollectedClientData.create("webauthn.get", options["challenge"], self.origin)
        rp_hash = hashlib.sha256((rp_id or options["rpId"]).encode()).digest()
        data = AuthenticatorData.create(rp_hash, FLAG.UP | FLAG.UV, 0)
        signature = self.key.sign(data + client_data.hash, ec.ECDSA(SHA256()))
        response = {
            "clientDataJSON": websafe_encode(client_data),
            "authenticatorData": websafe_encode(data),
            "signature": websafe_encode(signature),
            "userHandle": user_handle or self.user_handle,
        }
        return self.encode(response, {})

    def encode(self, response: dict[str, str], extensions: dict[str, Any]) -> str:
        credential_id = websafe_encode(self.credential_id)
        return json.dumps(
            {
                "id": credential_id,
                "rawId": credential_id,
                "type": "public-key",
                "response": response,
                "clientExtensionResults": extensions,
            }
        )
