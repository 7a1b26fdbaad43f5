"""Looks at the numbers of a checkpoint by their bits, for every floating dtype that torch has.

numpy knows neither bfloat16 nor the 8-bit floats; a number's bits say for all of them alike
whether it is finite, negative or zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np


class _Bits(NamedTuple):
    """How a dtype says that a number is not finite, and that it is negative.

    ``number & mask == special`` says that it is not finite; ``sign`` is the bit of the sign, 0
    where there is none. ``kind`` is numpy's unsigned integer of that width, ``plain`` its float of
    the same bits, if any.
    """

    kind: str
    mask: int
    special: int
    sign: int
    plain: str = ""


_HALF: Final = _Bits("<u2", 0x7C00, 0x7C00, 0x8000, "<f2")
_SINGLE: Final = _Bits("<u4", 0x7F800000, 0x7F800000, 1 << 31, "<f4")
_DOUBLE: Final = _Bits("<u8", 0x7FF << 52, 0x7FF << 52, 1 << 63, "<f8")
_FLOATS: Final = {
    "float16": _HALF,
    "float32": _SINGLE,
    "float64": _DOUBLE,
    "complex32": _HALF,  # a complex number is two of them
    "complex64": _SINGLE,
    "complex128": _DOUBLE,
    "bfloat16": _Bits("<u2", 0x7F80, 0x7F80, 0x8000),
    "float8_e4m3fn": _Bits("<u1", 0x7F, 0x7F, 0x80),
    "float8_e5m2": _Bits("<u1", 0x7C, 0x7C, 0x80),
    "float8_e4m3fnuz": _Bits("<u1", 0xFF, 0x80, 0x80),
    "float8_e5m2fnuz": _Bits("<u1", 0xFF, 0x80, 0x80),
    "float8_e8m0fnu": _Bits("<u1", 0xFF, 0xFF, 0),
}


class Fault(NamedTuple):
    """A number that cannot be: its place among those given, what was expected, what was found."""

    at: int
    expected: str
    found: str


def is_floating(dtype: str) -> bool:
    """Whether the numbers of that dtype may be something else than finite."""
    return dtype in _FLOATS


def fault(data: memoryview, dtype: str, *, nonnegative: bool) -> Fault | None:
    """The first number that is not finite, or else, where asked for, that is below 0."""
    import numpy as np  # noqa: PLC0415 - only a process that looks at numbers loads it

    bits = _FLOATS[dtype]
    numbers = np.frombuffer(data, bits.kind)
    bad = (numbers & bits.mask) == bits.special
    if bad.any():
        return _fault(numbers, int(bad.argmax()), dtype, "a finite number")
    if nonnegative and bits.sign:
        bad = numbers > bits.sign  # the sign alone is a zero
        if bad.any():
            return _fault(numbers, int(bad.argmax()), dtype, "0 or more")
    return None


def any_nonzero(data: memoryview, dtype: str) -> bool:
    """Whether any of the numbers is another one than 0."""
    import numpy as np  # noqa: PLC0415 - only a process that looks at numbers loads it

    bits = _FLOATS[dtype]
    numbers = np.frombuffer(data, bits.kind)
    return bool((numbers & (bits.sign - 1)).any()) if bits.sign else bool(len(numbers))


def _fault(numbers: np.ndarray[Any, Any], at: int, dtype: str, expected: str) -> Fault:
    bits = _FLOATS[dtype]
    one = numbers[at : at + 1]
    if bits.plain:
        found = str(float(one.view(bits.plain)[0]))
    elif dtype == "bfloat16":
        found = str(float((one.astype("<u4") << 16).view("<f4")[0]))
    else:
        found = f"the bits {int(one[0]):#04x} of a {dtype}"
    place = at // 2 if dtype.startswith("complex") else at
    return Fault(place, expected, found)
