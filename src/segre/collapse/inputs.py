"""Token sequences to run a model on: see `segre.checkpoint.inputs`."""

from segre.checkpoint.inputs import Inputs, random_tokens, read_text, token_name

__all__ = ["Inputs", "random_tokens", "read_text", "token_name"]
