"""`cobweb put` and `cobweb get`: files, folders and archives, checked by their SHA-256.

What is put stands beside its place until it is whole, and gets there by a rename. An archive is
unpacked beside its place, too, so one that is damaged, or finds a full disk, changes nothing.
"""

from __future__ import annotations

import hashlib
import shlex
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from cobweb.errors import CobwebError, UsageError
from cobweb_plugins.applications._broadcast import Answer, Call
from cobweb_plugins.applications._run import Caller, Target, tell

if TYPE_CHECKING:
    from cobweb.plugin import SiteAccess

_PLACE = """
case $1 in /*) p=$1;; *) p=$PWD/$1;; esac;
case $p in */) p=$p$3;; esac;
[ -d "$p" ] && [ -n "$3" ] && p=$p/$3;
digest() { { sha256sum 2>/dev/null || shasum -a 256; } | cut -c1-64; };
"""
"""The place $p of DEST $1; of $2, the SHA-256, $3, the source's name ("": unpacked), $4, a mode."""

_LOOK = """
[ -f "$p" ] && [ "$(digest <"$p")" = "$2" ] && { [ -z "$4" ] || chmod "$4" "$p"; }
  && echo 'is there';
true
"""
_RECEIVE = """
case $1 in */) mkdir -p -- "$1" || exit 1;; esac;
t=$(mktemp "${p%/}.XXXXXX") || exit 1;
trap 'rm -rf "$t" "$t.d"' EXIT;
trap 'exit 1' HUP INT TERM;
cat >"$t" || exit 1;
d=$(digest <"$t");
[ -n "$d" ] || { echo 'refused: there is no sha256sum and no shasum' >&2; exit 1; };
[ "$d" = "$2" ] || { echo "refused: what came has the SHA-256 $d" >&2; exit 1; };
"""
_PUT = """
[ ! -d "$p" ] || { echo "refused: $p is a folder" >&2; exit 1; };
chmod "${4:-644}" "$t" && mv -f "$t" "$p" && echo 'was put'
"""

