"""Ask for the page as a balancer does, until SIGTERM: one node after the other until one answers.

`probe.py HOSTS PAUSE_S`: HOSTS is a file with an address and a name a line, read in each round.
Says so after the first answer, and prints one line of JSON at its end: `rounds`, `errors` (rounds
in which no node answered), `messages` (the first few), `longest_s` (the longest time from one
answer to the next) and `answers` (how often each text came).
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
import time
import urllib.request
from collections import Counter
from pathlib import Path

MESSAGES = 5
TIMEOUT_S = 3.0


def main(hosts: Path, pause_s: float) -> int:
    """Ask until the signal; 1 if there was a round without an answer."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    answers: Counter[str] = Counter()
    messages, errors, longest_s = list[str](), 0, 0.0
    last = time.monotonic()
    for number in itertools.count():
        try:
            text = one_round(addresses(hosts), number)
        except OSError as error:
            errors += 1
            messages = [*messages, str(error)][:MESSAGES]
        else:
            now = time.monotonic()
            longest_s, last = max(longest_s, now - last), now
            answers[text] += 1
            if answers.total() == 1:
                print("at work", flush=True)
        if ended.wait(pause_s):
            break
    longest_s = max(longest_s, time.monotonic() - last)
    told = {"rounds": answers.total() + errors, "errors": errors, "messages": messages}
    print(json.dumps({**told, "longest_s": longest_s, "answers": answers}), flush=True)
    return 1 if errors else 0


def addresses(hosts: Path) -> list[str]:
    """Return the addresses in the file."""
    lines = hosts.read_text(encoding="utf-8").splitlines()
    return [line.split()[0] for line in lines if line and "localhost" not in line]


def one_round(targets: list[str], number: int) -> str:
    """Return the first answer; the node that is asked first is another one each round."""
    start = number % len(targets) if targets else 0
    problems = []
    for target in targets[start:] + targets[:start]:
        try:
            url = f"http://{target}/cgi-bin/health"
            with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
                return str(answer.read().decode().strip())
        except OSError as error:
            problems.append(f"{target}: {error}")
    raise OSError("; ".join(problems) or "there is no node")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
