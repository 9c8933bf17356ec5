# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible module of the COB type `tree`: a file tree of the site, merged into a folder.

`STATE_DIR/tree/PATH/NAME/` has the repository of all versions (cobweb_tree_git.py) and the record
of what is applied and under way (cobweb_tree_record.py). A change goes so: the archive is taken
into the repository; the versions are merged (cobweb_tree_merge.py); what is there and what shall be
is stored; the record says what will be done; all drafts are written; then they take their places
(cobweb_tree_disk.py). An interrupted change is taken back by the next transition before anything
else, a failed one at once.

The states: `up` if the host is as it was written for this spec; `down` if nothing of the tree is
applied; `broken` if a change of it was interrupted, or a file of it is gone; `outdated` if anything
else is applied.
"""

from __future__ import annotations

import contextlib
import grp
import hashlib
import json
import os
import pwd
import secrets
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from ansible.module_utils import cobweb_tree_archive as arriving
from ansible.module_utils import cobweb_tree_disk as on_disk
from ansible.module_utils import cobweb_tree_git as git
from ansible.module_utils import cobweb_tree_merge as merging
from ansible.module_utils import cobweb_tree_record as remembered
from ansible.module_utils import cobweb_tree_words as words
from ansible.module_utils.cobweb_host import Answer, Failed, run
from ansible.module_utils.cobweb_tree_contents import Contents
from ansible.module_utils.cobweb_tree_disk import Disk
from ansible.module_utils.cobweb_tree_git import Repository
from ansible.module_utils.cobweb_tree_merge import FOLDER, SPECIAL, Conflict, Entry, Tree, Wanted
from ansible.module_utils.cobweb_tree_record import Place

OUTPUT_LIMIT = 2_000


class Plan(NamedTuple):
    """A change that is thought out.

    `ours` is what is there, `wanted` what shall be; `site` is what the site says, `originals` what
    was there before us. `found` are paths that somebody changed since we wrote, `edited` all that
    differ from what the site said then. `away` if the whole tree shall go.
    """

    ours: Dict[str, Entry]
    wanted: Wanted
    site: Dict[str, Entry]
    originals: Wanted
    found: List[str]
    edited: List[str]
    contents: Contents
    away: bool


def check(cob: Dict[str, Any]) -> Answer:
    """Find the state; nothing is written."""
    place, *others = remembered.places_of(cob)
    record = remembered.read_record(place)
    applied = remembered.applied_of(record)
    if "change" in record:
        return {"state": "broken"}
    is_moved = any(map(_is_ours, others))
    if applied is None and not is_moved:
        return {"state": "down"}
    if applied is None or is_moved or applied.key != _key(cob["spec"]):
        return {"state": "outdated"}
    differing = remembered.differing(place, applied)
    if differing:
        whole = all(os.path.lexists(Path(place.path, path)) for path in differing)
        state = "outdated" if whole else "broken"
        return {"state": state, "msg": f"changed on the host: {words.listed(differing)}"}
    return {"state": "up"}


def prepare(cob: Dict[str, Any]) -> Answer:
    """Begin a write: say where the archive shall be put; nowhere if its content is known here."""
    place = remembered.places_of(cob)[0]
    recovered = _recover(place)
    digest = _digest(cob["spec"])
    place.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    repository = Repository(place.repository)
    repository.make()
    known = repository.tip(arriving.branch_of(digest)) is not None
    return {"changed": recovered, "archive": "" if known else str(place.archive)}


def write(cob: Dict[str, Any]) -> Answer:
    """End a write: merge the tree of the spec into its folder.

    A tree of ours under an earlier path is removed.
    """
    place, *others = remembered.places_of(cob)
    others = [other for other in others if _is_ours(other)]
    _need_folder(place)
    with contextlib.closing(_Work(place, cob)) as work:
        work.receive()
        if work.is_done() and not others:
            return _answer([], changed=False)
        plan = work.plan()
        work.validate(plan)
        said = [_remove(other, cob) for other in others]
        if others:
            # The trees may overlap: what is under this path is known only now.
            plan = work.plan()
        work.apply(plan)
    return _answer([*said, *_edits(place, plan)], changed=True)


def _need_folder(place: Place) -> None:
    """Refuse a path that is a file, or below one."""
    way = [Path(place.path), *Path(place.path).parents]
    nearest = next(each for each in way if os.path.lexists(each))
    if not nearest.is_dir():
        raise Failed(f"{words.plain(str(nearest))} is there and no folder, nothing was changed")


def remove(cob: Dict[str, Any]) -> Answer:
    """Put back what was there before the first version, or nothing."""
    said = [_remove(place, cob) for place in remembered.places_of(cob)]
    return _answer(said, changed=True)


def _remove(place: Place, cob: Dict[str, Any]) -> str:
    """Take one tree away; say where local edits are kept."""
    _recover(place)
    if not _is_ours(place):
        remembered.forget(place, remembered.read_record(place))
        return ""
    with contextlib.closing(_Work(place, cob)) as work:
        plan = work.plan_removal()
        work.apply(plan)
    if not plan.edited:
        return ""
    return f"local edits are kept: {words.listed(plan.edited)}; see `{_shown(place, plan.edited)}`"


def _edits(place: Place, plan: Plan) -> Iterator[str]:
    """Say what has become of local edits."""
    stay = [
        path
        for path in plan.edited
        if plan.wanted[path] is not None
        and not merging.is_like(plan.site.get(path), plan.wanted[path])
    ]
    lost = [
        path
        for path in plan.edited
        if path not in stay and not merging.is_like(plan.wanted[path], plan.ours[path])
    ]
    if stay:
        yield f"local edits stay: {words.listed(stay)}"
    if lost:
        shown = _shown(place, lost, version="host~1")
        yield f"local edits are overruled: {words.listed(lost)}; see `{shown}`"


def _shown(place: Place, paths: List[str], version: str = "host") -> str:
    """Return the command that shows the first of some paths."""
    first = shlex.quote(words.plain(f"{version}:{git.git_path(paths[0])}"))
    return f"git --git-dir={shlex.quote(str(place.repository))} show {first}"


class _Work:
    """One transition of one place, which is not in the middle of a change; to be closed."""

    def __init__(self, place: Place, cob: Dict[str, Any]) -> None:
        self._place = place
        self._generation = cob.get("generation")
        self._spec = cob["spec"]
        self._record = remembered.read_record(place)
        self._applied = remembered.applied_of(self._record)
        self._repository = Repository(place.repository)
        self._disk = Disk(place.path)

    def close(self) -> None:
        """Let go of folders and processes."""
        self._disk.close()
        self._repository.close()

    def receive(self) -> None:
        """Take the archive that was put here into the repository."""
        digest = _digest(self._spec)
        try:
            if self._repository.tip(arriving.branch_of(digest)):
                return
            if not self._place.archive.exists():
                raise Failed(f"the archive {digest} of the tree has not arrived")
            arriving.receive(self._repository, self._place.archive, digest)
        finally:
            with contextlib.suppress(FileNotFoundError):
                self._place.archive.unlink()

    def is_done(self) -> bool:
        """Say whether the host is as it was written for this spec."""
        if self._applied is None or self._applied.key != _key(self._spec):
            return False
        return not remembered.differing(self._place, self._applied)

    def plan(self) -> Plan:
        """Merge; a conflict is an error, and nothing was changed."""
        commit = self._repository.tip(arriving.branch_of(_digest(self._spec)))
        assert commit is not None, "receive comes first"
        raw = merging.present_in(self._repository.entries(commit))
        site = merging.dressed(raw, _rules(self._spec))
        return self._merged(site, self._spec.get("on_conflict", merging.FAIL))

    def plan_removal(self) -> Plan:
        """Put back what was there; what was edited will be in the repository."""
        return self._merged({}, merging.SITE, away=True)

    def validate(self, plan: Plan) -> None:
        """Let the command of the spec look at the tree as it will be."""
        command = self._spec.get("validate")
        if not command:
            return
        tree = {path: plan.wanted[path] for path in plan.site}
        with tempfile.TemporaryDirectory(dir=str(self._place.home)) as folder:
            with contextlib.closing(Disk(folder)) as disk:
                change = on_disk.plan({}, tree, "new")
                on_disk.write_drafts(disk, change, plan.contents.get)
                on_disk.carry_out(disk, change)
            _run_validation(command, folder)

    def apply(self, plan: Plan) -> None:
        """Carry a plan out; an error on the way leaves the host as it was."""
        applied = self._store(plan)
        change = on_disk.plan(plan.ours, plan.wanted, secrets.token_hex(4))
        folders = [] if plan.away else remembered.missing_folders(self._place.path)
        self._record["edits"] = bool(self._record.get("edits") or plan.found or plan.edited)
        self._record["folders"] = [*folders, *self._record.get("folders", [])]
        journal = remembered.packed_journal(remembered.journal_for(change))
        remembered.write_record(self._place, {**self._record, "change": journal})
        try:
            if folders:
                _make_root(self._place.path, _rules(self._spec)[0])
            _need_space(self._disk, self._repository, change)
            on_disk.write_drafts(self._disk, change, self._repository.content)
            on_disk.carry_out(self._disk, change)
        except (Failed, OSError) as error:
            self._disk.close()
            _take_back(self._place, error)
            raise
        if applied is None:
            remembered.remove_folders(self._record["folders"])
            remembered.forget(self._place, self._record)
        else:
            self._settle(plan, applied)

    def _settle(self, plan: Plan, applied: remembered.Applied) -> None:
        """Remember that a change is complete."""
        expected = merging.present_in({path: plan.wanted[path] for path in plan.site})
        known = remembered.read_known(self._place, self._applied)
        found = on_disk.scan(self._disk, expected, known)
        remembered.write_known(self._place, applied, expected, found)
        remembered.write_record(self._place, {**self._record, "applied": list(applied)})
        self._repository.tidy()

    def _merged(self, site: Dict[str, Entry], policy: str, *, away: bool = False) -> Plan:
        base, expected, originals = self._versions()
        known = remembered.read_known(self._place, self._applied)
        found = on_disk.scan(self._disk, {*base, *site}, known)
        ours = {path: one.entry for path, one in found.items()}
        contents = Contents(self._repository, self._disk, _unstored(ours, expected))
        versions = merging.Versions(base, ours, site, originals)
        merged = merging.merge(versions, policy, contents.merger(policy))
        conflicts = [*merged.conflicts, *_full_folders(self._disk, ours, merged.tree)]
        if conflicts:
            raise Failed(words.conflict_message(self._place.path, conflicts))
        return Plan(
            ours=ours,
            wanted={path: _owned(entry, ours.get(path)) for path, entry in merged.tree.items()},
            site=site,
            originals={path: originals.get(path, ours.get(path)) for path in site},
            found=_changed(expected, ours),
            edited=_changed(base, ours),
            contents=contents,
            away=away,
        )

    def _versions(self) -> Tuple[Tree, Tree, Wanted]:
        """Return what the site wanted, what was written, and what was there before us."""
        if self._applied is None:
            return {}, {}, {}
        site, host, original = map(self._repository.entries, self._applied[1:])
        return merging.present_in(site), merging.present_in(host), original

    def _store(self, plan: Plan) -> Optional[remembered.Applied]:
        """Store all versions of a change before it is made; return what will be applied."""
        said = f"generation {self._generation}, tree {_digest(self._spec)}"
        ours = {path: entry for path, entry in plan.ours.items() if entry.kind != SPECIAL}
        commits = [git.Commit("host", ours, f"Found before {said}")]
        if not plan.away:
            host = {path: plan.wanted[path] for path in plan.site}
            commits += [
                git.Commit("applied", plan.site, f"Wanted by {said}"),
                git.Commit("host", host, f"Written for {said}"),
                git.Commit("original", plan.originals, f"There before {said}"),
            ]
        made = self._repository.commit(plan.contents.unstored(), commits)
        return None if plan.away else remembered.Applied(_key(self._spec), *made[1:])


def _recover(place: Place) -> bool:
    """Take an interrupted change back; say whether there was one."""
    record = remembered.read_record(place)
    journal = remembered.journal_of(record)
    if journal is None:
        return False
    repository, disk = Repository(place.repository), Disk(place.path)
    with contextlib.closing(repository), contextlib.closing(disk):
        on_disk.remove_drafts(disk, journal.drafts)
        found = on_disk.scan(disk, journal.before, {})
        present = {path: one.entry for path, one in found.items()}
        undone = remembered.undone(journal, found)
        wanted = {path: _owned(entry, present.get(path)) for path, entry in undone.items()}
        change = on_disk.plan(present, wanted, secrets.token_hex(4))
        journal = journal._replace(drafts=list(change.drafts.values()))
        record["change"] = remembered.packed_journal(journal)
        remembered.write_record(place, record)
        on_disk.write_drafts(disk, change, repository.content)
        on_disk.carry_out(disk, change)
    del record["change"]
    if "applied" in record:
        remembered.write_record(place, record)
    else:
        remembered.remove_folders(record["folders"])
        remembered.forget(place, record)
    return True


def _take_back(place: Place, error: Exception) -> None:
    """Take a change back that has failed; if that fails too, both are said."""
    try:
        _recover(place)
    except (Failed, OSError) as worse:
        raise Failed(
            f"{error}; taking the change back failed too, the next transition does so: {worse}"
        ) from None


def _make_root(path: str, rule: merging.Rule) -> None:
    """Make the folder that the tree is merged into."""
    Path(path).mkdir(parents=True, exist_ok=True)
    Path(path).chmod(merging.FOLDER_MODE)
    if rule.uid is not None or rule.gid is not None:
        os.chown(path, *(-1 if number is None else number for number in (rule.uid, rule.gid)))


def _run_validation(command: str, folder: str) -> None:
    argv = [word.replace("%s", folder) for word in shlex.split(command)]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            check=False,
        )
    except FileNotFoundError:
        raise Failed(f"validation: there is no command {argv[0]} on this host") from None
    if done.returncode != 0:
        said = done.stdout[-OUTPUT_LIMIT:].decode("utf-8", "replace").strip()
        raise Failed(
            f"validation failed, nothing was changed: `{command}` ended with status"
            f" {done.returncode}\n{said}"
        )


def _need_space(disk: Disk, repository: Repository, change: on_disk.Change) -> None:
    blobs = [step.want.blob for step in change.steps if step.want and step.want.blob]
    needed, free = sum(repository.sizes(blobs)), disk.free()
    if needed > free:
        raise Failed(
            f"{disk.root}: No space left on device: {needed} bytes are needed, {free} are free"
        )


def _full_folders(disk: Disk, ours: Tree, wanted: Wanted) -> Iterable[Conflict]:
    """Find folders whose place something else shall take, and that hold what is not ours."""
    for path, entry in wanted.items():
        have = ours.get(path)
        if have is None or have.kind != FOLDER or entry is None or entry.kind == FOLDER:
            continue
        others = [name for name in disk.names(path) if wanted.get(name, entry) is not None]
        if others:
            said = f"is a folder on the host that holds {words.listed(others)}"
            yield Conflict(path, said, hard=True)


def _unstored(ours: Tree, stored: Tree) -> Dict[str, str]:
    """Return the contents on the host that the repository may not have, and where they are."""
    known = {entry.blob for entry in stored.values()}
    return {
        entry.blob: path
        for path, entry in ours.items()
        if entry.kind not in (FOLDER, SPECIAL) and entry.blob not in known
    }


def _changed(was: Tree, ours: Tree) -> List[str]:
    """Return what is there otherwise than it was."""
    return [path for path in was if path in ours and not merging.is_like(was[path], ours[path])]


def _owned(entry: Optional[Entry], have: Optional[Entry]) -> Optional[Entry]:
    """Fill in the owner that nobody has said; only root can make files that are others'."""
    if entry is None:
        return None
    if have is not None and merging.is_like(entry, have):
        return have._replace(soft=entry.soft)
    root = os.geteuid() == 0
    return entry._replace(
        uid=entry.uid if root and entry.uid is not None else os.geteuid(),
        gid=entry.gid
        if entry.gid is not None and (root or _has_group(entry.gid))
        else os.getegid(),
    )


