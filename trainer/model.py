"""A decoder-only transformer whose parameters are nothing but matrices.

RMSNorm has no parameters, there are no biases, and the output head is not tied to the token
embedding. Parameters stand in the order in which a checkpoint holds them: token embedding,
position embedding, per layer attention (query, key, value, output) and MLP (up, down), head.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812 - the name everyone knows it by
from torch import Tensor, nn
from typing_extensions import override

from trainer.contract.settings import Shape

_SPREAD = 0.02


def _norm(x: Tensor) -> Tensor:
    return F.rms_norm(x, (x.size(-1),), eps=1e-5)


class Block(nn.Module):
    """One layer: ``x + attention(norm(x))``, then ``x + mlp(norm(x))``."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Parameter(torch.empty(3 * width, width))
        self.out = nn.Parameter(torch.empty(width, width))
        self.up = nn.Parameter(torch.empty(4 * width, width))
        self.down = nn.Parameter(torch.empty(width, 4 * width))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """``x`` is [batch, time, width], and so is the result."""
        batch, time, width = x.shape
        qkv = F.linear(_norm(x), self.qkv).view(batch, time, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, time, width), self.out)
        return x + F.linear(F.relu(F.linear(_norm(x), self.up)), self.down)


class Head(nn.Module):
    """The output head; a module, since a module's own parameters come before its children's."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocabulary, width))

    @override
    def forward(self, x: Tensor) -> Tensor:
        """``x`` is [batch, time, width], the result [batch, time, vocabulary]."""
        return F.linear(_norm(x), self.weight)


class Transformer(nn.Module):
    """From tokens to the loss of predicting each next one."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Parameter(torch.empty(shape.vocabulary, shape.width))
        self.positions = nn.Parameter(torch.empty(shape.context, shape.width))
        self.layers = nn.ModuleList(Block(shape.width, shape.heads) for _ in range(shape.layers))
        self.head = Head(shape.vocabulary, shape.width)

    @torch.no_grad()
    def initialise(self, seed: int) -> None:
        """Draw all parameters; what ends on the residual stream is drawn narrower."""
        generator = torch.Generator().manual_seed(seed)
        for name, parameter in self.named_parameters():
            narrow = name.endswith((".out", ".down"))
            spread = _SPREAD / math.sqrt(2 * self.shape.layers) if narrow else _SPREAD
            parameter.normal_(0.0, spread, generator=generator)

    def logits(self, tokens: Tensor) -> Tensor:
        """``tokens`` is int64 [batch, time]; the result [batch, time, vocabulary]."""
        x = F.embedding(tokens, self.tokens) + self.positions[: tokens.size(1)]
        for layer in self.layers:
            x = layer(x)
        logits: Tensor = self.head(x)
        return logits

    @override
    def forward(self, sequences: Tensor) -> Tensor:
        """Mean loss of each sequence: int64 [batch, time + 1] in, float32 [batch] out."""
        logits = self.logits(sequences[:, :-1]).float()
        losses = F.cross_entropy(logits.flatten(0, 1), sequences[:, 1:].flatten(), reduction="none")
        return losses.view(sequences.size(0), -1).mean(1)
