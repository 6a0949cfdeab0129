#!/usr/bin/python3
"""examples/capture_hf.py over a model of its interface (fake/transformers). Ends with 77 without PyTorch."""
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import torch  # noqa: F401
except ImportError:
    print("no PyTorch here")
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DTYPES = {"F32": np.float32, "I64": np.int64, "BF16": np.uint16}


def capture(folder, name, lines, *options):
    """Exit code, standard error, and the capture's tensors and metadata where one was written."""
    (folder / "corpus.jsonl").write_text("".join(line + "\n" for line in lines))
    out = folder / name
    done = subprocess.run(
        [sys.executable, ROOT / "examples/capture_hf.py", "--model", ROOT / "examples/tinylm/model", "--corpus",
         folder / "corpus.jsonl", "--out", out, *options], capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(HERE / "fake"), "OMP_NUM_THREADS": "1"})
    if not out.exists():
        return done.returncode, done.stderr, None, None
    data = out.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for key, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = np.frombuffer(data[8 + size + begin:8 + size + end], DTYPES[entry["dtype"]])
        tensors[key] = raw.reshape(entry["shape"])
    return done.returncode, done.stderr, tensors, metadata


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def line(sequence, text):
    return json.dumps({"sequence": sequence, "text": text})


TEXTS = ["The printf function writes", "to", "output under the control of a format string", "Der Befehl gibt aus"]
LINES = [line(i, text) for i, text in enumerate(TEXTS)]


def check(condition, what):
    if not condition:
        sys.exit(f"capture_hf_test.py: {what}")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        code, err, one, metadata = capture(folder, "one.safetensors", LINES)
        check(code == 0, f"a plain capture ends with {code}: {err}")
        rows = sum(len(text.encode()) for text in TEXTS)
        check(one["logits"].shape == (rows, 257), f"a row for each byte, not {one['logits'].shape}")
        check(one["token_ids"].tolist() == [b for t in TEXTS for b in t.encode()], "tokens are those after each row")
        check(metadata["kernel"] == "hf-AutoModelForCausalLM-float32-eager", metadata["kernel"])

        code, err, three, _ = capture(folder, "three.safetensors", LINES, "--batch-size", "3", "--last", "2")
        check(code == 0, f"a batched capture ends with {code}: {err}")
        last = [i for t, end in zip(TEXTS, np.cumsum([len(t.encode()) for t in TEXTS])) for i in (end - 2, end - 1)]
        for key in ("token_ids", "sequence_ids", "positions"):
            check((three[key] == one[key][last]).all(), f"{key} do not depend on the batch")
        gap = np.abs(three["logits"] - one["logits"][last]).max()
        check(gap < 1e-3, f"logits of padded batches differ by rounding only, not by {gap}")

        bf16 = ("--dtype", "bfloat16")
        code, err, stored, _ = capture(folder, "bf16.safetensors", LINES, *bf16)
        check(code == 0 and stored["logits"].dtype == np.uint16, f"logits in bf16 are stored as they are: {err}")
        code, err, hidden, _ = capture(folder, "refused.safetensors", LINES, *bf16, "--hidden")
        check(code == 2 and hidden is None and "rounds its logits" in err, f"--hidden in bf16 is refused, not {code}: {err}")
        code, err, hidden, metadata = capture(folder, "hidden.safetensors", LINES, *bf16, "--hidden", "--unrounded-logits")
        check(code == 0 and hidden["hidden"].shape == (rows, 128), f"hidden states of a kernel that says so: {err}")
        check(metadata["kernel"].endswith("-unrounded-logits") and metadata["lm_head"] == "lm_head.weight", str(metadata))
        head = capture_head()
        made, served = widened(hidden["hidden"]) @ head.T, widened(stored["logits"])
        off = np.abs(made - served).max()
        check(1e-3 < off < 0.2, f"the served logits are rounded, by at most a bf16 step, and hidden states' are not: {off}")
        code, err, none, _ = capture(folder, "odd.safetensors", LINES, "--unrounded-logits")
        check(code == 2 and "belongs to --hidden" in err, err)

        for lines, said in (([line(0, "")], "none of its 1 sequences has two tokens"), ([], "none of its 0 sequences"),
                            (LINES + ['{"sequence": 9}'], "line 5: wants a JSON object"), (["["], "line 1: wants")):
            code, err, none, _ = capture(folder, "none.safetensors", lines)
            check(code == 1 and none is None and said in err and "Traceback" not in err, f"{said}: {code}, {err}")
    print("capture_hf.py: every check holds")


def capture_head():
    data = (ROOT / "examples/tinylm/model/model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + size])["lm_head.weight"]
    begin, end = entry["data_offsets"]
    head = np.frombuffer(data[8 + size + begin:8 + size + end], np.float16).reshape(entry["shape"]).astype(np.float32)
    return torch.from_numpy(head).to(torch.bfloat16).float().numpy()


if __name__ == "__main__":
    main()
