"""The operator's files: ``run.toml`` and ``policy.toml``, read, checked and turned into values.

Unknown keys are refused, and every problem is reported at once: file, key, value, what is right.
"""

from supervisor.config.beginning import begin_with, changed, compare, problems
from supervisor.config.parsing import read_text
from supervisor.config.policy_file import (
    ArmBounds,
    PolicyFile,
    parse_policy,
    read_policy,
    recorded_policy,
)
from supervisor.config.reach import Change, Reach
from supervisor.config.run_file import RunFile
from supervisor.config.settings import Config, load

__all__ = [
    "ArmBounds",
    "Change",
    "Config",
    "PolicyFile",
    "Reach",
    "RunFile",
    "begin_with",
    "changed",
    "compare",
    "load",
    "parse_policy",
    "problems",
    "read_policy",
    "read_text",
    "recorded_policy",
]
