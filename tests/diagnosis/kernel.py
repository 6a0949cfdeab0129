"""tinylm's forward pass in numpy, with every step open to change: a kernel that can be made wrong on purpose.

The model is that of examples/tinylm/model.py (Llama architecture, 4 layers, width 128, 4 heads, 257 tokens) and
reads the same checkpoint. Sequences go through in groups of similar length, padded at their ends, where causal
attention does not look."""
import json
import pathlib
import struct

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADS, WIDTH, BOS, LAYERS = 4, 32, 256, 4
EPS = 1e-5
MATRICES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
            "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def load_weights(folder=ROOT / "examples/tinylm/model"):
    data = (folder / "model.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        array = np.frombuffer(data[8 + size + begin:8 + size + end], np.float16).reshape(entry["shape"])
        out[name] = array.astype(np.float32)
    return out


def name_of(layer, matrix):
    return f"model.layers.{layer}.{matrix}.weight"


def to_bf16(x):
    """Rounded to the nearest bfloat16, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def to_fp8(x, mantissa=3, least_exponent=-6, largest=448.0):
    """Rounded to e4m3 (3 mantissa bits, subnormals below 2^-6), saturating."""
    _, exponent = np.frexp(x)
    step = np.exp2(np.maximum(exponent - 1, least_exponent) - mantissa).astype(np.float32)
    return np.clip(np.rint(x / step) * step, -largest, largest).astype(np.float32)


def to_integers(x, bits, axis=-1):
    """Rounded to a grid of 2^bits − 1 levels, one scale along `axis` (None: one for all)."""
    most = 2 ** (bits - 1) - 1
    scale = np.abs(x).max(axis=axis, keepdims=axis is not None) / most
    scale = np.where(scale == 0, 1, scale).astype(np.float32)
    return (np.rint(x / scale) * scale).astype(np.float32)


def silu(x):
    return x / (1 + np.exp(-x))


def rms_norm(x, weight, eps=EPS):
    return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + np.float32(eps)) * weight


class Kernel:
    """One way to evaluate the model. Faults replace members; the defaults are the right ones."""

    def __init__(self, weights):
        self.weights = dict(weights)      # by tensor name; replaced, never changed in place
        self.layers = list(range(LAYERS))  # which layer's weights run, in order
        self.rope_base = 10000.0
        self.rope_dims = WIDTH            # leading dimensions of a head that are rotated
        self.rope_pairs = "halves"        # dimension i turns with i + 16; "adjacent": 2i with 2i + 1
        self.attention_scale = WIDTH ** -0.5
        self.eps = EPS
        self.skip_attention, self.skip_mlp = set(), set()  # layers without that half
        self.block = 0                    # keys of one step of an online softmax; 0: all at once
        self.split = 1                    # parts in which products over the inputs are summed
        self.prefix = []                  # tokens before every sequence, whose rows are dropped

    # What a fault replaces.
    def positions(self, t, layer):
        """Position of each query and of each key."""
        return t, t

    def visible(self, q, k, layer):
        """Which keys each query sees, beside causality: an array of booleans, or None for all."""
        return None

    def causal(self, q, k):
        return k <= q

    def cached(self, keys, values, layer):
        """Keys (rotated) and values [B, H, T, W] as they are read back from the cache."""
        return keys, values

    def heads(self, mixed, layer):
        """The heads' outputs [B, H, T, W] before the output projection."""
        return mixed

    def activations(self, x):
        """The input of a product."""
        return x

    def inputs(self, ids):
        """The tokens of one sequence that the model sees."""
        return ids

    def embedded(self, x, ids):
        return x

    def product(self, x, name):
        w = self.weights[name]
        x = self.activations(x)
        rows = x.reshape(-1, x.shape[-1])
        if self.split == 1:
            out = rows @ w.T
        else:
            out = np.zeros((len(rows), len(w)), np.float32)
            for part in np.array_split(np.arange(x.shape[-1]), self.split):
                out += rows[:, part] @ w[:, part].T
        return out.reshape(*x.shape[:-1], len(w))

    def rotated(self, x, positions):
        half = self.rope_dims // 2
        inverse = self.rope_base ** -(np.arange(half) / half)
        angle = np.outer(positions, inverse)
        cos, sin = np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)
        turned, rest = x[..., :self.rope_dims], x[..., self.rope_dims:]
        if self.rope_pairs == "halves":
            a, b = turned[..., :half], turned[..., half:]
            out = np.concatenate((a * cos - b * sin, b * cos + a * sin), -1)
        else:
            a, b = turned[..., 0::2], turned[..., 1::2]
            out = np.stack((a * cos - b * sin, b * cos + a * sin), -1).reshape(turned.shape)
        return np.concatenate((out, rest), -1) if rest.shape[-1] else out

    def attend(self, q, k, v, mask):
        scores = q @ k.swapaxes(-1, -2) * np.float32(self.attention_scale)
        scores = np.where(mask, scores, np.float32(-1e30))
        if not self.block:
            scores = np.exp(scores - scores.max(-1, keepdims=True))
            return scores @ v / scores.sum(-1, keepdims=True)
        top = np.full((*q.shape[:-1], 1), -np.inf, np.float32)
        total, out = np.zeros_like(top), np.zeros_like(q)
        for begin in range(0, k.shape[-2], self.block):  # online softmax, as fused attention does it
            part = scores[..., begin:begin + self.block]
            higher = np.maximum(top, part.max(-1, keepdims=True))
            shrink, part = np.exp(top - higher), np.exp(part - higher)
            total = total * shrink + part.sum(-1, keepdims=True)
            out = out * shrink + part @ v[..., begin:begin + self.block, :]
            top = higher
        return out / total

    def layer(self, x, place, layer):
        batch, t, _ = x.shape
        if place not in self.skip_attention:
            h = rms_norm(x, self.weights[name_of(layer, "input_layernorm")], self.eps)
            split = lambda y: y.reshape(batch, t, HEADS, WIDTH).swapaxes(1, 2)
            q, k, v = (split(self.product(h, name_of(layer, m))) for m in MATRICES[:3])
            q_at, k_at = self.positions(np.arange(t), place)
            q, k = self.rotated(q, q_at), self.rotated(k, k_at)
            k, v = self.cached(k, v, place)
            rows, columns = np.arange(t)[:, None], np.arange(t)[None, :]
            mask = self.causal(rows, columns)
            seen = self.visible(rows, columns, place)
            if seen is not None:
                mask = mask & seen
            mixed = self.heads(self.attend(self.activations(q), self.activations(k), self.activations(v), mask), place)
            mixed = mixed.swapaxes(1, 2).reshape(batch, t, -1)
            x = x + self.product(mixed, name_of(layer, "self_attn.o_proj"))
        if place not in self.skip_mlp:
            h = rms_norm(x, self.weights[name_of(layer, "post_attention_layernorm")], self.eps)
            gate, up = self.product(h, name_of(layer, "mlp.gate_proj")), self.product(h, name_of(layer, "mlp.up_proj"))
            x = x + self.product(silu(gate) * up, name_of(layer, "mlp.down_proj"))
        return x

    def forward(self, ids):
        """Logits [B, T, 257] of token ids [B, T]."""
        x = self.embedded(self.weights["model.embed_tokens.weight"][ids], ids)
        for place, layer in enumerate(self.layers):
            x = self.layer(x, place, layer)
        return self.product(rms_norm(x, self.weights["model.norm.weight"], self.eps), "lm_head.weight")

    def run(self, sequences, group=16):
        """Logits of each sequence: row t predicts token t + 1. `group` sequences go through together."""
        seen = [[*self.prefix, *self.inputs(ids)[:len(ids) - 1]] for ids in sequences]
        out = [None] * len(seen)
        order = sorted(range(len(seen)), key=lambda i: len(seen[i]))
        for begin in range(0, len(order), group):
            members = order[begin:begin + group]
            longest = max(len(seen[i]) for i in members)
            padded = np.array([list(seen[i]) + [0] * (longest - len(seen[i])) for i in members])
            for i, logits in zip(members, self.forward(padded)):
                out[i] = logits[len(self.prefix):len(seen[i])]
        return out

    def rounded(self, function):
        """Weights, and the inputs of every product, through `function`."""
        self.weights = {n: function(w) if w.ndim == 2 else w for n, w in self.weights.items()}
        self.activations = function
        return self
