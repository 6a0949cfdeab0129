"""Both verifiers read a kept head alike, in every form that heads are mutated into.

usage: kept_heads.py FOLDER [SEED], as mutated_bundles.py takes it
"""
import collections
import io
import os
import random
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "scripts"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import respell  # noqa: E402
import verify_bundle  # noqa: E402
from bundles import Bundle, World  # noqa: E402

FORMS = 120


def forms(rng, world, bundle, note):
    """Kept heads as bytes, the unchanged one first."""
    yield note.encode()
    for _ in range(FORMS):
        made = bundle.copy()
        made.header["checkpoint"] = note
        respell.respell_note(rng, world, made)
        yield made.header["checkpoint"].encode()
    for bad in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80"):
        at = rng.randrange(len(note))
        yield note.encode()[:at] + bad + note.encode()[at:]
    whole = note.encode()
    for _ in range(FORMS // 2):
        at = rng.randrange(len(whole))
        yield rng.choice([whole[:at], whole[:at] + whole[at + 1:], whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1:]])
    yield from (b"", b"\n", b"\n\n", whole + whole)


def main():
    folder, rng = sys.argv[1], random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    trust, path = os.path.join(folder, "trust.json"), os.path.join(folder, "promotion4.bundle")
    with open(trust, encoding="utf-8") as file:
        keys = verify_bundle.read_trust(file.read())
    with open(path, "rb") as file:
        data = file.read()
    with open(os.path.join(folder, "range.bundle"), "rb") as file:
        world = World(folder, file.read())
    with open(os.path.join(folder, "older.note"), encoding="utf-8", newline="") as file:
        note = file.read()
    codes, wrong = collections.Counter(), []
    with tempfile.TemporaryDirectory() as place:
        kept = os.path.join(place, "kept.note")
        for number, form in enumerate(forms(rng, world, Bundle(data), note)):
            with open(kept, "wb") as file:
                file.write(form)
            code = subprocess.run([os.environ["DRIFTGATE_BIN"], "audit", "verify", path, "--trust", trust, "--older-head", kept],
                                  capture_output=True, check=False).returncode
            other, _ = verify_bundle.verify(io.BytesIO(data), keys, verify_bundle.kept_head(kept))
            codes[code] += 1
            if code != other or (number == 0 and code != 0):
                wrong.append(f"{form!r}: program {code}, python {other}")
    print(f"{sum(codes.values())} kept heads: codes {dict(sorted(codes.items()))}")
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
