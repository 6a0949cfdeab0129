#!/usr/bin/env python3
"""Writes tinylm as a GGUF file in float32, from which llama-quantize makes the quantised ones.

    convert_tinylm.py --model ../tinylm/model --out tinylm-f32.gguf
    llama-quantize tinylm-f32.gguf tinylm-q8_0.gguf Q8_0

Needs numpy and the gguf package (Debian: python3-numpy, python3-gguf). The file carries the digest of the checkpoint
that it was made of; llama-quantize copies it, and capture.py writes it into each capture."""
import argparse
import json
import pathlib
import sys

import gguf
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tinylm"))
from tensors import checkpoint_digest, load_safetensors  # noqa: E402

BOS = "<s>"
# tinylm was not trained on conversations: the turns are joined, and a request of one turn is its text.
CHAT_TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
BLOCK_NAMES = {
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}


def gguf_name(name):
    """GGUF's name of one of Hugging Face's tensors: model.layers.3.mlp.up_proj.weight is blk.3.ffn_up.weight."""
    if name in NAMES:
        return NAMES[name]
    _, _, layer, *rest = name.removesuffix(".weight").split(".")
    return f"blk.{layer}.{BLOCK_NAMES['.'.join(rest)]}.weight"


def interleaved(weight, heads):
    """llama.cpp rotates neighbouring outputs of a head, tinylm each output of its first half with one of its second."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def byte_names():
    """GPT-2's printable character for each byte, in which a GGUF file of this kind writes its tokens."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def add_vocabulary(out, config):
    """The bytes as their own ids, and <s>. A tokenizer of GPT-2's kind: SentencePiece's would take ▁ for a space."""
    names = byte_names()
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("gpt-2")
    out.add_token_list([*names, BOS])
    out.add_token_types([gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL])
    # The list must not be empty. No text in UTF-8 has these two bytes, so that nothing is ever merged.
    out.add_token_merges([f"{names[0xC0]} {names[0xC1]}"])
    out.add_bos_token_id(config["bos_token_id"])
    out.add_eos_token_id(config["eos_token_id"])
    out.add_add_bos_token(True)
    out.add_chat_template(CHAT_TEMPLATE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="tinylm's model folder")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    config = json.loads((pathlib.Path(args.model) / "config.json").read_text())
    tensors, _ = load_safetensors(pathlib.Path(args.model) / "model.safetensors")
    heads = config["num_attention_heads"]
    out = gguf.GGUFWriter(args.out, "llama")
    out.add_name("tinylm")
    out.add_context_length(config["max_position_embeddings"])
    out.add_embedding_length(config["hidden_size"])
    out.add_block_count(config["num_hidden_layers"])
    out.add_feed_forward_length(config["intermediate_size"])
    out.add_head_count(heads)
    out.add_head_count_kv(config["num_key_value_heads"])
    out.add_layer_norm_rms_eps(config["rms_norm_eps"])
    out.add_rope_dimension_count(config["hidden_size"] // heads)
    out.add_rope_freq_base(config["rope_theta"])
    out.add_vocab_size(config["vocab_size"])
    out.add_file_type(gguf.LlamaFileType.ALL_F32)
    out.add_string("driftgate.checkpoint.digest", checkpoint_digest(args.model))
    add_vocabulary(out, config)
    for name, tensor in tensors.items():
        values = tensor.astype(np.float32)
        if name.endswith(("q_proj.weight", "k_proj.weight")):
            values = interleaved(values, heads)
        out.add_tensor(gguf_name(name), np.ascontiguousarray(values))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
