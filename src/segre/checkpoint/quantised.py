"""Are the weights of a checkpoint quantised? Such files hold codes and scales, and are refused."""

from __future__ import annotations

from segre.checkpoint.reading import refusal
from segre.checkpoint.store import Store
from segre.values import quote

# How names end in files of each method, where a config does not say which it is.
_ENDINGS = {
    "mxfp4": ("_blocks", "_scales"),
    "GPTQ or AWQ": (".qweight", ".qzeros", ".g_idx", ".scales"),
    "bitsandbytes": (".SCB", ".absmax", ".quant_map", ".nested_absmax", ".weight_format"),
    "fp8": (".weight_scale_inv", ".weight_scale", ".input_scale"),
    "compressed-tensors": (".weight_packed", ".weight_shape"),
    "hqq": (".W_q",),
}
_INSIDE = {"bitsandbytes": ".quant_state."}


def require_plain(store: Store) -> None:
    """Refuse quantised weights in one line that says so."""
    method = _said(store) or next(filter(None, map(_by_name, store.entries)), "")
    if not method:
        return
    first = next((name for name in store.entries if _by_name(name)), "")
    example = f"; tensor {quote(first)} is one of its codes or scales" if first else ""
    raise refusal(
        store.name,
        f"its weights are quantised ({method}){example}; allowed: floating point; load the model "
        "with dequantised weights and write it with save_pretrained",
    )


def _said(store: Store) -> str:
    """The method that the config names."""
    given = store.config.get("quantization_config")
    if not given:
        return ""
    named = given.get("quant_method") if isinstance(given, dict) else None
    return quote(named) if isinstance(named, str) and named else "quantization_config"


def _by_name(name: str) -> str:
    """The method whose files have tensors with this name."""
    for method, inside in _INSIDE.items():
        if inside in name:
            return method
    return next((method for method, ends in _ENDINGS.items() if name.endswith(ends)), "")
