"""A language model of a few lines, and safetensors files as engines write them."""
import json
import struct

import support

np = support.numpy()
VOCABULARY, WIDTH = 19, 8


class Model:
    """Hidden states of a token depend on the tokens up to it; logits are head @ rms_norm(state)."""

    def __init__(self, seed=3, noise=0.0):
        rng = np.random.default_rng(seed)
        self.embedding = rng.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32)
        self.head = rng.normal(0, 1, (VOCABULARY, WIDTH)).astype(np.float32)
        self.norm = rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        self.eps = 1e-5
        self.noise = noise

    def states(self, ids):
        """[tokens, WIDTH], before the last norm."""
        mixed = np.cumsum(self.embedding[np.asarray(ids)], 0) / np.arange(1, len(ids) + 1)[:, None]
        noise = np.random.default_rng(list(ids)).normal(0, self.noise, mixed.shape)  # the same in every run
        return (mixed + noise).astype(np.float32)

    def normed(self, ids):
        states = self.states(ids)
        return states / np.sqrt((states ** 2).mean(-1, keepdims=True) + self.eps) * self.norm

    def logprobs(self, ids):
        logits = self.normed(ids).astype(np.float64) @ self.head.T.astype(np.float64)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def sequences(count=12, seed=5):
    rng = np.random.default_rng(seed)
    return [(10 * i, [int(t) for t in rng.integers(0, VOCABULARY, rng.integers(3, 9))]) for i in range(count)]


def write_safetensors(path, tensors):
    """Arrays by name; (bits as uint16, "BF16") for bfloat16."""
    header, data = {}, b""
    for name, value in tensors.items():
        array, dtype = value if isinstance(value, tuple) else (value, {"float32": "F32", "int64": "I64"}[str(value.dtype)])
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + array.nbytes]}
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
