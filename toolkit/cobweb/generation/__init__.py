"""What a site is, as data that can be compared: content digests, redaction, what changed; pure.

A generation is the evaluated site (design, section 6): canonical JSON without secrets, and its
SHA-256. The content of one object is its type's name and its redacted spec: where it is written, in
which order its keys stand and how its type carries out a transition is no part of it.
"""

from __future__ import annotations

from cobweb.generation._budgets import merged_budgets, merged_limits
from cobweb.generation._content import (
    INPUTS,
    VAULT_MARK,
    Changes,
    canonical_json,
    changes,
    content_of,
    contents,
    digest,
    digest_of_pieces,
    inputs_of,
    listed,
    quoted,
    redact,
    reveal,
    secrets_of,
)
from cobweb.generation._diff import (
    Difference,
    NeedDifference,
    SiteDiff,
    changed_trees,
    site_diff,
    spec_diff,
)
from cobweb.generation._kept_files import KeptFiles, kept_files, lent_variables
from cobweb.generation._paths import OWN_ROOT, SITE_ROOT, Paths
from cobweb.generation._site import PROTECTED, EvaluatedSite
from cobweb.generation._stored import StoredSite, read_site
from cobweb.generation._switch import Switch, SwitchingOrder, switching_order
from cobweb.generation._texts import (
    ChangeKind,
    FileDifference,
    TextDifference,
    text_difference,
    tree_difference,
)
from cobweb.generation._trees import (
    TREE,
    TreeEntry,
    TreeKind,
    archive_of,
    in_order,
    read_archive,
    tree_digest,
    tree_of,
)

__all__ = [
    "INPUTS",
    "OWN_ROOT",
    "PROTECTED",
    "SITE_ROOT",
    "TREE",
    "VAULT_MARK",
    "ChangeKind",
    "Changes",
    "Difference",
    "EvaluatedSite",
    "FileDifference",
    "KeptFiles",
    "NeedDifference",
    "Paths",
    "SiteDiff",
    "StoredSite",
    "Switch",
    "SwitchingOrder",
    "TextDifference",
    "TreeEntry",
    "TreeKind",
    "archive_of",
    "canonical_json",
    "changed_trees",
    "changes",
    "content_of",
    "contents",
    "digest",
    "digest_of_pieces",
    "in_order",
    "inputs_of",
    "kept_files",
    "lent_variables",
    "listed",
    "merged_budgets",
    "merged_limits",
    "quoted",
    "read_archive",
    "read_site",
    "redact",
    "reveal",
    "secrets_of",
    "site_diff",
    "spec_diff",
    "switching_order",
    "text_difference",
    "tree_difference",
    "tree_digest",
    "tree_of",
]
