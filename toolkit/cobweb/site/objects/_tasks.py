"""Look for the task files and roles that the types in use name."""

from __future__ import annotations

import os
from collections.abc import Iterator
from configparser import ConfigParser, Error
from contextlib import suppress
from pathlib import Path

import yaml

from cobweb.errors import Finding, Place
from cobweb.model import Role, Tasks
from cobweb.site.objects._types import ActionUse
from cobweb.site.reading._files import Files

_CONFIGS = ("~/.ansible.cfg", "/etc/ansible/ansible.cfg")
_ROLES = "~/.ansible/roles:/usr/share/ansible/roles:/etc/ansible/roles"
_COLLECTIONS = "~/.ansible/collections:/usr/share/ansible/collections"
_COLLECTION_PARTS = 3


def missing_actions(use: ActionUse, files: Files) -> Iterator[Finding]:
    """Yield what is wrong with the task file or the role of one use."""
    what = f"`{use.what}` of type `{use.type_name}`"
    if isinstance(use.action, Tasks):
        path = Path(use.action.path)
        if not files.is_file(path):
            hint = "looked for beside the file that names it, and in playbooks/ and tasks/"
            told = f"{what}: task file `{files.name(path)}`"
            message, hint = files.absent(told, path, otherwise=hint)
            yield Finding(place=use.place, message=message, hint=hint)
        else:
            yield from _bad_tasks(path, files)
    elif isinstance(use.action, Role) and not _role_exists(use.action.name, files):
        hint = f"put it into {files.site_dir.name}/roles/, or `cobweb install` it"
        message = f"{what}: role `{use.action.name}` does not exist"
        yield Finding(place=use.place, message=message, hint=hint)


def _bad_tasks(path: Path, files: Files) -> Iterator[Finding]:
    """Yield why a file cannot be tasks; what the tasks mean is for Ansible to say."""
    place = Place(file=files.name(path))
    try:
        root = yaml.compose(files.data(path).decode("utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        yield Finding(place=place, message=f"cannot read the file: {error.strerror or error}")
        return
    except UnicodeDecodeError:
        yield Finding(place=place, message="the file is not UTF-8", hint="save it as UTF-8")
        return
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        if mark is not None:
            place = Place(file=place.file, line=mark.line + 1, column=mark.column + 1)
        problem = getattr(error, "problem", None) or error
        yield Finding(place=place, message=f"this is not YAML: {problem}", hint="mend the syntax")
        return
    if not isinstance(root, yaml.SequenceNode):
        yield Finding(place=place, message="this is no list of tasks", hint="write `- name: ...`")


def _role_exists(name: str, files: Files) -> bool:
    path = Path(name)
    if path.is_absolute():
        return files.is_dir(path)
    own = files.is_dir(files.site_dir / "roles" / name)
    if own or any(files.is_installed(it / name) for it in _said(files, "roles_path", _ROLES)):
        return True
    parts = name.split(".")
    if len(parts) != _COLLECTION_PARTS:
        return False
    inside = Path("ansible_collections", parts[0], parts[1], "roles", parts[2])
    own = files.is_dir(files.site_dir / "collections" / inside)
    folders = _said(files, "collections_path", _COLLECTIONS)
    return own or any(files.is_installed(it / inside) for it in folders)


def _said(files: Files, key: str, usual: str) -> list[Path]:
    """Return the folders of a path that the user's environment or ansible.cfg says, or `usual`."""
    site = files.site_dir / "ansible.cfg"
    named = (os.environ.get("ANSIBLE_CONFIG"), str(site), *_CONFIGS)
    config = next((it for it in named if it and Path(it).expanduser().is_file()), str(site))
    path = Path(config).expanduser()
    parsed = ConfigParser(interpolation=None, strict=False, inline_comment_prefixes=(";",))
    with suppress(OSError, Error, UnicodeDecodeError):  # what is wrong with it the run tells
        data = path.read_bytes() if files.refusal(path) else files.data(path)
        parsed.read_string(data.decode())
    said = os.environ.get(f"ANSIBLE_{key.upper()}") or parsed.get("defaults", key, fallback="")
    parts = os.path.expandvars(said or usual).split(":")
    return [path.parent / Path(part).expanduser() for part in parts]
