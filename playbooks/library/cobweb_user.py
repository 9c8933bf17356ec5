# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `user`: check, make and remove a user of the host.

Ansible's own module gives the password's hash to `usermod` as an argument, where everybody can read
it; here it goes to `chpasswd` by standard input. A user that was there before the first change is
remembered and put back on removal; so only a user that we made is ever deleted.

The states: `up` if all that the spec names is as asked; `down` if there is no such user, or the one
that we put back; `broken` if somebody has taken the user away, and something of ours is left;
`outdated` if the user is there otherwise.
"""

from __future__ import annotations

import base64
import grp
import os
import pwd
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_tools import Record, attempt, call, digest, one_at_a_time

OPTIONS = {"uid": "--uid", "group": "--gid", "home": "--home", "shell": "--shell"}
OPTIONS["comment"] = "--comment"
NEVER_FOR_ROOT = ("uid", "group", "gid", "home", "lock", "remove_home")
HASH_BEGINS = ("$", "!", "*", "_")
EXPIRED = "1"
WRITE_KEYS = """
umask 077; cd -- "$1"; mkdir -p .ssh; cd .ssh
cat > .authorized_keys.cobweb
if [ -s .authorized_keys.cobweb ]; then mv -f .authorized_keys.cobweb authorized_keys
else rm -f .authorized_keys.cobweb authorized_keys; fi
"""


READ_KEYS = """
cd -- "$1" 2> /dev/null || exit 0
if [ -f .ssh/authorized_keys ]; then base64 < .ssh/authorized_keys; fi
"""


class User(NamedTuple):
    """A user as it is; `groups` are those beside the primary one."""

    uid: int
    group: str
    groups: List[str]
    home: str
    shell: str
    comment: str
    password: str
    expires: str


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    spec = cob["spec"]
    for name in _earlier(cob):
        if _record(name).read().get("ours"):
            return {"state": "broken" if _look(name) is None else "outdated"}
    found = _look(spec["name"])
    record = _record(spec["name"]).read()
    if found is None:
        return {"state": "broken" if _group_of(record) else "down"}
    if record.get("put_back") == digest(found):
        return {"state": "down"}
    return {"state": "outdated" if _differs(found, spec, record) else "up"}


def make(cob: Dict[str, Any]) -> Answer:
    """Make the user as the spec says; what was there before is remembered."""
    spec = cob["spec"]
    name = spec["name"]
    _guard_root(spec)
    _guard_password(spec)
    with one_at_a_time("user"):
        for earlier in _earlier(cob):
            _remove(earlier, remove_home=False)
        found = _look(name)
        record = _begin(name, found)
        if found is None:
            _make_user(spec, record)
        elif "gid" in spec:
            _make_group(spec, record)
        _change(name, _existing(name), spec)
        _set_keys(name, spec.get("keys", []), record)
        left = _differs(_existing(name), spec, record)
    if left:
        raise Failed(f"user {name} still differs from the spec in: {', '.join(left)}")
    return {"changed": True}


def remove(cob: Dict[str, Any]) -> Answer:
    """Delete a user that we made, put back one that was there before."""
    with one_at_a_time("user"):
        for earlier in _earlier(cob):
            _remove(earlier, remove_home=False)
        said = _remove(cob["spec"]["name"], remove_home=cob["spec"].get("remove_home", False))
    return {"changed": True, **({"msg": said} if said else {})}


def _earlier(cob: Dict[str, Any]) -> List[str]:
    name = (cob.get("applied") or {}).get("name")
    return [] if name in (None, cob["spec"]["name"]) else [name]


def _record(name: str) -> Record:
    return Record("user", name)


# --- looking


def _look(name: str) -> Optional[User]:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    shadow = _shadow(name)
    return User(
        uid=entry.pw_uid,
        group=_group_name(entry.pw_gid),
        groups=sorted(it.gr_name for it in grp.getgrall() if name in it.gr_mem),
        home=entry.pw_dir,
        shell=entry.pw_shell,
        comment=entry.pw_gecos,
        password=shadow[1],
        expires=shadow[7],
    )


def _existing(name: str) -> User:
    found = _look(name)
    if found is None:
        raise Failed(f"user {name} is not there although useradd ended well")
    return found


def _shadow(name: str) -> List[str]:
    for line in Path("/etc/shadow").read_text(encoding="utf-8").splitlines():
        fields = line.split(":")
        if fields[0] == name:
            return fields
    return [name, "", *[""] * 7]


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _differs(found: User, spec: Dict[str, Any], record: Dict[str, Any]) -> List[str]:
    """Return which parts are not as the spec asks; what it does not name is right as it is."""
    wanted = {key: _as_found(key, spec[key]) for key in OPTIONS if key in spec}
    differs = [key for key, value in wanted.items() if getattr(found, key) != value]
    groups = set(found.groups)
    if _wanted_groups(found, spec) != groups:
        differs.append("groups")
    if wanted_hash(found.password, spec) != found.password:
        differs.append("password")
    if "lock" in spec and (found.expires == EXPIRED) != spec["lock"]:
        differs.append("lock")
    if _wants_home(spec) and not Path(found.home).is_dir():
        differs.append("home folder")
    keys = spec.get("keys", [])
    if "keys" in spec or record.get("keys"):
        lines = _read_keys(spec["name"], found.home)
        if keys_after(lines, keys, record.get("keys", [])) != lines:
            differs.append("keys")
    return differs


def _as_found(key: str, value: Any) -> Any:
    return _group_name(int(value)) if key == "group" and str(value).isdigit() else value


def _wanted_groups(found: User, spec: Dict[str, Any]) -> set[str]:
    """Return the groups to be in; the primary one is in none of the lists."""
    if "groups" not in spec:
        return set(found.groups)
    asked = set(spec["groups"])
    return asked | set(found.groups) if spec.get("append", True) else asked


def wanted_hash(found: str, spec: Dict[str, Any]) -> str:
    """Return what /etc/shadow should say; a lock is the `!` in front of the password."""
    wanted = spec.get("password", found)
    if "lock" not in spec:
        return str(wanted)
    return f"!{wanted.lstrip('!')}" if spec["lock"] else str(wanted.lstrip("!") or wanted)


def keys_after(lines: List[str], keys: List[str], ours: List[str]) -> List[str]:
    """Return the lines of authorized_keys: others' as they are, then ours, each once."""
    wanted = [key.strip() for key in keys]
    kept = [line for line in lines if line.strip() not in ours or line.strip() in wanted]
    there = {line.strip() for line in kept}
    return kept + [key for key in dict.fromkeys(wanted) if key not in there]


