"""Look at the model without touching its training: text drawn from it, and loss on kept-out data.

Draws come from a generator made for one prompt of one step, so the training's generators are left
alone and the same step always gives the same text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from trainer.contract.settings import SampleSettings
from trainer.data import Arm
from trainer.device import Compute
from trainer.model import Transformer
from trainer.sources import SEPARATOR, SourceError

Stopping = Callable[[], bool]
_BYTES = 256


@torch.no_grad()
def draw(
    model: Transformer, compute: Compute, settings: SampleSettings, step: int, stopping: Stopping
) -> Iterable[tuple[str, str]]:
    """A text for each prompt; a text ends early at the end of a document.

    Yields prompt and text. Leaves off when ``stopping``.
    """
    for number, prompt in enumerate(settings.prompts):
        generator = torch.Generator(compute.device)
        generator.manual_seed((settings.seed * 1_000_003 + step * 1_009 + number) % 2**63)
        tokens = _encode(prompt, model.shape.vocabulary) or [SEPARATOR]
        begin = len(tokens)
        while len(tokens) < begin + settings.length:
            if stopping():
                return
            window = torch.tensor([tokens[-model.shape.context :]], device=compute.device)
            with compute.autocast():
                logits = model.logits(window)[0, -1].float()
            token = _choose(logits, settings.temperature, generator)
            if token == SEPARATOR:
                break
            tokens.append(token)
        yield prompt, _decode(tokens[begin:])


@torch.no_grad()
def evaluate(
    model: Transformer,
    compute: Compute,
    arms: Iterable[Arm],
    sequences: int,
    batch: int,
    stopping: Stopping,
) -> dict[str, float | None] | None:
    """Mean loss per arm on documents that training never sees.

    None for an arm that keeps none out, or whose loss is not finite.

    None altogether when ``stopping``.
    """
    losses: dict[str, float | None] = {}
    for arm in arms:
        losses[arm.name] = None
        try:
            held = arm.held_out(sequences)
        except SourceError:
            continue
        if held is None:
            continue
        total = 0.0
        sequences_held = torch.from_numpy(held.astype("int64"))
        for start in range(0, len(held), batch):
            if stopping():
                return None
            with compute.autocast():
                part = sequences_held[start : start + batch].to(compute.device)
                total += float(model(part).sum())
        losses[arm.name] = total / len(held) if math.isfinite(total) else None
    return losses


def _choose(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    if not temperature:
        return int(logits.argmax())
    shares = torch.softmax(logits / temperature, dim=-1)
    if not bool(torch.isfinite(shares).all()):
        return SEPARATOR
    return int(torch.multinomial(shares, 1, generator=generator))


def _encode(text: str, vocabulary: int) -> list[int]:
    return [byte for byte in text.encode() if byte < vocabulary]


def _decode(tokens: list[int]) -> str:
    """Bytes as text; a token that is no byte is shown by its number."""
    parts: list[bytes] = [
        bytes([token]) if token < _BYTES else f"<{token}>".encode() for token in tokens
    ]
    return b"".join(parts).decode("utf-8", "replace")
