"""The commands of docs/evidence.md verify a head and an attestation, and refuse both with one byte changed.

usage: by_hand.py FOLDER, as mutated_bundles.py takes it
"""
import base64
import json
import os
import subprocess
import sys
import tempfile

SPKI = bytes.fromhex("302a300506032b6570032100")


def openssl_verifies(key, message, signature):
    with tempfile.TemporaryDirectory() as folder:
        for name, data in (("key.der", SPKI + key), ("message", message), ("signature", signature)):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
        done = subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-keyform", "DER", "-inkey", "key.der", "-rawin",
                               "-in", "message", "-sigfile", "signature"], cwd=folder, capture_output=True, check=False)
        return done.returncode == 0


def check(condition, what):
    if not condition:
        sys.exit(what)


def check_both_ways(key, message, signature, what):
    check(openssl_verifies(key, message, signature), f"openssl does not verify {what}")
    changed = message[:-1] + bytes([message[-1] ^ 1])
    check(not openssl_verifies(key, changed, signature), f"openssl verifies {what} with a byte changed")


def check_bundle(trust, bundle):
    """The head and the attestations of a promotion's bundle."""
    with open(trust, encoding="utf-8") as file:
        keys = {}
        for key in json.load(file)["keys"]:
            keys.setdefault(key["use"], []).append(base64.b64decode(key["key"]))
    with open(bundle, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    text, _, signatures = lines[0]["checkpoint"].partition("\n\n")
    signature = base64.b64decode(signatures.split()[2])[4:]
    check_both_ways(keys["head"][-1], (text + "\n").encode(), signature, "the head")
    envelopes = [line["envelope"] for line in lines if line["t"] == "attestation"]
    check(len(envelopes) > 0, "the bundle has no attestations")
    for envelope in envelopes:
        payload = base64.b64decode(envelope["payload"])
        message = b"DSSEv1 28 application/vnd.in-toto+json %d %b" % (len(payload), payload)
        check_both_ways(keys["attestation"][-1], message, base64.b64decode(envelope["signatures"][0]["sig"]), "an attestation")
        check(json.loads(payload)["_type"] == "https://in-toto.io/Statement/v1", "the payload is no in-toto statement")
    return f"a head and {len(envelopes)} attestations verified by openssl"


def main():
    folder = sys.argv[1]
    print(check_bundle(os.path.join(folder, "trust.json"), os.path.join(folder, "promotion1.bundle")))


if __name__ == "__main__":
    main()
