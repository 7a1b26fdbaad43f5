"""The trainer's sections of ``run.toml``: what each key means, its default and its bounds.

The supervisor embeds ``TrainerSections`` in its own model of the file, so both programs refuse
the same mistakes with the same words. Every model is frozen and refuses unknown keys.
"""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

# The same pattern as wire.ARM_NAME (a test compares them); contract modules stand alone.
ArmName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

RootName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")]


class Shape(NamedTuple):
    """The sizes that fix every parameter of the model."""

    vocabulary: int
    width: int
    heads: int
    layers: int
    context: int

    @property
    def n_params(self) -> int:
        """Parameters: two embeddings, 12 width^2 a layer, and a head of its own."""
        inside = 12 * self.width * self.width * self.layers
        return inside + (2 * self.vocabulary + self.context) * self.width


PRESETS: dict[str, Shape] = {
    "demo": Shape(vocabulary=256, width=128, heads=4, layers=4, context=128),
    "andrea-12m": Shape(vocabulary=2305, width=384, heads=12, layers=6, context=1024),
    "andrea-120m": Shape(vocabulary=8449, width=768, heads=12, layers=12, context=1024),
}


Background = Literal["auto", "copy", "live", "off"]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class ModelSettings(_Section):
    """``[model]``: a preset, and the sizes in which this run differs from it."""

    preset: Literal["demo", "andrea-12m", "andrea-120m"] = "demo"
    vocabulary: int | None = Field(default=None, ge=2, le=65536)
    width: int | None = Field(default=None, ge=1)
    heads: int | None = Field(default=None, ge=1)
    layers: int | None = Field(default=None, ge=1)
    context: int | None = Field(default=None, ge=2)

    @property
    def shape(self) -> Shape:
        """The preset with the overrides in place."""
        given = {name: getattr(self, name) for name in Shape._fields}
        return PRESETS[self.preset]._replace(
            **{name: value for name, value in given.items() if value is not None}
        )

    @model_validator(mode="after")
    def _heads_divide_the_width(self) -> ModelSettings:
        shape = self.shape
        if shape.width % shape.heads:
            raise ValueError(f"width {shape.width} is not a multiple of heads {shape.heads}")
        return self


class TrainSettings(_Section):
    """``[train]``: the optimizer, its schedule and how the arithmetic is done."""

    steps: int = Field(default=2000, ge=1)
    batch: int = Field(default=16, ge=1)  # sequences in one forward pass
    accumulate: int = Field(default=1, ge=1)  # forward passes in one step
    lr: float = Field(default=1e-3, gt=0)
    warmup_steps: int = Field(default=100, ge=0)
    final_lr_share: float = Field(default=0.1, ge=0, le=1)  # the cosine ends at this share of lr
    weight_decay: float = Field(default=0.1, ge=0)
    clip: float = Field(default=1.0, ge=0)  # bound of the gradient's norm; 0 leaves it alone
    seed: int = Field(default=0, ge=0, lt=2**63)
    device: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["auto", "fp32", "bf16"] = "auto"  # auto: bf16 autocast on CUDA, else fp32
    compile: bool = False
    deterministic: bool = True
    threads: int = Field(default=0, ge=0)  # 0: as many as torch chooses
    strict: bool = False  # refuse to resume under changed code, data, settings or libraries
    device_change: bool = False  # resume on another kind of device than the checkpoint was made on


class DataSettings(_Section):
    """``[data]``: whether one arm feeds a whole step or each sequence draws its own."""

    mix: Literal["step", "sequence"] = "step"


class SourceSettings(_Section):
    """``[sources.NAME]``: where an arm's documents are, relative to the run directory."""

    path: str = Field(min_length=1)
    kind: Literal["auto", "text", "jsonl", "tokens"] = "auto"
    field: str = Field(default="text", min_length=1)  # of a JSONL record


class CheckpointSettings(_Section):
    """``[checkpoint]``: the cadence, whichever of the two comes first; the format; what is kept.

    ``shard_roots`` are folders for shards outside the checkpoint's own, by name, relative to the
    run directory.
    """

    every_steps: int = Field(default=100, ge=1)
    every_seconds: float | None = Field(default=None, gt=0)
    format: Literal["bin", "pt", "sharded"] = "bin"
    shards: int = Field(default=4, ge=1, le=1000)  # of "sharded"
    split: Literal["by_size", "round_robin", "by_group"] = "by_size"  # of tensors over shards
    shard_roots: dict[RootName, Annotated[str, Field(min_length=1)]] = Field(default={})
    sigusr1: Literal["now", "boundary"] = "now"
    background: Background = "auto"  # beside training, from a copy or the live arrays; or not
    keep_last: int = Field(default=5, ge=2)  # with one, a bad newest would leave none
    keep_every: int = Field(default=10_000, ge=0)  # steps; 0: none is kept for this
    keep_audit: int = Field(default=10, ge=0)  # of those made on a signal or a request
    verify_at_start: Literal["newest", "all"] = "newest"  # read back before one is used: two or all


class SampleSettings(_Section):
    """``[samples]``: text drawn from the model every so many steps (0: never)."""

    every: int = Field(default=0, ge=0)
    prompts: tuple[str, ...] = Field(default=("The ",), strict=False)  # TOML has lists
    temperature: float = Field(default=0.8, ge=0)  # 0: the likeliest token each time
    length: int = Field(default=200, ge=1, le=100_000)  # tokens drawn per prompt
    seed: int = Field(default=0, ge=0, lt=2**63)


class EvaluateSettings(_Section):
    """``[evaluate]``: loss on documents that are never trained on (0: never)."""

    every: int = Field(default=0, ge=0)
    sequences: int = Field(default=16, ge=1)  # per arm
    holdout: float = Field(default=0.0, ge=0, le=0.5)  # share of each arm's documents


class TrainerSections(_Section):
    """All sections of ``run.toml`` that are the trainer's, with the checks that cross them."""

    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()
    data: DataSettings = DataSettings()
    sources: dict[ArmName, SourceSettings] = Field(default_factory=dict)
    checkpoint: CheckpointSettings = CheckpointSettings()
    samples: SampleSettings = SampleSettings()
    evaluate: EvaluateSettings = EvaluateSettings()

    @field_validator("samples")
    @classmethod
    def _samples_fall_on_the_cadence(
        cls, samples: SampleSettings, info: ValidationInfo
    ) -> SampleSettings:
        cadence = info.data.get("checkpoint")
        if cadence is not None and samples.every % cadence.every_steps:
            raise ValueError(
                f"every = {samples.every} is not a multiple of checkpoint.every_steps = "
                f"{cadence.every_steps}, so some samples would belong to no checkpoint"
            )
        if samples.every and not samples.prompts:
            raise ValueError(f"every = {samples.every}, but prompts is empty")
        return samples

    @field_validator("evaluate")
    @classmethod
    def _evaluation_has_documents(cls, evaluate: EvaluateSettings) -> EvaluateSettings:
        if evaluate.every and not evaluate.holdout:
            raise ValueError(
                f"every = {evaluate.every}, but holdout = 0.0 keeps no document for it"
            )
        return evaluate
