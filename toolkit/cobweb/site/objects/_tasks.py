"""Look for the task files and roles that the types in use name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import yaml

from cobweb.errors import Finding, Place
from cobweb.model import Role, Tasks
from cobweb.site.objects._types import ActionUse
from cobweb.site.reading._files import Files

_ROLE_FOLDERS = ("~/.ansible/roles", "/usr/share/ansible/roles", "/etc/ansible/roles")
_COLLECTIONS = ("~/.ansible/collections", "/usr/share/ansible/collections")
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
    if own or any(files.is_installed(Path(each).expanduser() / name) for each in _ROLE_FOLDERS):
        return True
    parts = name.split(".")
    if len(parts) != _COLLECTION_PARTS:
        return False
    inside = Path("ansible_collections", parts[0], parts[1], "roles", parts[2])
    own = files.is_dir(files.site_dir / "collections" / inside)
    return own or any(files.is_installed(Path(it).expanduser() / inside) for it in _COLLECTIONS)
