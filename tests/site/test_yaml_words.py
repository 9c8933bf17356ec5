"""Truth values of YAML 1.1 are what Ansible reads in what is Ansible's, and texts elsewhere."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from cobweb.site.reading._yaml import ALL_KEYS, read_yaml

WORDS = [text for word in ("yes", "no", "on", "off") for text in (word, word.title(), word.upper())]
NO_WORDS = ["yEs", "y", "n", "none", "enabled", "'no'", '"yes"', "!!str on", "no way"]


@pytest.mark.parametrize("word", [*WORDS, *NO_WORDS])
def test_a_word_is_what_pyyaml_reads(word: str) -> None:
    data = f"x: {word}\nl: [{word}, {{k: {word}}}]\n".encode()
    words: dict[str, Any] = {}
    node, findings = read_yaml(data, "f.yml", ansible=ALL_KEYS, words=words)
    assert findings == ()
    assert node is not None
    assert plain(node) == yaml.safe_load(data)
    places = [(place.line, place.column) for place in words.get(word, [])]
    assert places == ([(1, 4), (2, 5), (2, 5 + len(word) + 6)] if word in WORDS else [])


def plain(node: Any) -> Any:
    items = getattr(node, "items", None)
    if isinstance(items, dict):
        return {key: plain(item) for key, item in items.items()}
    return [plain(item) for item in items] if items is not None else node.value


SITE = """\
inventory: {app: {hosts: {app01: {a: no}}, vars: {b: 'no'}}}
cobs: {c: {type: simple, on: app, spec: {a: no, b: "{{ a }}", c: "{{ d }}"}}}
"""


def test_each_word_is_warned_of_and_the_rest_of_the_site_keeps_its_texts(maker: Any) -> None:
    files = {"site.yml": SITE, "group_vars/app.yml": "d: yes\ne: yes\nf: Off\n"}
    site = maker.site(files)
    (cob,) = site.graph().cobs.values()
    assert cob.spec == {"a": "no", "b": False, "c": True}
    assert site.hosts["app01"].variables == {
        "a": False,
        "b": "no",
        "d": True,
        "e": True,
        "f": False,
    }
    warnings = [str(it) for it in site.notes()]
    told = "{} is read as {}, as Ansible does (write `{}`, or quote what is a text)"
    more = "here and in 1 more places of this file"
    assert warnings == [
        told.format(f"group_vars/app.yml:1:4: `yes` {more}", "true", "true"),
        told.format("group_vars/app.yml:3:4: `Off` here", "false", "false"),
        told.format("site.yml:2:38: `no` here", "false", "false"),
    ]
