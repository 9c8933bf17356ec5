"""The log of `-v`: lines on standard error, as text or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from cobweb._text import plain
from cobweb.cli._request import Format, Request
from cobweb.cli._text import escaped_json

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


@contextmanager
def logging_of(request: Request) -> Iterator[None]:
    """Let the loggers under `cobweb` write as the options say, for as long as the context lasts."""
    logger = logging.getLogger("cobweb")
    handler = _Handler()
    handler.setFormatter(_Json() if request.log_format is Format.JSON else _Text())
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(_LEVELS[min(request.verbosity, len(_LEVELS) - 1)])
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class _Handler(logging.Handler):
    """Writes to what standard error is at that moment."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record as one line."""
        sys.stderr.write(self.format(record) + "\n")


class _Text(logging.Formatter):
    """`12:30:00 info cobweb.cli: message`."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line; control characters are made visible."""
        when = time.strftime("%H:%M:%S", time.localtime(record.created))
        return plain(f"{when} {record.levelname.lower()} {record.name}: {record.getMessage()}")


class _Json(logging.Formatter):
    """One JSON object: time (seconds since the epoch), level, logger, message."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line."""
        data = {
            "time": round(record.created, 6),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return escaped_json(json.dumps(data, ensure_ascii=False))