# Where there is a DEST it does not get the archive's own folder, whose mode it would have then.
_UNPACK = """
mkdir -m 755 "$t.d" && tar -C "$t.d" -oxf "$t" || exit 1;
if [ -e "$p" ]; then
  cd "$t.d" || exit 1;
  for e in * .[!.]* ..?*; do
    [ ! -e "$e" ] && [ ! -L "$e" ] || cp -a -- "$e" "$p/" || exit 1;
  done;
else
  mv "$t.d" "$p" || exit 1;
fi;
echo 'was unpacked'
"""
# GNU tar has exit code 1 where a file has grown meanwhile, and for nothing else.
_GET = """
p=${1%/};
[ -e "$p" ] || { echo "$p: no such file or folder" >&2; exit 1; };
[ -L "$p" ] && h=h;
tar -C "$(dirname -- "$p")" -c${h}f - -- "$(basename -- "$p")";
c=$?;
[ $c = 1 ] && case $(tar --version) in *GNU*) c=0;; esac;
exit $c
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Put:
    """What is put where; `sha256` is what the source has to have ("": anything)."""

    source: Path
    dest: str
    sha256: str = ""
    mode: str = ""
    is_unpacked: bool = False


def put(access: SiteAccess, target: Target, what: Put) -> int:
    """Put a file, a folder or an archive on hosts; return the exit code.

    UsageError before anybody is called where the source is not what it should be. Hosts that have
    the file already are sent nothing.
    """
    with packed(what) as (made, file, digest), access.site() as site:
        caller = Caller(access, site, target)
        answers = sent(caller.call, caller.hosts, made, file, digest)
    more = {"source": str(what.source), "dest": what.dest, "sha256": digest}
    return tell(access, answers, interrupted=caller.was_interrupted, **more)


@contextmanager
def packed(what: Put) -> Iterator[tuple[Put, Path, str]]:
    """Give what is put, the file that is sent for it, and the SHA-256 of that.

    UsageError where the source is not what it should be.
    """
    with ExitStack() as stack:
        what, file = _source(what, stack)
        if what.is_unpacked and what.mode:
            raise UsageError("`--mode` is of a file", hint="what is packed has modes of its own")
        digest = _digest(file)
        if what.sha256 and digest != what.sha256.lower():
            message = f"{what.source}: it has the SHA-256 {digest}, and not {what.sha256}"
            raise UsageError(message, hint="nothing was sent")
        yield what, file, digest


def sent(
    call: Callable[[Mapping[str, Call]], list[Answer]],
    hosts: Sequence[str],
    what: Put,
    file: Path,
    digest: str,
) -> list[Answer]:
    """Send a file to the hosts that lack it, by what calls hosts, and return all their answers."""
    name = "" if what.is_unpacked else what.source.name
    words = (what.dest, digest, name, what.mode)
    last = _UNPACK if what.is_unpacked else _PUT
    look = _script("true" if what.is_unpacked else _PLACE + _LOOK, words)
    send = _script(_PLACE + _RECEIVE + last, words)
    found = call({it: Call(command=look) for it in hosts})
    wanting = [it.host for it in found if it.code == 0 and not it.output]
    given = call(dict.fromkeys(wanting, Call(command=send, stdin=file)))
    by_host = {it.host: it for it in (*found, *given)}
    return [by_host[it] for it in hosts]


def _source(what: Put, stack: ExitStack) -> tuple[Put, Path]:
    """Return what is put, and the file that is sent: a folder is packed into one."""
    if what.source.is_file():
        return what, what.source
    if not what.source.is_dir():
        raise UsageError(f"{what.source}: there is no such file or folder")
    if what.sha256:
        hint = "pack it yourself, and put the archive with `--unpack`"
        raise UsageError(f"{what.source}: a folder has no SHA-256", hint=hint)
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="cobweb-"))
    file = Path(folder) / "packed.tar"
    try:
        with tarfile.open(file, "w") as archive:
            archive.add(what.source, arcname=".")
    except OSError as error:
        message = f"{error.filename or what.source}: it cannot be read: {error.strerror}"
        raise UsageError(message) from error
    return replace(what, is_unpacked=True), file


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UsageError(f"{path}: it cannot be read: {error.strerror}") from error


def _script(text: str, words: Sequence[str]) -> str:
    """Return the call of a script: on one line, for a login shell may take no other."""
    text = " ".join(line.strip() for line in text.splitlines()).strip()
    return shlex.join(["sh", "-c", text, "cobweb", *words])


# --- get


@dataclass(slots=True)
class _Download:
    """The archive that one host sends: into a file, up to `most` bytes."""

    path: Path
    most: int
    size: int = 0

    def take(self, data: bytes) -> None:
        self.size += len(data)
        if self.size > self.most:
            raise CobwebError(f"it is more than {self.most // 2**20} MiB (`--most` says how much)")
        try:
            with self.path.open("ab") as file:  # not kept open: there may be thousands
                file.write(data)
        except OSError as error:
            raise CobwebError(f"{self.path.parent.parent}: {error.strerror}") from error


def get(access: SiteAccess, target: Target, source: str, dest: Path, most: int) -> int:
    """Get a file or folder of each host as DEST/HOST/NAME, at most so many bytes of each.

    What was there under that name is replaced by what has come whole, and by nothing else.
    """
    name = PurePosixPath(source).name
    if name in ("", ".", ".."):
        raise UsageError(f"`{source}` names no file or folder", hint="as in /var/log/syslog")
    with access.site() as site, ExitStack() as stack:
        caller = Caller(access, site, target)
        if bad := [it for it in caller.hosts if it in (".", "..") or "/" in it]:
            raise UsageError(f"no folder can be called `{bad[0]}`, as a host is")
        try:
            dest.mkdir(parents=True, exist_ok=True)
            work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=".get-", dir=dest)))
        except OSError as error:
            raise UsageError(f"{dest}: {error.strerror}; nobody was called") from error
        names = {host: work / str(number) for number, host in enumerate(caller.hosts)}
        calls = {
            host: Call(command=_script(_GET, (source,)), output=_Download(path, most).take)
            for host, path in names.items()
        }
        found = caller.call(calls)
        answers = [_unpacked(it, names[it.host], dest / it.host, name) for it in found]
    interrupted = caller.was_interrupted
    return tell(access, answers, interrupted=interrupted, source=source, dest=str(dest))


def _unpacked(answer: Answer, archive: Path, folder: Path, name: str) -> Answer:
    """Unpack what a host has sent, if it was all of it; what is none of it is a failure."""
    if answer.code != 0:
        return answer
    new = archive.with_suffix(".new")
    try:
        with tarfile.open(archive, "r:") as tar:  # as it is: what is compressed has no bound
            tar.extractall(new, filter="data")
        folder.mkdir(exist_ok=True)
        _replace(new / name, folder / name, archive.with_suffix(".old"))
    except (OSError, OverflowError, ValueError, tarfile.TarError) as error:
        return replace(answer, code=None, reason=f"what it sent cannot be unpacked: {error}")
    return replace(answer, output=b"is here\n")


def _replace(new: Path, place: Path, old: Path) -> None:
    """Put a file or folder in a place; what was there is `old` then."""
    new.lstat()  # which raises where there is none
    if place.is_symlink() or place.exists():
        place.replace(old)
    new.replace(place)
