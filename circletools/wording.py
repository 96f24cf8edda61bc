"""Numbers for people."""

from __future__ import annotations


def milliseconds(time_ns: int) -> str:
    """Write a time in milliseconds, to the microsecond."""
    return f"{time_ns / 1e6:z,.3f}"


def microseconds(time_ns: int) -> str:
    """Write a time in microseconds, to the nanosecond."""
    whole, rest = divmod(abs(time_ns), 1000)
    return f"{'-' * (time_ns < 0)}{whole}.{rest:03}"


def counted(count: int, what: str, many: str | None = None) -> str:
    """Write how many there are of something, as in `1 run` and `2,000 runs`; `many` where an `s` does not do."""
    return f"{count:,} {what if count == 1 else many or what + 's'}"
