"""What faults are injected into: the corpus, K_train's logits, kernels to change, and captures to write."""
import json
import pathlib
import struct

import numpy as np

from kernel import BOS, Kernel, load_weights, to_bf16

HERE = pathlib.Path(__file__).resolve().parent
CORPUS = HERE / "corpus.jsonl"


class World:
    """K_train is the model in float32. K_inf, before any fault, is the same (`rounding` none) or computes with
    weights and the inputs of its products rounded to bfloat16 (`bf16`)."""

    def __init__(self, rounding="none"):
        self.weights = load_weights()
        self.rows = [json.loads(line) for line in CORPUS.read_text().splitlines()]
        self.sequences = [[BOS, *row["text"].encode()] for row in self.rows]
        self.rounding = rounding
        self.train = Kernel(self.weights).run(self.sequences)
        self._right = None

    def kernel(self, **members):
        """K_inf with these members replaced."""
        out = Kernel(members.pop("weights", self.weights))
        if self.rounding == "bf16":
            out.rounded(to_bf16)
        for name, value in members.items():
            assert hasattr(out, name), name
            setattr(out, name, value)
        return out

    def run(self, **members):
        return self.kernel(**members).run(self.sequences)

    @property
    def right(self):
        """K_inf's logits without a fault."""
        if self._right is None:
            self._right = self.train if self.rounding == "none" else self.run()
        return self._right

    def each(self, change):
        """K_inf's logits [T, V] of each sequence through `change`."""
        return [change(z) for z in self.right]

    def where(self, chosen, faulty):
        """`faulty` for the sequences that `chosen(index, row)` names, the right logits for the others."""
        return [f if chosen(i, row) else z for i, (row, z, f) in enumerate(zip(self.rows, self.right, faulty))]

    def changed(self, change):
        """The weights with every matrix through `change(name, matrix)`."""
        return {n: change(n, w).astype(np.float32) if w.ndim == 2 else w for n, w in self.weights.items()}

    def moved(self, share, seed=5, chosen=lambda name: True):
        """Every chosen matrix moved at random by `share` of its root mean square: another checkpoint's."""
        random = np.random.default_rng(seed)
        move = lambda w: w + share * np.sqrt(np.mean(w * w)) * random.standard_normal(w.shape)
        return self.changed(lambda n, w: move(w) if chosen(n) else w)

    def write(self, path, logits, kernel, first):
        """A capture of `logits` from position `first` on."""
        kept = [z[first:] for z in logits]
        ids = [s[first + 1:] for s in self.sequences]
        numbers = lambda parts: np.concatenate([np.asarray(p, np.int32) for p in parts])
        tensors = {
            "logits": np.concatenate(kept).astype(np.float32, copy=False),
            "token_ids": numbers(ids),
            "sequence_ids": numbers([np.full(len(z), i) for i, z in enumerate(kept)]),
            "positions": numbers([np.arange(first, first + len(z)) for z in kept]),
        }
        names = {np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
        header, offset = {"__metadata__": {"capture.version": "1", "kernel": kernel, "temperature": "1.0",
                                           "token_source": "corpus", "sampling_filter": "none"}}, 0
        for name, array in tensors.items():
            header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                            "data_offsets": [offset, offset + array.nbytes]}
            offset += array.nbytes
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for array in tensors.values():
                file.write(np.ascontiguousarray(array).tobytes())
