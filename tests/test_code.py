"""Code is told apart by what is in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cobweb._code import code_of


@pytest.mark.parametrize("name", ["a.py", "part/b.py", "fast.so"])
def test_other_contents_of_the_same_size_and_time_are_other_code(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"one")
    before, status = code_of(tmp_path), path.stat()
    path.write_bytes(b"two")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    after = code_of(tmp_path)
    assert after != before
    assert [each.split()[0] for each in after] == [name]


def test_the_same_contents_at_another_time_are_the_same_code(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(b"one")
    before = [code_of(tmp_path), code_of(path)]
    os.utime(path, (1, 1))
    (tmp_path / "a.pyc").write_bytes(b"made of it")
    assert [code_of(tmp_path), code_of(path)] == before
    assert before[0] == before[1]


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / ".#a.py").symlink_to("the lock of an editor")
    assert code_of(tmp_path) == [".#a.py unreadable"]
    assert code_of(tmp_path / "gone.py") == ["gone.py unreadable"]
