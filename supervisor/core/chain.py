"""The hash chain that ties every line of a record to all bytes before it.

A line's chain is the first 32 hex digits of SHA-256 over the previous chain's 32 characters and
all bytes since the previous whole line, a torn piece included, up to this line's ``,"chain"``.
"""

from __future__ import annotations

from hashlib import sha256

START = "0" * 32
TAIL_BYTES = len(',"chain":"') + 32 + len('"}')


def link(previous: str, body: bytes) -> str:
    """The chain of the line whose bytes up to ``,"chain"`` are ``body`` (torn bytes first)."""
    return sha256(previous.encode("ascii") + body).hexdigest()[:32]


def close(previous: str, body: bytes, torn: bytes = b"") -> tuple[bytes, str]:
    """The whole line, newline included, and its chain; ``body`` is an open JSON object."""
    chain = link(previous, torn + body)
    return b'%b,"chain":"%b"}\n' % (body, chain.encode("ascii")), chain


def stated(line: bytes) -> str | None:
    """The chain a whole line (without newline) states, or None where it has no such tail."""
    tail = line[-TAIL_BYTES:]
    if tail[:10] != b',"chain":"' or tail[-2:] != b'"}':
        return None
    return tail[10:-2].decode("ascii", "replace")
