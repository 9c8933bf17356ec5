"""Files of variables that are vaulted as a whole: names in the clear, values for Ansible alone."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from cobweb.cli import main
from cobweb.errors import CobwebError, SiteError
from cobweb.model import Host, Outcome
from cobweb.plugin import Executor, load_plugins
from cobweb.site import load_site
from cobweb_plugins.ansible._adapter import AnsibleInventory
from cobweb_plugins.ansible._lanes import AnsibleExecutor
from cobweb_plugins.ansible._workspace import ansible_tool
from tests.plugins.ansible.conftest import PLAIN, MakeBench

vaults = pytest.importorskip("ansible.parsing.vault")
opening = pytest.importorskip("cobweb_plugins.ansible.strategy.cobweb_unvaulted")

CANARY = "canary-in-the-clear"
OTHER = "$ANSIBLE_VAULT;1.1;AES256\n6162\n"
TEXT = f"""
pw: {CANARY}
url: "hush-hush:{{{{ pw }}}}@{{{{ place }}}}"
raw: !unsafe "{{{{ {CANARY} }}}}"
number: 0644
day: 2024-01-01
flags: [yes, false, null, {{deep: {CANARY}}}]
inner: !vault "{OTHER!r}"
base: &base {{a: 1}}
more: {{<<: *base, b: 2}}
""".replace(repr(OTHER), OTHER.replace("\n", "\\n"))


BOMB = "".join(f"a{it}: &a{it} [{', '.join([f'*a{it - 1}'] * 9)}]\n" for it in range(1, 8))


def secret(password: bytes = b"open sesame") -> Any:
    return vaults.VaultSecret(password)


def encrypted(text: str, password: bytes = b"open sesame", vault_id: str | None = None) -> str:
    """Return a text as `ansible-vault encrypt` writes it, each time with another salt."""
    made = vaults.VaultLib().encrypt(text, secret=secret(password), vault_id=vault_id)
    return str(made.decode())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a site with a vaulted file, whose `ansible.cfg` says where the password is."""
    for name in ("ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST", "ANSIBLE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "site"
    (root / "group_vars" / "all").mkdir(parents=True)
    (tmp_path / "password").write_text("open sesame")
    (root / "ansible.cfg").write_text(f"[defaults]\nvault_password_file = {tmp_path}/password\n")
    (root / "hosts.yml").write_text("all: {hosts: {h1: {place: here}}}\n")
    (root / "site.yml").write_text(SITE)
    (root / "check.yml").write_text("- debug:\n")
    (root / "group_vars/all/vault.yml").write_text(encrypted(TEXT))
    return root


SITE = """
cobweb: 1
inventory: hosts.yml
types:
  simple:
    states: [down, up]
    preferred: up
    remove: down
    check: {tasks: check.yml}
    transitions: {down -> up: , up -> down: }
cobs: {c: {type: simple, on: all, spec: {pw: "{{ pw }}", url: "{{ url }}"}}}
"""


def opened(path: Path, *passwords: bytes) -> Any:
    secrets = [(f"id{at}", secret(it)) for at, it in enumerate(passwords or (b"open sesame",))]
    return opening.unvaulted(str(path), secrets)


def marks(value: Any) -> Iterator[str]:
    """Yield the cipher texts in some data, of which nothing else is in the clear."""
    if isinstance(value, dict) and "__ansible_vault" in value:
        yield value["__ansible_vault"]
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from marks(item)
    else:
        assert value is None or isinstance(value, bool)


def clear(value: Any) -> Any:
    """Return the data with its marks decrypted."""
    if isinstance(value, dict) and "__ansible_vault" in value:
        text = value["__ansible_vault"]
        if text == OTHER:
            return OTHER
        return vaults.VaultLib([("any", secret())]).decrypt(text).decode()
    if isinstance(value, dict):
        return {key: clear(item) for key, item in value.items()}
    return [clear(item) for item in value] if isinstance(value, list) else value


def test_each_text_and_number_is_vaulted_for_itself(folder: Path) -> None:
    found = opened(folder / "group_vars/all/vault.yml")
    assert len(list(marks(found))) == 10
    assert clear(found) == {
        "pw": CANARY,
        "url": "hush-hush:{{ pw }}@{{ place }}",
        "raw": f"{{{{ {CANARY} }}}}",
        "number": "0644",
        "day": "2024-01-01",
        "flags": [True, False, None, {"deep": CANARY}],
        "inner": OTHER,
        "base": {"a": "1"},
        "more": {"a": "1", "b": "2"},
    }
    templates = [key for key, it in found.items() if any(map(opening.is_template, marks(it)))]
    assert templates == ["url"]


def test_a_cipher_text_is_that_of_before_until_its_value_is_another(folder: Path) -> None:
    path = folder / "group_vars/all/vault.yml"
    before = opened(path)
    path.write_text(encrypted(TEXT.replace("0644", "0600") + "new: 1\n"))
    after = opened(path)
    assert {key for key in after if after[key] != before.get(key)} == {"number", "new"}
    found = [it for it in marks(after) if it != OTHER]
    assert len(set(found)) == len(found), "one value at two places has two cipher texts"
    path.write_text(encrypted(TEXT, b"another"))
    assert not set(marks(opened(path, b"another"))) & (set(marks(before)) - {OTHER})


def test_the_secret_and_the_vault_id_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "vault.yml"
    path.write_text(encrypted("a: x", b"two", "prod"))
    (text,) = marks(opened(path, b"one", b"two"))
    assert text.startswith("$ANSIBLE_VAULT;1.2;AES256;prod\n")
    assert vaults.VaultLib([("prod", secret(b"two"))]).decrypt(text) == b"x"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"[{CANARY}]", "what is vaulted in the file is no mapping"),
        (f"a: {CANARY}\nb: [*{CANARY}]", "what is vaulted in the file is no YAML (line 2"),
        (f'a: "{CANARY}', "is no YAML"),
        (f"a: !{CANARY} x", "a value has a tag (line 1"),
        (f"a: !{CANARY}", "a value has a tag (line 1"),
        (f"a: !<tag:yaml.org,2002:{CANARY}> x", "a value has a tag (line 1"),
        (f"a: !vault {CANARY}", "a value with `!vault` is not vaulted (line 1"),
        (f"a: {{__ansible_vault: {CANARY}}}", "a mapping has the key `__ansible_vault` alone"),
        ("a0: &a0 [x]\n" + BOMB, "more than 20,000 values"),
        (f"a: !!binary {CANARY}", "a value has the tag `!!binary` (line 1"),
        (f"a: !!set {{{CANARY}: }}", "a value has the tag `!!set`"),
        (f"a: {CANARY}\na: 1", "`a` is written twice in one mapping"),
        (f"[{CANARY}]: 1", "a key is no text"),
        (f"a: {{<<: {CANARY}}}", "`<<` takes mappings"),
    ],
)
def test_what_cannot_be_read_is_told_without_any_value(
    tmp_path: Path, text: str, told: str
) -> None:
    path = tmp_path / "vault.yml"
    path.write_text(encrypted(text))
    with pytest.raises(opening.UnvaultError) as caught:
        opened(path)
    assert told in caught.value.message
    assert CANARY not in str(caught.value.__dict__)