def _wants_home(spec: Dict[str, Any]) -> bool:
    return bool(spec.get("create_home", not spec.get("system", False)))


# --- changing


def _guard_root(spec: Dict[str, Any]) -> None:
    found = _look(spec["name"])
    if spec.get("uid") != 0 and (found is None or found.uid != 0):
        return
    if not spec.get("allow_root"):
        raise Failed(
            f"user {spec['name']} has number 0, like root; say `allow_root: true` if meant"
        )
    wrong = [key for key in NEVER_FOR_ROOT if spec.get(key) and (key, spec[key]) != ("uid", 0)]
    if wrong:
        raise Failed(f"root could be locked out: its spec must not have {', '.join(wrong)}")


def _guard_password(spec: Dict[str, Any]) -> None:
    password = spec.get("password")
    if password is not None and (not password.startswith(HASH_BEGINS) or ":" in password):
        raise Failed("`password` is not a hash as in /etc/shadow (`openssl passwd -6` makes one)")


def _begin(name: str, found: Optional[User]) -> Dict[str, Any]:
    """Return the record of what is ours; nothing is touched before it is stored."""
    record: Dict[str, Any] = _record(name).read()
    if record.get("ours") and (found is not None or not record["before"]):
        return record
    before = found._asdict() if found is not None else None
    record = {"ours": True, "before": before, "keys": [], "group": ""}
    _record(name).write(record)
    return record


def _make_user(spec: Dict[str, Any], record: Dict[str, Any]) -> None:
    """Make the user; where that fails nothing of it stays."""
    try:
        _make_group(spec, record)
        call("useradd", *_useradd(spec), "--", spec["name"])
    except Failed:
        _remove_group(record)
        _record(spec["name"]).forget()
        raise


def _make_group(spec: Dict[str, Any], record: Dict[str, Any]) -> None:
    """Make the primary group if its number is given and it is not there."""
    name = str(spec.get("group", spec["name"]))
    if "gid" not in spec:
        return
    try:
        if grp.getgrnam(name).gr_gid != spec["gid"]:
            raise Failed(f"group {name} is there and has the number {grp.getgrnam(name).gr_gid}")
    except KeyError:
        record["group"] = name
        _record(spec["name"]).write(record)
        system = ["--system"] if spec.get("system") else []
        call("groupadd", *system, "--gid", str(spec["gid"]), "--", name)


def _useradd(spec: Dict[str, Any]) -> List[str]:
    options = ["--create-home" if _wants_home(spec) else "--no-create-home"]
    options += ["--system"] if spec.get("system") else []
    asked = {**spec, **({"group": spec["name"]} if "gid" in spec and "group" not in spec else {})}
    for key, option in OPTIONS.items():
        if key in asked:
            options += [option, str(asked[key])]
    if spec.get("groups"):
        options += ["--groups", ",".join(spec["groups"])]
    return options


