"""Models of the transformers library, run in double precision, and their weights as segre's vector.

Weights go by way of files: the library writes its model, segre reads it. Constant factors that
specs leave out are folded into the weights, as in `segre.checkpoint.outputs`.
"""

from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import transformers
from bench.double import Double
from torch import Tensor, nn

from segre.checkpoint.model import Model
from segre.transformer.forward import query_factors
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()


def library_output(model: nn.Module, spec: Transformer, inputs: Any) -> Tensor:
    """What the library computes, as segre arranges it: tokens are columns."""
    if spec.read == "last":  # without padding the library takes one sequence at a time
        alone = [{k: v[i : i + 1] for k, v in inputs.items()} for i in range(_count(inputs))]
        with Double():
            every = [model(**each).logits for each in alone]
        return _distributed(torch.cat(every), spec)[..., None]
    with Double():
        found = model(**inputs)
    if spec.relation:
        return _with_relation(found, spec)
    if spec.output == "hidden":
        columns = found.last_hidden_state
        if spec.pooler:
            columns = torch.cat([columns, found.pooler_output[:, None]], dim=1)
        return columns.transpose(1, 2)
    if "start_logits" in found:  # question answering
        return torch.stack([found.start_logits, found.end_logits], dim=1)
    logits = found.logits
    if spec.labels == 1 and spec.read == "all" and logits.ndim == 2:  # ElectraForPreTraining
        logits = logits[..., None]
    columns = _distributed(logits, spec)
    return columns.transpose(1, 2) if spec.read == "all" else columns[..., None]


def _with_relation(found: Any, spec: Transformer) -> Tensor:
    """The vocabulary of every token, and the labels of the pooled one in the first rows."""
    words = _distributed(found.prediction_logits, spec)
    name = next(key for key in ("seq_relationship_logits", "sop_logits") if key in found)
    room = torch.zeros(len(words), 1, spec.vocab, dtype=words.dtype)
    room[:, 0, : spec.relation] = _distributed(found[name], spec)
    return torch.cat([words, room], dim=1).transpose(1, 2)


def _count(inputs: Any) -> int:
    return len(next(iter(inputs.values())))


def _distributed(logits: Tensor, spec: Transformer) -> Tensor:
    return logits.softmax(dim=-1) if spec.output == "softmax" else logits


def weights_of(model: nn.Module, spec: Transformer) -> np.ndarray:
    """The vector of weights with which `spec` is the function of a model of the library."""
    with TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        with Model.open(folder) as found:
            assert replace(found.spec, output=spec.output, t=spec.t) == spec
            held = {part: found.part(part) for part in found.parts}
    factor = spec.standard**-0.5

    def scale(part: str, name: str) -> float:
        return factor if name in query_factors(spec.at(part)) else 1

    every = [held[part][name] * scale(part, name) for part, name in tensors(spec)]
    return np.concatenate([tensor.ravel() for tensor in every])


def weight_vector(model: nn.Module, spec: Transformer) -> Tensor:
    """The same vector, so that torch can differentiate it by the model's parameters.

    Each weight is a multiple of one parameter, and a constant. Which one is seen from the vectors
    of the model when all parameters are 0, all are 1, and each is its own number.
    """
    parameters = list({id(p): p for p in model.parameters()}.values())
    before = [p.detach().clone() for p in parameters]
    count = sum(p.numel() for p in parameters)
    probes = (torch.zeros(count), torch.ones(count), torch.arange(count))
    found = []
    for probe in probes:
        for p, value in zip(parameters, _split(probe.double(), parameters), strict=True):
            p.data.copy_(value)
        found.append(torch.tensor(weights_of(model, spec)))
    for p, value in zip(parameters, before, strict=True):
        p.data.copy_(value)
    constant, factor = found[0], found[1] - found[0]
    index = ((found[2] - constant) / factor).round().long()
    return factor * torch.cat([p.flatten() for p in parameters])[index] + constant


def _split(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    pieces = flat.split([p.numel() for p in like])
    return [piece.reshape(p.shape) for piece, p in zip(pieces, like, strict=True)]