WAIT = "AnsibleInventory().unvaulted(Path(sys.argv[1]), Path(sys.argv[2]))"


def test_who_opens_a_file_ends_with_who_asks(
    tmp_path: Path,
    mark: str,
    marked: Callable[[str], list[int]],
    all_end: Callable[[Sequence[int]], bool],
) -> None:
    """It has secrets, and a session of its own that no terminal and no signal reaches."""
    os.mkfifo(tmp_path / "vault.yml")
    lines = "import sys; from pathlib import Path\n"
    lines += "from cobweb_plugins.ansible._adapter import AnsibleInventory\n"
    command = [sys.executable, "-c", lines + WAIT, str(tmp_path / "vault.yml"), str(tmp_path)]
    with subprocess.Popen(command) as asking, (tmp_path / "vault.yml").open("wb"):
        opening = marked(mark)  # one of them has the file open for reading by now
        assert len(opening) == 2
        asking.kill()
        assert all_end(opening)


@pytest.mark.parametrize("text", ["", "# nothing\n", "null\n"])
def test_a_file_with_nothing_in_it_gives_no_variables(tmp_path: Path, text: str) -> None:
    path = tmp_path / "vault.yml"
    path.write_text(encrypted(text))
    assert opened(path) == {}


def damaged(folder: Path) -> None:
    path = folder / "group_vars/all/vault.yml"
    path.write_text(path.read_text()[:-20])


