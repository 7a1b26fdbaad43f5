"""Decide which shard each key of a model goes to.

``round_robin`` deals the keys out, one after another. ``by_group`` keeps ``.weight``, ``.bias``
and the rest apart. ``by_size`` gives each key, largest first, to the shard that holds least.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Final, Literal

from trainer.full_state.errors import StructureError

Split = Literal["round_robin", "by_group", "by_size"]
_GROUPS: Final = (".weight", ".bias")
_USUAL: Final = 4


def split_keys(sizes: Mapping[str, int], split: Split, shards: int | None) -> list[list[str]]:
    """The keys of each shard, in the model's order; none is empty.

    ``sizes`` are the bytes behind each key. ``shards=None`` means four, or as many as there are
    keys or groups. Raises StructureError where they cannot be filled or told apart.
    """
    count = shards if shards is not None else _fitting(sizes, split)
    if not 0 < count <= len(sizes):
        raise StructureError(
            f"cannot split {len(sizes)} keys into {count} shards: choose 1 to {len(sizes)}"
        )
    match split:
        case "round_robin":
            return [list(sizes)[at::count] for at in range(count)]
        case "by_size":
            return _balanced(sizes, count)
        case "by_group":
            return _grouped(sizes, count)
    raise StructureError(f"cannot split by {split!r}: choose round_robin, by_size or by_group")


def _fitting(sizes: Mapping[str, int], split: Split) -> int:
    return len(_by_suffix(sizes)) if split == "by_group" else min(_USUAL, len(sizes))


def _by_suffix(sizes: Mapping[str, int]) -> list[dict[str, int]]:
    """Those that end in .weight, those in .bias, and the rest, where there are any."""
    groups: dict[str, dict[str, int]] = {suffix: {} for suffix in (*_GROUPS, "")}
    for key, size in sizes.items():
        suffix = next((suffix for suffix in _GROUPS if f".{key}".endswith(suffix)), "")
        groups[suffix][key] = size
    return [group for group in groups.values() if group]


def _balanced(sizes: Mapping[str, int], count: int) -> list[list[str]]:
    """No shard holds more than the average and the largest key together."""
    order = {key: at for at, key in enumerate(sizes)}
    filled = [(0, at) for at in range(count)]
    parts: list[list[str]] = [[] for _ in filled]
    for key in sorted(sizes, key=lambda key: (-sizes[key], order[key])):
        least, at = heapq.heappop(filled)
        parts[at].append(key)
        # A key without bytes counts a little, so that no shard stays empty.
        heapq.heappush(filled, (least + max(sizes[key], 1), at))
    return [sorted(part, key=order.__getitem__) for part in parts]


def _grouped(sizes: Mapping[str, int], count: int) -> list[list[str]]:
    """One shard for each group; those that are left go to the group with the largest shards."""
    groups = _by_suffix(sizes)
    if count < len(groups):
        raise StructureError(
            f"cannot split by group into {count} shards: there are {len(groups)} groups "
            "(.weight, .bias, the rest)"
        )
    given = [1] * len(groups)
    for _ in range(count - len(groups)):
        open_ones = [at for at, group in enumerate(groups) if given[at] < len(group)]
        most = max(open_ones, key=lambda at: sum(groups[at].values()) / given[at])
        given[most] += 1
    return [part for group, n in zip(groups, given, strict=True) for part in _balanced(group, n)]
