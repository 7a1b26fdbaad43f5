"""Builds plain values and tensors from the opcodes of a torch.save file, and nothing else.

The set is closed: containers, numbers, text, bytes, and the few names by which torch describes a
tensor. A name is only a word here: nothing is imported, nothing is called.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, NoReturn

from supervisor.sidecars.checkpoints.torch_calls import CALLS, WORDS, Name
from supervisor.sidecars.checkpoints.torch_tensor import (
    Storage,
    Tensor,
    storage,
    tensor,
)
from supervisor.sidecars.checkpoints.torch_zip import Entry
from trainer.contract.checkpoint_format import CheckpointFormatError

_MOST_COPIED: Final = 1 << 28  # bytes and items: what is copied may be copied again and again
_MOST_KEY: Final = 1 << 31  # keys beyond it could be chosen to make a dict slow
# Each costs the reader up to fifty times the bytes that it takes in the file.
_MOST_CONTAINERS: Final = 1 << 20
_MOST_KEYS: Final = 1 << 20  # in all dictionaries
_MOST_REMEMBERED: Final = 1 << 21
_DEEPEST: Final = 10_000  # marks that are open
_MOST_FLOATS: Final = 10_000  # keys that are: likewise
_KEYS: Final = (str, bool, float, bytes, type(None))
_MOST_PARTS: Final = 16  # of a key that is a tuple
_MOST_TOLD: Final = 80
_UNPICKLING: Final = "which would need unpickling"


class Interpreter:
    """Takes one opcode after the other; ``entries`` are the container's, ``path`` for messages."""

    def __init__(self, entries: dict[str, Entry], path: str) -> None:
        self._entries = entries
        self._path = path
        self._stack: list[Any] = []
        self._below: list[list[Any]] = []  # the stacks under each mark
        self._memo: dict[int, Any] = {}
        self._copied = self._containers = self._keys = 0
        self._floats = 0

    def take(self, opcode: str, argument: Any, count: int) -> None:  # noqa: ANN401 - what genops gives
        """Carry out the opcode that is number ``count``. Raises CheckpointFormatError."""
        act = _ACTS.get(opcode)
        if act is None:
            self.refuse(f"the opcode {opcode}, {_UNPICKLING}")
        try:
            act(self, argument)
        except (IndexError, KeyError):
            self.refuse(f"the opcode {opcode} (number {count}) without what it needs")

    def result(self) -> Any:  # noqa: ANN401 - any plain value
        """What the opcodes have built. Raises CheckpointFormatError."""
        if len(self._stack) != 1 or self._below:
            self.refuse("an end with more or less than one value")
        return self._stack[0]

    def refuse(self, what: str) -> NoReturn:
        """Raise CheckpointFormatError: ``what`` was found."""
        raise CheckpointFormatError(self._path, "data.pkl", "plain values and tensors", what)

    # ------------------------------------------------------------ opcodes

    def push(self, value: Any) -> None:  # noqa: ANN401 - any plain value
        """Put a value on the stack."""
        self._stack.append(value)

    def hold(self, container: Any) -> None:  # noqa: ANN401 - as above
        """Put a container on the stack. Raises CheckpointFormatError for more than any use has."""
        self._containers += 1
        if self._containers > _MOST_CONTAINERS:
            self.refuse(f"more than {_MOST_CONTAINERS} containers")
        self._stack.append(container)

    def mark(self, _: Any) -> None:  # noqa: ANN401 - no argument
        """Begin a stack of its own."""
        if len(self._below) > _DEEPEST:
            self.refuse("more marks open than any use has")
        self._below.append(self._stack)
        self._stack = []

    def marked(self) -> list[Any]:
        """End the stack that the last mark began, and what stood on it."""
        items, self._stack = self._stack, self._below.pop()
        return items

    def put(self, index: int) -> None:
        """Remember what is on top."""
        self._memo[index] = self._stack[-1]
        if len(self._memo) > _MOST_REMEMBERED:
            self.refuse("more values remembered than any use has")

    def get(self, index: int) -> None:
        """Put what was remembered on top."""
        self._stack.append(self._memo[index])

    def pop(self, _: Any) -> None:  # noqa: ANN401 - no argument
        """Drop what is on top."""
        self._stack.pop()

    def popped(self, count: int) -> list[Any]:
        """Take the ``count`` values on top."""
        if len(self._stack) < count:
            raise IndexError
        items = self._stack[-count:]
        del self._stack[-count:]
        return items

    def append(self, items: list[Any]) -> None:
        """Add to the list on top."""
        if type(self._stack[-1]) is not list:
            self.refuse("values added to what is no list")
        self._stack[-1].extend(items)

    def set_items(self, items: list[Any]) -> None:
        """Add keys and values, by turns, to the dictionary on top."""
        target = self._stack[-1]
        if not isinstance(target, dict) or len(items) % 2:
            self.refuse("keys set in what is no dictionary")
        for key in items[::2]:
            self._check_key(key)
        target.update(zip(items[::2], items[1::2], strict=True))

    def name(self, argument: str) -> None:
        """Mention a name: one of those that torch describes tensors with."""
        dotted = ".".join(argument.split(" "))
        if dotted not in WORDS:
            self.refuse(f"the name {dotted[:_MOST_TOLD]}, {_UNPICKLING}")
        self._stack.append(Name(dotted))

    def persistent(self, _: Any) -> None:  # noqa: ANN401 - no argument
        """Describe a storage."""
        words = self._stack.pop()
        if not isinstance(words, tuple):
            self.refuse("a storage that is not described")
        self._stack.append(storage(words, self._entries, self._path))

    def reduce(self, _: Any) -> None:  # noqa: ANN401 - no argument
        """Make a value of one of the known kinds from a name and its arguments."""
        arguments = self._stack.pop()
        self.hold(self._made(self._stack.pop(), arguments))

    def build(self, _: Any) -> None:  # noqa: ANN401 - no argument
        """Attributes, which a module's ordered dictionary has and nothing here needs."""
        state = self._stack.pop()
        if type(self._stack[-1]) is not OrderedDict or not isinstance(state, dict):
            self.refuse(f"attributes of an object, {_UNPICKLING}")

    # ------------------------------------------------------------ values

    def _made(self, name: Any, arguments: Any) -> Any:  # noqa: ANN401 - from a file
        make = CALLS.get(name) if type(name) is Name else None
        if make is None or not isinstance(arguments, tuple):
            self.refuse(f"a call of something else, {_UNPICKLING}")
        made = make(self, arguments)
        if made is NotImplemented:
            self.refuse(f"{name} with arguments that are not known, {_UNPICKLING}")
        return made

    def copy(self, count: int) -> None:
        """Count what is copied. Raises CheckpointFormatError for more than any use has."""
        self._copied += count
        if self._copied > _MOST_COPIED:
            self.refuse("more copies of one value than any use has")

    def check_keys(self, keys: list[Any]) -> None:
        """Raise CheckpointFormatError unless each can be a key in bounded time."""
        for key in keys:
            self._check_key(key)

    def _check_key(self, key: Any) -> None:  # noqa: ANN401 - from a file
        self._keys += 1
        if self._keys > _MOST_KEYS:
            self.refuse(f"more than {_MOST_KEYS} keys")
        parts = key if type(key) is tuple else (key,)
        if len(parts) > _MOST_PARTS:
            self.refuse(f"a key of {len(parts)} parts")
        for part in parts:
            if type(part) is int and -_MOST_KEY <= part < _MOST_KEY:
                continue
            if type(part) is float:
                self._floats += 1
            if type(part) not in _KEYS or self._floats > _MOST_FLOATS:
                self.refuse(f"a key that is {type(part).__name__}")

    def tensor(self, where: Any, place: tuple[Any, Any, Any], dtype: str = "") -> Tensor:  # noqa: ANN401 - from a file
        """A tensor in a storage. Raises CheckpointFormatError."""
        if not isinstance(where, Storage):
            self.refuse("a tensor without a storage")
        return tensor(where, place, dtype, self._path)


