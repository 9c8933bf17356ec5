"""Streams that are closed, full or narrow end in one message or in silence."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

import pytest

from cobweb.cli import main
from cobweb.cli._streams import flush_stdout, forget_stdout, prepare_streams, write_stdout
from cobweb.errors import CobwebError


class _Broken(io.StringIO):
    """A stream whose every write fails."""

    def __init__(self, error: OSError) -> None:
        super().__init__()
        self._error = error

    def write(self, _text: str) -> int:
        raise self._error

    def flush(self) -> None:
        raise self._error


@pytest.mark.parametrize("act", [lambda: write_stdout("x"), flush_stdout])
def test_a_failed_write_is_an_error_with_its_cause(
    monkeypatch: pytest.MonkeyPatch, act: object
) -> None:
    monkeypatch.setattr(sys, "stdout", _Broken(OSError(28, "No space left on device")))
    assert callable(act)
    with pytest.raises(CobwebError, match="standard output: No space left"):
        act()


def test_a_closed_pipe_ends_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", _Broken(BrokenPipeError(32, "Broken pipe")))
    assert main(["schema"]) == 1
    assert capsys.readouterr().err == ""


def test_closed_streams_become_silent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    prepare_streams()
    with sys.stdout, sys.stderr:
        write_stdout("lost")
        assert (sys.stdout.name, sys.stderr.name) == (os.devnull, os.devnull)
        with pytest.raises(CobwebError, match="standard output: it is closed"):
            flush_stdout()


@pytest.mark.parametrize("words", [["schema"], ["--help"], ["plan", "--help"], ["schema", "lost"]])
def test_what_a_closed_stream_has_lost_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    code = main(words)
    with sys.stdout:
        assert code == (64 if "lost" in words else 1)  # who is refused was to get no data
    assert ("standard output: it is closed" in capsys.readouterr().err) is (code == 1)


def test_a_narrow_stream_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii") as narrow:
        monkeypatch.setattr(sys, "stdout", narrow)
        prepare_streams()
        write_stdout("größe")
        flush_stdout()
        assert raw.getvalue() == b"gr\\xf6\\xdfe"


def test_a_forgotten_stream_takes_what_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with (tmp_path / "out").open("w", encoding="utf-8") as file:
        monkeypatch.setattr(sys, "stdout", file)
        file.write("left")
        forget_stdout()
    assert (tmp_path / "out").read_text(encoding="utf-8") == ""
