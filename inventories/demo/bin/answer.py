#!/usr/bin/env python3
"""A tiny web server: answer.py PORT (--config FILE | --ask PORT).

With --config it says the greeting that stood in the file when it was started. With --ask it passes
on what the server at that port says, and does not start if that one does not answer.
"""

from __future__ import annotations

import argparse
import configparser
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ADDRESS = "127.0.0.1"
TIMEOUT_S = 5.0


class Answering(BaseHTTPRequestHandler):
    """Answers every GET with what `say` returns, or 503 if it cannot."""

    def __init__(self, say: Callable[[], str], *args: object) -> None:
        self.say = say
        super().__init__(*args)  # type: ignore[arg-type]  # socketserver passes its own three

    def do_GET(self) -> None:
        """Answer."""
        try:
            status, text = 200, self.say()
        except urllib.error.URLError as error:
            status, text = 503, f"no answer: {error.reason}"
        self.send_response(status)
        self.end_headers()
        self.wfile.write(f"{text}\n".encode())

    def log_message(self, *_: object) -> None:
        """Stay quiet: the demo's client asks many times a second."""


def ask(port: int) -> str:
    """Return what the server at a port says."""
    with urllib.request.urlopen(f"http://{ADDRESS}:{port}/", timeout=TIMEOUT_S) as answer:
        return f"B heard: {answer.read().decode().strip()}"


def configured(path: Path) -> Callable[[], str]:
    """Read the configuration once; return what answers by it."""
    config = configparser.ConfigParser(interpolation=None)
    config.read_string(path.read_text(encoding="utf-8"))
    greeting = config["a"]["greeting"]
    return lambda: f"A says: {greeting}"


def main() -> None:
    """Serve until a signal ends it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--config", type=Path)
    source.add_argument("--ask", type=int)
    options = parser.parse_args()
    say = configured(options.config) if options.config else partial(ask, options.ask)
    say()
    ThreadingHTTPServer((ADDRESS, options.port), partial(Answering, say)).serve_forever()


if __name__ == "__main__":
    main()
