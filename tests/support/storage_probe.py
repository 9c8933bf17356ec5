"""Write, sync and read back files in a folder until a line comes in; then say what was seen.

Runs on a host, with nothing but Python; the folder is the only argument.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from pathlib import Path

FILES = 50
PAUSE_S = 0.05


def work(folder: Path, number: int) -> None:
    """One round: replace a file, and read it and an earlier one back; OSError tells the trouble."""
    path, text = folder / f"file{number % FILES}", f"round {number}\n"
    with path.open("w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    if path.read_text() != text:
        raise OSError(f"{path.name} does not say what was written")
    earlier = number - FILES // 2
    found = folder / f"file{earlier % FILES}"
    if earlier >= 0 and found.read_text() != f"round {earlier}\n":
        raise OSError(f"{found.name} does not say what was written before")


def main() -> None:
    """Work until a line or the end of standard input."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    rounds, longest, errors = 0, 0.0, []
    print("ready", flush=True)  # noqa: T201 - what the test waits for
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        began = time.monotonic()
        try:
            work(folder, rounds)
        except OSError as error:
            errors.append(f"round {rounds}: {error}")
        longest = max(longest, time.monotonic() - began)
        rounds += 1
    print(json.dumps({"rounds": rounds, "errors": errors, "longest_s": longest}))  # noqa: T201


if __name__ == "__main__":
    main()