_ACTS: Final[dict[str, Callable[[Interpreter, Any], None]]] = {
    "PROTO": lambda _machine, _argument: None,
    "NONE": Interpreter.push,
    "NEWTRUE": lambda machine, _: machine.push(value=True),
    "NEWFALSE": lambda machine, _: machine.push(value=False),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), Interpreter.push),
    "BINUNICODE": Interpreter.push,
    "EMPTY_TUPLE": lambda machine, _: machine.hold(()),
    "EMPTY_LIST": lambda machine, _: machine.hold([]),
    "EMPTY_DICT": lambda machine, _: machine.hold({}),
    "MARK": Interpreter.mark,
    "POP": Interpreter.pop,
    "TUPLE": lambda machine, _: machine.hold(tuple(machine.marked())),
    "TUPLE1": lambda machine, _: machine.hold(tuple(machine.popped(1))),
    "TUPLE2": lambda machine, _: machine.hold(tuple(machine.popped(2))),
    "TUPLE3": lambda machine, _: machine.hold(tuple(machine.popped(3))),
    "APPEND": lambda machine, _: machine.append(machine.popped(1)),
    "APPENDS": lambda machine, _: machine.append(machine.marked()),
    "SETITEM": lambda machine, _: machine.set_items(machine.popped(2)),
    "SETITEMS": lambda machine, _: machine.set_items(machine.marked()),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), Interpreter.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), Interpreter.get),
    "GLOBAL": Interpreter.name,
    "BINPERSID": Interpreter.persistent,
    "REDUCE": Interpreter.reduce,
    "BUILD": Interpreter.build,
}
