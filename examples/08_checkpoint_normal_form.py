"""Do two checkpoints of one function have the same normal form?

The script writes a tiny Llama checkpoint, moves it to other weights of the same function, and
brings both into normal form. `same` compares the weights, up to rounding.

Prints, but for measured numbers:

    same function; 25 blocks agree to within rounding in the basis of the witness
    outputs on random tokens differ by 9e-07, relative
    entries of the two normal forms differ by at most 3e-07; below 1e-4: True
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from safetensors.numpy import load_file, save_file

from segre.checkpoint.commands import canonical, move, same

D, HEADS, KV, FF, VOCAB = 16, 4, 2, 24, 40
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": D,
    "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": KV,
    "intermediate_size": FF, "vocab_size": VOCAB, "max_position_embeddings": 32,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
}  # fmt: skip


def write(folder: Path) -> Path:
    """A checkpoint with random weights."""
    kv = D // HEADS * KV
    layer = {
        "self_attn.q_proj": (D, D), "self_attn.k_proj": (kv, D), "self_attn.v_proj": (kv, D),
        "self_attn.o_proj": (D, D), "mlp.gate_proj": (FF, D), "mlp.up_proj": (FF, D),
        "mlp.down_proj": (D, FF), "input_layernorm": (D,), "post_attention_layernorm": (D,),
    }  # fmt: skip
    shapes = {"model.embed_tokens": (VOCAB, D), "model.norm": (D,), "lm_head": (VOCAB, D)}
    shapes |= {f"model.layers.{i}.{name}": size for i in range(2) for name, size in layer.items()}
    rng = np.random.default_rng(0)
    drawn = {f"{name}.weight": rng.standard_normal(size) for name, size in shapes.items()}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    save_file({k: v.astype(np.float32) for k, v in drawn.items()}, folder / "model.safetensors")
    return folder


with TemporaryDirectory() as name:
    one = write(Path(name) / "one")
    two = move(one, Path(name) / "two", seed=1).directory
    found = same(one, two)
    print(f"{found.verdict}; {found.reason}")
    print(f"outputs on random tokens differ by {found.outputs:.0e}, relative")
    for which in (one, two):
        canonical(which, Path(name) / f"{which.name}-normal")
    files = [load_file(Path(name) / f"{x}-normal" / "model.safetensors") for x in ("one", "two")]
    gap = max(np.abs(files[0][key] - files[1][key]).max() for key in files[0])
    print(f"entries of the two normal forms differ by at most {gap:.0e}; below 1e-4: {gap < 1e-4}")