def _has_group(gid: int) -> bool:
    return gid in (os.getegid(), *os.getgroups())


def _is_ours(place: Place) -> bool:
    return remembered.is_ours(remembered.read_record(place))


def _digest(spec: Dict[str, Any]) -> str:
    return str(spec["tree"]["digest"])


def _key(spec: Dict[str, Any]) -> str:
    """Name what of a spec decides about the tree that is wanted."""
    asked = [_digest(spec), spec.get("owner"), spec.get("group"), spec.get("modes", [])]
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _rules(spec: Dict[str, Any]) -> List[merging.Rule]:
    """Return the owner of all, then the exceptions."""
    rules = [
        merging.Rule(
            match=rule["match"],
            mode=int(rule["mode"], 8) if "mode" in rule else None,
            uid=_number(rule.get("owner"), "user", _uid),
            gid=_number(rule.get("group"), "group", _gid),
        )
        for rule in [
            {"match": "**", "owner": spec.get("owner"), "group": spec.get("group")},
            *spec.get("modes", []),
        ]
    ]
    for rule in rules:
        if os.geteuid() != 0 and (
            rule.uid not in (None, os.geteuid()) or not (rule.gid is None or _has_group(rule.gid))
        ):
            raise Failed("only root can give files away: the spec names another owner or group")
    return rules


def _number(name: Any, kind: str, lookup: Callable[[str], int]) -> Optional[int]:
    if name is None or str(name).isdigit():
        return None if name is None else int(name)
    try:
        return lookup(name)
    except KeyError:
        raise Failed(f"there is no {kind} {name} on this host") from None


def _uid(name: str) -> int:
    return pwd.getpwnam(name).pw_uid


def _gid(name: str) -> int:
    return grp.getgrnam(name).gr_gid


def _answer(said: List[str], *, changed: bool) -> Answer:
    message = "; ".join(filter(None, said))
    return {"changed": changed, "msg": message} if message else {"changed": changed}


if __name__ == "__main__":
    run({"check": check, "prepare": prepare, "write": write, "remove": remove})
