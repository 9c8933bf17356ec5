"""However a site is spoiled, it loads or it has findings: nothing else is ever raised."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cobweb.errors import Finding, SiteError
from cobweb.site import load_site

TABLE = yaml.safe_load(
    (Path(__file__).resolve().parents[1] / "bad_input/cases.yml").read_text(encoding="utf-8")
)
FILES: dict[str, str] = TABLE["bases"]["shop"]
TOKENS = {name: re.findall(r"\s+|[\w.]+|.", FILES[name]) for name in ("site.yml", "hosts.yml")}
ODD = [
    *("", "null", "[]", "{}", "[[a]]", "{a: {b: c}}", "5", "-1.5", "true", "'{{ app_port }}'", "*"),
    *('"{{ groups }}"', "'{{ [1] }}'", "'{{ nope }}'", "!vault x", "!force {a: 1}", "!default [1]"),
    *("&x [1]", "*x", "<<", "app", "unknown", "a -> b", "x@y", "@", "~(", "a[9]", "\t", "\n", ":"),
    *(
        "9999999999999999999",
        "NO",
        "$ref",
        "{$ref: '#/nowhere'}",
        "{type: 7}",
        "-",
        "#",
        "\x00",
        "é",
    ),
]

spoilt = st.tuples(
    st.sampled_from(sorted(TOKENS)),
    st.floats(0, 1, exclude_max=True),
    st.sampled_from(ODD),
    st.integers(0, 4),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spoilt, min_size=1, max_size=3))
def test_a_spoiled_site_has_findings_or_is_a_site(
    changes: list[tuple[str, float, str, int]],
) -> None:
    """Tokens are taken away or replaced by something odd, in the site and its inventory."""
    tokens = {name: list(parts) for name, parts in TOKENS.items()}
    for name, position, odd, length in changes:
        start = int(position * len(tokens[name]))
        tokens[name][start : start + length] = [odd]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for name, parts in tokens.items():
            (root / name).write_text("".join(parts), encoding="utf-8")
        for finding in _findings(root):
            assert finding.place.file
            assert finding.message


def _findings(root: Path) -> Sequence[Finding]:
    try:
        site = load_site(root)
        ids = list(site.graph().cobs)[:3]
        for ref in (*ids, *(f"{cob}.spec" for cob in ids)):
            site.explain(ref)
        return site.findings_of_files()
    except SiteError as error:
        return error.findings