def _change(name: str, found: User, spec: Dict[str, Any]) -> None:
    """Bring what is there to what is asked, by one `usermod` and one `chpasswd` at most."""
    options: List[str] = []
    for key, option in OPTIONS.items():
        if key in spec and getattr(found, key) != _as_found(key, spec[key]):
            options += [option, str(spec[key])]
    if "--home" in options and Path(found.home).is_dir() and not Path(spec["home"]).exists():
        options.append("--move-home")
    groups = _wanted_groups(found, spec)
    if groups != set(found.groups):
        options += ["--groups", ",".join(sorted(groups))]
    if "lock" in spec and (found.expires == EXPIRED) != spec["lock"]:
        options += ["--expiredate", EXPIRED if spec["lock"] else ""]
    if "expires" in spec and found.expires != spec["expires"]:
        options += ["--expiredate", spec["expires"]]
    if options:
        call("usermod", *options, "--", name)
    if wanted_hash(found.password, spec) != found.password:
        call("chpasswd", "--encrypted", stdin=f"{name}:{wanted_hash(found.password, spec)}\n")
    if _wants_home(spec):
        _make_home(_existing(name))


def _make_home(user: User) -> None:
    """Make a home that is missing, as `useradd` does; one that is there stays as it is."""
    home = Path(user.home)
    if home.is_dir():
        return
    draft = home.with_name(f".{home.name}.cobweb")
    shutil.rmtree(draft, ignore_errors=True)
    home.parent.mkdir(parents=True, exist_ok=True)
    if Path("/etc/skel").is_dir():
        shutil.copytree("/etc/skel", draft, symlinks=True)
    else:
        draft.mkdir()
    entry = pwd.getpwuid(user.uid)
    for path in (draft, *draft.rglob("*")):
        os.lchown(path, entry.pw_uid, entry.pw_gid)
    draft.chmod(0o700)
    draft.rename(home)


def _read_keys(name: str, home: str) -> List[str]:
    """Read as the user: what a link of theirs leads to may be what they must not see."""
    done = attempt("sh", "-ec", READ_KEYS, "sh", home, become=_becoming(name))
    if done.status != 0:
        raise Failed(f"cannot read the keys of user {name}: {done.message}")
    lines = base64.b64decode(done.out).decode("utf-8", "surrogateescape").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _set_keys(name: str, keys: List[str], record: Dict[str, Any]) -> None:
    """Add our keys, take away those of ours that are not asked for any more."""
    found = _existing(name)
    lines = _read_keys(name, found.home)
    wanted = [key.strip() for key in keys]
    if wanted == record["keys"] and keys_after(lines, wanted, wanted) == lines:
        return
    there = {line.strip() for line in lines}
    ours = [key for key in wanted if key not in there or key in record["keys"]]
    after = keys_after(lines, wanted, record["keys"])
    # An interrupted change leaves keys of before and after it: both are ours.
    _record(name).write({**record, "keys": [*record["keys"], *ours]})
    if after != lines:
        _write_keys(name, found, after)
    record["keys"] = ours
    _record(name).write(record)


def _write_keys(name: str, user: User, lines: List[str]) -> None:
    """Write as the user: in a folder of theirs a link must lead nowhere but where they may go."""
    text = "".join(f"{line}\n" for line in lines)
    done = attempt("sh", "-ec", WRITE_KEYS, "sh", user.home, stdin=text, become=_becoming(name))
    if done.status != 0:
        raise Failed(done.message)


def _becoming(name: str) -> Callable[[], None]:
    """Return what gives a process the rights of the user, and no others."""
    entry = pwd.getpwnam(name)

    def become() -> None:
        os.setgroups([])
        os.setgid(entry.pw_gid)
        os.setuid(entry.pw_uid)

    return become


def _remove(name: str, *, remove_home: bool) -> str:
    """Undo all that is ours; return what is left and should be known."""
    record, found = _record(name).read(), _look(name)
    if found is None:
        _remove_group(record)
        _record(name).forget()
        return ""
    if not record.get("ours"):
        _record(name).write({"put_back": digest(found)})
        return f"user {name} was there before; it stays as it is"
    if record["before"]:
        _set_keys(name, [], record)
        _change(name, found, {**record["before"], "append": False, "create_home": False})
        _remove_group(record)
        _record(name).write({"put_back": digest(_existing(name))})
        return f"user {name} was there before; it is as it was"
    call("userdel", *(["--remove"] if remove_home else []), "--", name)
    _remove_group(record)
    _record(name).forget()
    return "" if remove_home or not Path(found.home).exists() else f"{found.home} is kept"


def _remove_group(record: Dict[str, Any]) -> None:
    """Remove the group that we made, unless it still is somebody's."""
    found = _group_of(record)
    if found is not None:
        call("groupdel", "--", found.gr_name)


def _group_of(record: Dict[str, Any]) -> Optional[grp.struct_group]:
    """Return the group that we made, if it is there and nobody's."""
    try:
        found = grp.getgrnam(record.get("group") or "")
    except KeyError:
        return None
    used = bool(found.gr_mem) or any(it.pw_gid == found.gr_gid for it in pwd.getpwall())
    return None if used else found


if __name__ == "__main__":
    run({"check": check, "make": make, "remove": remove})
