"""Verifies the attestations of bundles with securesystemslib, which checks key ids and signatures of in-toto's tools.

usage: /usr/bin/python3 dsse_library.py TRUST.json BUNDLE… (Debian's package is for Debian's Python)
What is signed is DSSE's pre-authentication encoding, which that version of the library leaves to its caller.
"""
import base64
import hashlib
import json
import sys

from securesystemslib.exceptions import UnverifiedSignatureError
from securesystemslib.signer import Key, Signature


def key_of(entry):
    raw = base64.b64decode(entry["key"])
    key_id = hashlib.sha256(entry["name"].encode() + b"\n\1" + raw).hexdigest()
    return Key.from_dict(key_id, {"keytype": "ed25519", "scheme": "ed25519", "keyval": {"public": raw.hex()}})


def encoding(kind, payload):
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        keys = {key.keyid: key for key in map(key_of, json.load(file)["keys"])}
    verified = 0
    for path in sys.argv[2:]:
        with open(path, encoding="utf-8") as file:
            envelopes = [line["envelope"] for line in map(json.loads, file) if line["t"] == "attestation"]
        for envelope in envelopes:
            payload, (mark,) = base64.b64decode(envelope["payload"]), envelope["signatures"]
            key = keys[mark["keyid"]]
            signature = Signature(mark["keyid"], base64.b64decode(mark["sig"]).hex())
            key.verify_signature(signature, encoding(envelope["payloadType"], payload))
            verified += 1
        if envelopes:  # and refuses what was not signed
            try:
                key.verify_signature(signature, encoding(envelope["payloadType"], payload + b" "))
                sys.exit("securesystemslib verifies a statement with a byte more")
            except UnverifiedSignatureError:
                pass
    print(f"{len(sys.argv) - 2} bundles: {verified} attestations verified by securesystemslib")
    return verified == 0


if __name__ == "__main__":
    sys.exit(main())
