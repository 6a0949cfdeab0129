"""Captures written without the package under test, and what the command line says of them."""
import json
import os
import subprocess

import numpy

DRIFTGATE = os.environ.get("DRIFTGATE_BIN", "driftgate")
CONTRACT = """apiVersion: driftgate/v1
kind: KernelContract
metadata: {name: python-test, owners: [a@example.org]}
kernels: {train: {ref: train}, inf: {ref: inf}}
assumptions: {reward: {min: 0, max: 1}, max_tokens: 16}
slices: {dimensions: [language], min_sequences: 2}
numerical:
  - {id: finite, metric: nonfinite, aggregate: sum, max: 0}
  - {id: kl, metric: kl_inf_train, aggregate: p90, max: KL_LIMIT}
"""


def contract(kl):
    return CONTRACT.replace("KL_LIMIT", str(kl))


def logits(rows, columns, seed=1, noise=0.01, dtype="f4"):
    """Rows of one kernel and of another that drifts by so much noise."""
    random = numpy.random.default_rng(seed)
    train = random.standard_normal((rows, columns), dtype="f4") * 3
    inf = train + random.standard_normal((rows, columns), dtype="f4") * noise
    return train.astype(dtype), inf.astype(dtype)


def write(path, tensors, **metadata):
    """A safetensors file of (dtype, shape, bytes) by name."""
    header, offset = {"__metadata__": {"capture.version": "1", "temperature": "1", **metadata}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as handle:
        handle.write(len(text).to_bytes(8, "little") + text)
        for _, _, data in tensors.values():
            handle.write(data)
    return path


def ids(values):
    values = numpy.asarray(values, "i8").reshape(-1)
    return ("I64", values.shape, values.tobytes())


def cli(*arguments):
    """The JSON of `driftgate drift`, and its exit code."""
    done = subprocess.run([DRIFTGATE, "drift", *map(str, arguments), "--json", "-"], capture_output=True, text=True,
                          timeout=120)
    if not done.stdout:
        raise AssertionError(f"driftgate drift {arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout, done.returncode
