"""What the module of `service` decides by: digests of what is watched, and health."""

from __future__ import annotations

import http.server
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def watched(service_module: ModuleType) -> Any:
    """Return the module of watched files."""
    del service_module
    return sys.modules["ansible.module_utils.cobweb_watched"]


@pytest.fixture
def health(service_module: ModuleType) -> Any:
    """Return the module of health."""
    del service_module
    return sys.modules["ansible.module_utils.cobweb_health"]


def test_any_change_of_a_file_or_in_a_folder_is_seen(watched: Any, system: Path) -> None:
    """Content, names, what is new and what is gone; not the time."""
    folder = system / "conf.d"
    path = str(folder)
    seen = [watched.digests([path])]
    steps: tuple[Callable[[], object], ...] = (
        folder.mkdir,
        lambda: (folder / "a").write_text("x"),
        lambda: (folder / "a").write_text("y"),
        lambda: (folder / "a").rename(folder / "b"),
        (folder / "sub").mkdir,
        lambda: (folder / "sub" / "a").write_text("y"),
        lambda: (folder / "link").symlink_to("b"),
    )
    for step in steps:
        step()
        seen.append(watched.digests([path]))
    # An empty folder in it is nothing that could be read.
    assert len({each[path] for each in seen}) == len(seen) - 1
    os.utime(folder / "b", (1, 1))
    (folder / "dangling").symlink_to("nothing")
    assert watched.digests([path]) == seen[-1]


def test_what_has_changed_after_a_time_is_found(watched: Any, system: Path) -> None:
    """By the change of the file or of its folder, whatever its own time says."""
    folder = system / "conf.d"
    folder.mkdir()
    file = folder / "a"
    file.write_text("x")
    os.utime(file, (1, 1))
    paths = [str(folder), str(file), str(system / "gone")]
    changed_s = file.stat().st_ctime
    assert watched.changed_since(paths, changed_s - 0.1) == paths[:2]
    assert watched.changed_since(paths, changed_s + 60) == []


def test_a_folder_of_very_many_files_is_refused(
    watched: Any, service_module: ModuleType, system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A check must end."""
    monkeypatch.setattr(watched, "MAX_FILES", 2)
    for name in "abc":
        (system / name).touch()
    with pytest.raises(service_module.Failed, match="has more than 2 files"):
        watched.digests([str(system)])


class Page(http.server.BaseHTTPRequestHandler):
    """Answers well on /well only."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200 if self.path == "/well" else 503)
        self.end_headers()
        self.wfile.write(b"warming up")

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port of a server of pages."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("given", "sick"),
    [
        ({"http": "http://127.0.0.1:{port}/well"}, ""),
        (
            {"http": "http://127.0.0.1:{port}/"},
            "http://127.0.0.1:{port}/ says 503 Service Unavailable: warming up",
        ),
        ({"tcp": "127.0.0.1:{port}"}, ""),
        ({"tcp": "[127.0.0.1]:{port}"}, ""),
        ({"command": "true"}, ""),
        ({"command": ["sh", "-c", "exit 2"]}, "`sh -c exit 2` ended with exit status 2"),
        ({"command": "sleep 60", "timeout": 0.1}, "`sleep 60` took longer than 0.1 s"),
    ],
)
def test_health_is_what_the_service_answers(
    health: Any, port: int, given: dict[str, Any], sick: str
) -> None:
    """Well, or what is wrong in the words of the one who was asked."""
    said = {
        key: value.format(port=port) if isinstance(value, str) else value
        for key, value in given.items()
    }
    assert health.sickness(said, 1) == sick.format(port=port)


def test_it_is_asked_again(health: Any, system: Path) -> None:
    """As often as is said, at most; once it is well that is enough."""
    count = f"echo x >> {system}/tries; test $(wc -l < {system}/tries) -ge 3"
    asked = {"command": count, "interval": 0.01, "retries": 2}
    assert health.sickness(asked, health.start_tries(asked)) == ""
    (system / "tries").unlink()
    assert "exit status 1" in health.sickness(asked, 2)
    assert health.sickness(None, 1) == ""
