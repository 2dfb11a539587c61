"""OLMo 2: a llama with norms after attention and MLP, and of all queries and keys together."""

from __future__ import annotations

from segre.models import llama
from segre.models.family import Values
from segre.models.stored import norm

_OLMO_2: Values = {"rope_theta": 500000.0, "rms_norm_eps": 1e-6}
FAMILY = llama.family(
    "olmo2",
    "Olmo2",
    labels=1,
    defaults=llama.sizes(
        *(32, 4096, 11008, 32, None, 50304, 2048), rms_norm_eps=1e-5, attention_bias=False
    ),
    tensors=llama.layout(
        {
            **llama.attention(),
            **norm("post_attention_layernorm", "post1"),
            **llama.GATED,
            **norm("post_feedforward_layernorm", "post2"),
        }
    ),
    choices={**llama.CHOICES, "place": "after", "qknorm": "all"},
    models={
        "olmo-2-1b": llama.sizes(16, 2048, 8192, 16, 16, 100352, 4096, **_OLMO_2),
        "olmo-2-7b": llama.sizes(32, 4096, 11008, 32, 32, 100352, 4096, **_OLMO_2),
        "olmo-2-13b": llama.sizes(40, 5120, 13824, 40, 40, 100352, 4096, **_OLMO_2),
    },
)
