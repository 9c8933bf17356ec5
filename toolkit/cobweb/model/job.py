"""What the runtime asks of an executor, on which hosts, and what an executor reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cobweb.model.cob import Action, CobId, Confirm, State


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One host; `groups` are all that it is in, directly or by descent, sorted, without `all`.

    `variables` are merged by Ansible's precedence (group_vars, host_vars) and not templated;
    vaulted values stay mappings of the form `{"__ansible_vault": "..."}`. `source` is the file (or
    folder) of the inventory that names it first, relative to the site's folder.
    """

    name: str
    groups: tuple[str, ...] = ()
    variables: Mapping[str, Any] = field(default_factory=dict)
    source: str = field(default="", compare=False)


class JobKind(StrEnum):
    """A check finds the state of a COB and changes nothing; a transition changes it.

    A question is of no COB, and changes nothing: it needs no state, and hands back results.
    """

    CHECK = "check"
    TRANSITION = "transition"
    QUESTION = "question"


class Outcome(StrEnum):
    """How a job ended.

    `UNREACHABLE` says that the host could not be asked (nothing is known of what happened there);
    `CANCELLED` that the job was stopped by us or was never begun.
    """

    OK = "ok"
    FAILED = "failed"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One attempt of one check or transition on one host.

    `number` is unique in a run. `cob_vars` is what tasks see as the variable `cob` (section 4 of
    the design): id, name, host, type, spec, applied, state, target, generation. `source` and `dest`
    are empty for a check. `timeout_s` None means the executor's default. A `fresh` job is carried
    out over a connection that was made after it was submitted, never over one that was there.
    A job with `confirm` is the runtime's to see through: executors get it in steps without one.
    `host_vars` are variables of its host that earlier jobs have handed back, which count above what
    the inventory says, for the connection of this job and in its templates; another job of the same
    host may have others, as the host may have another address by then. `content` is the digest of
    what the object is to be, "" where nobody keeps it; `shared` is what its type shares.
    """

    number: int
    kind: JobKind
    cob: CobId
    host: str
    type_name: str
    action: Action
    cob_vars: Mapping[str, Any]
    source: State = ""
    dest: State = ""
    attempt: int = 1
    timeout_s: float | None = None
    fresh: bool = False
    confirm: Confirm | None = None
    host_vars: Mapping[str, Any] = field(default_factory=dict)
    content: str = ""
    shared: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOutput:
    """What one task of a job did; `status` is ok, changed, skipped, failed, or unreachable."""

    name: str
    status: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """The end of a job; `state` is what a check found, `message` one line on what went wrong.

    The message of a check that ended well may say what it found not to be as it should be.
    `began` says whether anything can have happened on the host: a cancelled job that never began
    has not touched it. `results` are what it hands back to later jobs, plain JSON data by key; they
    are kept for its host, key by key, and None deletes one. A failure that is `in_doubt` is one of
    ours and not of the job's: what it did may have been done, and a check is to say so. A job that
    is still `at_work`, as far as is known, goes on somewhere, or what it has started there does.
    """

    number: int
    outcome: Outcome
    state: State = ""
    message: str = ""
    tasks: tuple[TaskOutput, ...] = field(default=())
    began: bool = True
    results: Mapping[str, Any] = field(default_factory=dict)
    in_doubt: bool = False
    at_work: bool = False
