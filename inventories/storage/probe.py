"""Use a volume as a client does, until SIGTERM: write, flush, read back; tell of errors and gaps.

`probe.py FOLDER PAUSE_S` prints one line of JSON at its end: `rounds`, `errors` (their number),
`messages` (the first few) and `longest_s`, the longest time from one success to the next.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

FILES = 40
MESSAGES = 5


def main(folder: Path, pause_s: float) -> int:
    """Work in `folder`, which is made, until the signal; says so after the first round."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    folder.mkdir(exist_ok=True)
    messages, errors, longest_s = list[str](), 0, 0.0
    one_round(folder / "file0", b"0\n")
    rounds, last = 1, time.monotonic()
    print("at work", flush=True)
    while not ended.wait(pause_s):
        try:
            one_round(folder / f"file{rounds % FILES}", f"{rounds}\n".encode())
        except OSError as error:
            errors += 1
            messages = [*messages, str(error)][:MESSAGES]
        else:
            now = time.monotonic()
            longest_s, last = max(longest_s, now - last), now
        rounds += 1
    longest_s = max(longest_s, time.monotonic() - last)
    told = {"rounds": rounds, "errors": errors, "messages": messages, "longest_s": longest_s}
    print(json.dumps(told), flush=True)
    return 1 if errors else 0


def one_round(file: Path, text: bytes) -> None:
    """Write a file through to the volume and read it from there."""
    place = os.open(file, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    try:
        os.write(place, text)
        os.fsync(place)
        os.posix_fadvise(place, 0, 0, os.POSIX_FADV_DONTNEED)
        found = os.pread(place, len(text) + 1, 0)
    finally:
        os.close(place)
    if found != text:
        raise OSError(f"{file} holds {found!r} and not {text!r}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
