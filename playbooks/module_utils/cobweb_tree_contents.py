# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the contents of a `tree` are while its versions are merged."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, Optional, Tuple

from ansible.module_utils.cobweb_host import Failed
from ansible.module_utils.cobweb_tree_disk import Disk
from ansible.module_utils.cobweb_tree_git import Repository, blob_of
from ansible.module_utils.cobweb_tree_merge import TextMerge
from ansible.module_utils.cobweb_tree_words import hunks


class Contents:
    """What blobs hold: those of the repository, those that merging makes, those on the host."""

    def __init__(self, repository: Repository, disk: Disk, local: Dict[str, str]) -> None:
        self._repository = repository
        self._disk = disk
        self._local = local
        self._made: Dict[str, bytes] = {}

    def get(self, blob: str) -> bytes:
        """Return what a blob holds."""
        if blob in self._made:
            return self._made[blob]
        if blob not in self._local:
            return self._repository.content(blob)
        path = self._local[blob]
        content = self._disk.read(path)
        if blob_of(content) != blob:
            raise Failed(f"{self._disk.full(path)} changes while it is read; try again")
        return content

    def unstored(self) -> Iterator[bytes]:
        """Yield what the repository may not have yet."""
        for blob in itertools.chain(self._made, self._local):
            yield self.get(blob)

    def merger(self, policy: str) -> TextMerge:
        """Return what merges contents."""

        def merge(base: str, ours: str, theirs: str) -> Tuple[Optional[str], str]:
            contents = (self.get(base), self.get(ours), self.get(theirs))
            merged, clean = self._repository.merge_file(policy, contents)
            if not clean:
                return None, hunks(merged)
            blob = blob_of(merged)
            self._made[blob] = merged
            return blob, ""

        return merge