def wrong(folder: Path) -> None:
    (folder.parent / "password").write_text("guessed")


def missing(folder: Path) -> None:
    (folder.parent / "password").unlink()


def asked(folder: Path) -> None:
    (folder / "ansible.cfg").write_text("[defaults]\nvault_identity_list = a@prompt\n")


@pytest.mark.gate("Ansible opens a file four times, each in a process")
def test_a_file_that_cannot_be_opened_is_a_finding(folder: Path) -> None:
    before = (folder / "group_vars/all/vault.yml").read_text()
    for spoil, cause in (
        (damaged, "the vaulted file cannot be opened"),
        (wrong, "no vault secrets were found that could decrypt"),
        (asked, "no vault secrets found"),
        (missing, "no vault secrets found"),
    ):
        (folder / "group_vars/all/vault.yml").write_text(before)
        spoil(folder)
        with pytest.raises(SiteError) as caught:
            load_site(folder, adapters=[AnsibleInventory()])
        (finding,) = caught.value.findings
        assert str(finding.place) == "group_vars/all/vault.yml"
        assert cause in finding.message, spoil
        assert finding.hint
        assert CANARY not in str(finding)


@pytest.mark.gate("Ansible opens a file twice, each time in a process")
def test_secrets_are_those_of_the_site_and_no_module_of_it_is_imported(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "json.py").write_text("raise SystemExit(1)")
    password = folder / "own"
    password.write_text("#!/bin/sh\necho open sesame\n")
    password.chmod(0o700)
    (folder / "ansible.cfg").unlink()
    monkeypatch.setenv("ANSIBLE_VAULT_IDENTITY_LIST", "x@/nowhere,a@prompt,b@own")
    monkeypatch.setenv("ANSIBLE_VERBOSITY", "5")
    path = folder / "group_vars/all/vault.yml"
    found = load_plugins().adapters["ansible-inventory"].unvaulted(path, folder)  # type: ignore[attr-defined]  # an optional method
    assert found == opened(path)


