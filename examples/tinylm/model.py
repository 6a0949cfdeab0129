"""The model of tinylm: Llama architecture over bytes, in float32, with Hugging Face's tensor names."""
import json
import math
import pathlib

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F

from tensors import load_safetensors, save_safetensors

BOS = 256
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 128,
    "intermediate_size": 384, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 4,
    "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": 257,
    "bos_token_id": BOS, "eos_token_id": BOS, "tie_word_embeddings": False, "attention_bias": False, "mlp_bias": False,
    "torch_dtype": "float16",
}


class RmsNorm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat((-b, a), -1) * sin


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        d = c["hidden_size"]
        self.heads, self.head_dim = c["num_attention_heads"], d // c["num_attention_heads"]
        self.q_proj, self.k_proj = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.v_proj, self.o_proj = nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x, cos, sin, mask):
        b, t, d = x.shape
        q, k, v = (p(x).view(b, t, self.heads, self.head_dim).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim) + mask
        return self.o_proj((torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(b, t, d))


class Mlp(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, m = c["hidden_size"], c["intermediate_size"]
        self.gate_proj, self.up_proj = nn.Linear(d, m, bias=False), nn.Linear(d, m, bias=False)
        self.down_proj = nn.Linear(m, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.self_attn, self.mlp = Attention(c), Mlp(c)
        self.input_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, x, cos, sin, mask):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, mask)
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Layer(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RmsNorm(c["hidden_size"], c["rms_norm_eps"])


class TinyLm(nn.Module):
    def __init__(self, c=CONFIG):
        super().__init__()
        self.config = c
        self.model = Body(c)
        self.lm_head = nn.Linear(c["hidden_size"], c["vocab_size"], bias=False)

    def forward(self, tokens):
        t, half = tokens.shape[1], self.config["hidden_size"] // self.config["num_attention_heads"] // 2
        inverse = 1.0 / self.config["rope_theta"] ** (torch.arange(half, dtype=torch.float32) / half)
        angle = torch.outer(torch.arange(t, dtype=torch.float32), inverse)
        angle = torch.cat((angle, angle), -1)
        mask = torch.full((t, t), float("-inf")).triu(1)
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, angle.cos(), angle.sin(), mask)
        return self.lm_head(self.model.norm(x))


def load_model(folder):
    """The stored float16 weights, widened to float32: every kernel starts from these numbers."""
    folder = pathlib.Path(folder)
    model = TinyLm(json.loads((folder / "config.json").read_text()))
    tensors, _ = load_safetensors(folder / "model.safetensors")
    model.load_state_dict({k: torch.from_numpy(v.astype(np.float32)) for k, v in tensors.items()})
    return model


def save_model(model, folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(model.config, indent=2) + "\n")
    tensors = {k: v.detach().numpy().astype(np.float16) for k, v in sorted(model.state_dict().items())}
    save_safetensors(folder / "model.safetensors", tensors, {"format": "pt"})


def tokens_of(row):
    """Token ids of a corpus row: BOS and the bytes of its text, or the ids that it lists."""
    return row["token_ids"] if "token_ids" in row else [BOS, *row["text"].encode()]
