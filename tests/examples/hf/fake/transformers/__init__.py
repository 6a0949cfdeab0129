"""As much of transformers as examples/capture_hf.py calls, over tinylm's checkpoint: a causal language model in
PyTorch whose head rounds logits to the model's dtype, and a tokenizer of bytes."""
import pathlib
import sys
import types

import torch

TINYLM = pathlib.Path(__file__).resolve().parents[5] / "examples/tinylm"
sys.path.insert(0, str(TINYLM))
import model as tinylm  # noqa: E402


class AutoTokenizer:
    @classmethod
    def from_pretrained(cls, name):
        return cls()

    def __call__(self, text, truncation, max_length):
        return types.SimpleNamespace(input_ids=[tinylm.BOS, *text.encode()][:max_length])


class AutoModelForCausalLM(torch.nn.Module):
    @classmethod
    def from_pretrained(cls, name, torch_dtype, attn_implementation):
        self = cls()
        self.inner = tinylm.load_model(name).to(torch_dtype)
        self.config = types.SimpleNamespace()
        return self

    def get_output_embeddings(self):
        return self.inner.lm_head

    def named_parameters(self, *arguments, **named):
        return self.inner.named_parameters(*arguments, **named)

    def forward(self, ids, output_hidden_states=False, attention_mask=None):
        dtype, c = self.inner.lm_head.weight.dtype, self.inner.config
        t, half = ids.shape[1], c["hidden_size"] // c["num_attention_heads"] // 2
        angle = torch.outer(torch.arange(t).float(), 1.0 / c["rope_theta"] ** (torch.arange(half).float() / half))
        angle = torch.cat((angle, angle), -1)
        mask = torch.full((t, t), float("-inf")).triu(1)
        if attention_mask is not None:
            mask = mask + torch.where(attention_mask.bool(), 0.0, float("-inf"))[:, None, None, :]
        x = self.inner.model.embed_tokens(ids)
        for layer in self.inner.model.layers:
            x = layer(x, angle.cos().to(dtype), angle.sin().to(dtype), mask.to(dtype))
        x = self.inner.model.norm(x)
        return types.SimpleNamespace(logits=self.inner.lm_head(x), hidden_states=(x,) if output_hidden_states else None)