@pytest.mark.gate("Cobweb and ansible-inventory by real processes: two commands of Cobweb")
@pytest.mark.parametrize("inventory", ["hosts.yml", "hosts.ini"])
def test_no_value_is_in_the_clear_in_anything_that_cobweb_keeps_or_says(
    folder: Path,
    inventory: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cache = folder.parent / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.chdir(folder)
    (folder / "hosts.ini").write_text("[web]\nh1 place=here\n[web:vars]\npw=weak\n")
    (folder / "site.yml").write_text(SITE.replace("hosts.yml", inventory))
    assert main(["show", "--vars", "-o", "json", "--trust-inventory"]) == 0
    assert main(["apply", "--yes", "--executor", "simulate", "-vv"]) == 0
    said = capfd.readouterr()
    assert CANARY not in said.out + said.err
    host = json.JSONDecoder().raw_decode(said.out)[0]["hosts"][0]
    assert host["variables"]["url"] == "(vaulted)"
    assert host["cobs"][0]["spec"] == {"pw": "(vaulted)", "url": "(vaulted)"}
    kept = [it for top in (folder / ".cobweb", cache) for it in top.rglob("*") if it.is_file()]
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []
    stored = list(contents(folder / ".cobweb/state.db"))
    assert any(b'"type": "simple"' in it or b'"type":"simple"' in it for it in stored)
    assert [it for it in stored if CANARY.encode() in it] == []
    own = load_site(folder, adapters=[AnsibleInventory()]).hosts["h1"].variables
    found = opened(folder / "group_vars/all/vault.yml")
    assert {key: own[key] for key in found} == found


def contents(database: Path) -> Iterator[bytes]:
    """Yield all texts that are in a database, those of compressed columns too."""
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            for row in connection.execute(f'SELECT * FROM "{table}"'):  # noqa: S608  # its own
                for value in row:
                    data = value if isinstance(value, bytes) else str(value).encode()
                    yield data
                    with suppress(zlib.error):
                        yield zlib.decompress(data)


def test_a_vaulted_file_needs_trust_in_the_site(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its password may be told by a program that the site's `ansible.cfg` names."""
    monkeypatch.chdir(folder)
    assert main(["validate", "--no-cache"]) == 3
    assert "group_vars/all/vault.yml: the whole file is vaulted" in capfd.readouterr().err


def test_an_inventory_that_is_vaulted_itself_is_refused(folder: Path) -> None:
    (folder / "hosts.ini").write_text(encrypted(f"[web]\nh1 pw={CANARY}\n"))
    for source in (folder / "hosts.ini", folder):
        with pytest.raises(CobwebError, match="an inventory that is vaulted"):
            list(AnsibleInventory().hosts(source))


TASKS = f"""
- assert:
    that:
    - pw == '{CANARY}'
    - raw == '{{' ~ '{{ {CANARY} }}' ~ '}}'
    - number == '0644'
    - flags[:3] == [true, false, none]
    - flags[3].deep == '{CANARY}'
    - url == 'hush-hush:{CANARY}@here'
    - cob.spec.pw == pw
    - cob.spec.url == url
    quiet: true
- debug: {{msg: '{{{{ url }}}} {{{{ cob.spec.url }}}}'}}
"""


ENVIRONMENT = "- command: 'true'\n  environment: {U: '{{ url }}'}\n"


LANES = pytest.param(AnsibleExecutor, marks=pytest.mark.gate("two plays by Ansible itself"))


@pytest.mark.parametrize("kind", [LANES, PLAIN])
def test_tasks_have_the_values_and_templates_among_them_are_rendered(
    make_bench: MakeBench, local: dict[str, str], folder: Path, kind: type[Executor]
) -> None:
    found = opened(folder / "group_vars/all/vault.yml")
    host = Host(name="h1", variables={**local, **found, "place": "here"})
    bench = make_bench(kind, inventory={"h1": host})
    spec = {"pw": found["pw"], "url": found["url"]}
    (report,) = bench.run(bench.job(bench.tasks("use.yml", TASKS), spec=spec))
    assert report.outcome is Outcome.OK, report
    if kind.name == "ansible":
        assert not [word for word in (CANARY, "hush-hush") if word in str(report)]
    (report,) = bench.run(bench.job(bench.tasks("env.yml", ENVIRONMENT), spec=spec))
    assert "the `environment` of this task uses a vaulted value" in report.message


@pytest.mark.gate("what ansible-inventory says by itself")
def test_ansible_reads_the_same_names(folder: Path) -> None:
    command = [ansible_tool("ansible-inventory"), "-i", "hosts.yml", "--list"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout
    theirs = json.loads(said)["_meta"]["hostvars"]["h1"]
    assert CANARY in said
    assert opened(folder / "group_vars/all/vault.yml").keys() | {"place"} == theirs.keys()
