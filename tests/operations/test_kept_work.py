"""Files and secrets of earlier generations are found again, or what needs them fails."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cobweb.errors import ExecutorError, Place
from cobweb.generation import KeptFiles, redact
from cobweb.model import (
    Action,
    Cob,
    CobId,
    CobType,
    Graph,
    Host,
    Missing,
    Nothing,
    PythonAction,
    Role,
    Tasks,
    Transition,
)
from cobweb.operations.context._stored_work import KeptWork, Secrets
from cobweb.plugin import PythonType
from cobweb.store import Generation, Store, open_store

OLD, NEW = b"- ping:\n", b"- debug:\n"
COB = CobId("h/a")


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store("sqlite:///state.db", tmp_path) as opened:
        yield opened


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


Make = Callable[..., KeptWork]


@pytest.fixture
def work(store: Store, site: Path, tmp_path: Path) -> Make:
    """Make the work of a site with these files now, and these copies in the state database."""

    def make(
        now: Mapping[str, bytes],
        copies: tuple[bytes, ...] = (),
        *,
        python_types: Mapping[str, PythonType] | None = None,
        folder: Path | None = tmp_path / "copies",
        types: Mapping[str, CobType] | None = None,
    ) -> KeptWork:
        for name, content in now.items():
            path = site / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        names = ",".join(f'"site:{n}":"{digest(each)}"' for n, each in enumerate(copies))
        text = f'{{"files":{{{names}}},"format":4}}'
        generation = Generation(
            digest=digest(text.encode()), author="", time=0, message="", content=text
        )
        store.save_generation(generation, {digest(each): each for each in copies})
        roots = {"site": str(site)}
        return KeptWork(store, roots, python_types or {}, folder, types=types or {})

    return make


def a_type(check: Action, step: Action | None = None, place: Place | None = None) -> CobType:
    steps = (Transition(source="down", dest="up", action=step or Nothing()),)
    return CobType(
        name="t",
        states=("down", "up"),
        preferred="up",
        remove="down",
        check=check,
        transitions=steps,
        place=place,
    )


def files(contents: Mapping[str, bytes]) -> KeptFiles:
    return KeptFiles(digests={f"site:{name}": digest(each) for name, each in contents.items()})


def test_what_is_as_it_was_is_left_alone(work: Make, site: Path) -> None:
    then = {"t/up.yml": OLD, "roles/web/tasks/main.yml": OLD}
    kind = a_type(Tasks(path=f"{site}/t/up.yml"), Role(name=f"{site}/roles/web"))
    graph = Graph(cobs={COB: Cob(id=COB, type=kind)})
    assert work(then).graph(graph, files(then)) is graph


def test_a_type_of_a_plugin_that_has_only_more_is_what_it_is_now(work: Make) -> None:
    """Its check may find a state that the generation did not know; else it is what it was."""
    then = a_type(Nothing())
    steps = (*then.transitions, Transition(source="broken", dest="up", action=Nothing()))
    now = replace(then, states=("broken", "down", "up"), transitions=steps, serving=("up",))
    assert work({}, types={"t": now}).type(then, files({})) is now
    assert work({}, types={"t": now}).type(now, files({})) is now
    assert work({}, types={"t": replace(then)}).type(then, files({})) is then
    others = (
        replace(now, states=("up", "broken", "down")),
        replace(now, preferred="down"),
        replace(now, transitions=steps[1:]),
        replace(now, check=Missing(message="another one of this name")),
    )
    for other in others:
        assert work({}, types={"t": other}).type(then, files({})) is then
    grouped = replace(then, groups={"off": ("down",)})
    assert work({}, types={"t": now}).type(grouped, files({})) is grouped


@pytest.mark.parametrize("now", [{}, {"t/up.yml": NEW}], ids=["gone", "changed"])
def test_what_is_gone_or_changed_runs_from_its_copy_with_all_beside_it(
    work: Make, site: Path, now: dict[str, bytes]
) -> None:
    then = {"t/up.yml": OLD, "t/more/x.j2": b"x", "other/y": b"y"}
    kind = work(now, (OLD, b"x", b"y")).type(a_type(Tasks(path=f"{site}/t/up.yml")), files(then))
    assert isinstance(kind.check, Tasks)
    path = Path(kind.check.path)
    assert site not in path.parents
    assert path.read_bytes() == OLD
    assert (path.parent / "more/x.j2").read_bytes() == b"x"
    assert (path.parent / "../other/y").read_bytes() == b"y"


def test_a_changed_file_beside_the_tasks_asks_for_the_copies_too(work: Make, site: Path) -> None:
    then = {"t/up.yml": OLD, "t/x.j2": b"x"}
    made = work({"t/up.yml": OLD, "t/x.j2": b"z"}, (b"x",))
    kind = made.type(a_type(Tasks(path=f"{site}/t/up.yml")), files(then))
    assert isinstance(kind.check, Tasks)
    assert (Path(kind.check.path).read_bytes(), kind.check.path[-8:]) == (OLD, "t/up.yml")
    assert (Path(kind.check.path).parent / "x.j2").read_bytes() == b"x"


def test_a_role_runs_from_its_copy(work: Make, site: Path) -> None:
    then = {"roles/web/tasks/main.yml": OLD}
    kind = work({}, (OLD,)).type(a_type(Role(name=f"{site}/roles/web")), files(then))
    assert isinstance(kind.check, Role)
    assert (Path(kind.check.name) / "tasks/main.yml").read_bytes() == OLD


def test_a_file_from_outside_the_site_has_its_copy_beside_it(work: Make, site: Path) -> None:
    then = {"../../c/t/up.yml": OLD, "web/up.yml": NEW}
    outside = a_type(
        Tasks(path=str(site.parent.parent / "c/t/up.yml")),
        Tasks(path=f"{site}/web/up.yml"),
        place=Place(file="../../c/types.yml"),
    )
    kind = work({}, (OLD, NEW)).type(outside, files(then))
    check, step = kind.actions()
    assert isinstance(check, Tasks)
    assert isinstance(step, Tasks)
    assert (Path(check.path).read_bytes(), Path(step.path).read_bytes()) == (OLD, NEW)


def test_copies_are_written_once_for_a_generation_and_not_without_a_folder(
    work: Make, site: Path, tmp_path: Path
) -> None:
    then = {"t/up.yml": OLD}
    kind = a_type(Tasks(path=f"{site}/t/up.yml"))
    made = work({}, (OLD, NEW))
    assert made.type(kind, files(then)) == made.type(kind, files(then))
    assert made.type(kind, files({"t/up.yml": NEW})) != made.type(kind, files(then))
    assert len(list((tmp_path / "copies").iterdir())) == 2
    assert work({}, (OLD,), folder=None).type(kind, files(then)) is kind


@pytest.mark.parametrize(
    ("action", "then", "message"),
    [
        (
            Tasks(path="/s/t/up.yml"),
            {},
            "the task file site:t/up.yml is gone, and no generation has a copy",
        ),
        (Role(name="/s/r"), {}, "the role site:r is gone, and no generation has a copy"),
        (
            Tasks(path="/s/t/up.yml"),
            {"t/up.yml": OLD},
            "the task file site:t/up.yml is not as it was, and the copy of site:t/up.yml is gone",
        ),
        (
            Role(name="/s/r"),
            {"r/tasks/main.yml": OLD},
            "the role site:r is not as it was, and the copy of site:r/tasks/main.yml is gone",
        ),
        (
            PythonAction(type_name="t", method="up"),
            {},
            "no plugin has the type t with `up` any more",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_found_again_fails_with_its_reason(
    store: Store, action: Action, then: dict[str, bytes], message: str
) -> None:
    made = KeptWork(store, {"site": "/s"}, {}, None)
    assert made.type(a_type(action), files(then)).check == Missing(message=message)


def test_what_needs_no_file_stays(work: Make, site: Path) -> None:
    class Python:
        name = "t"

        def up(self) -> None: ...

    own = {"one.yml": OLD}
    actions: list[Action] = [
        Role(name="galaxy.web"),
        Nothing(),
        Missing(message="x"),
        PythonAction(type_name="t", method="up"),
        Tasks(path=f"{site}/one.yml"),
        Role(name=str(site)),
    ]
    python_types: Any = {"t": Python()}
    made = work(own, python_types=python_types)
    for action in actions:
        kind = a_type(action)
        assert made.type(kind, KeptFiles()) is kind


def test_a_copy_that_cannot_be_written_is_an_error(work: Make, site: Path, tmp_path: Path) -> None:
    (tmp_path / "copies").write_bytes(b"no folder")
    with pytest.raises(ExecutorError, match="cannot write the copy"):
        work({}, (OLD,)).type(a_type(Tasks(path=f"{site}/t/up.yml")), files({"t/up.yml": OLD}))


def test_a_copy_never_leaves_its_folder(work: Make, site: Path, tmp_path: Path) -> None:
    """Names come from the state database, where somebody may have written others."""
    then = {"t/up.yml": OLD, "t/x/../../../../../../evil": NEW}
    work({}, (OLD, NEW)).type(a_type(Tasks(path=f"{site}/t/up.yml")), files(then))
    found = [path for path in tmp_path.parent.rglob("evil") if path.is_file()]
    assert all(tmp_path / "copies" in path.parents for path in found)


# --- secrets

FIRST, SECOND, THIRD = ({"__ansible_vault": text} for text in ("61", "62", "63"))


def secrets(
    *marks: Mapping[str, str], hosts: dict[str, Host] | None = None, cobs: Any = None
) -> Secrets:
    present = {redact(mark)["__cobweb_secret"]: mark for mark in marks}
    return Secrets(lambda: present, hosts or {}, cobs)


def cob_with(spec: Any) -> Cob:
    return Cob(id=COB, type=a_type(Nothing()), spec=redact(spec))


def gone(
    what: str, forget: str = f", or take the object away by hand and `cobweb forget {COB}`"
) -> str:
    """Return what is said of an object that lacks a secret."""
    lost = f"the vaulted value of {what} is not in the site any more"
    return f"{lost} (write it anywhere in the site again{forget})"


def test_a_spec_without_secrets_asks_for_none() -> None:
    def never() -> Any:
        raise AssertionError("it was asked")

    found = Secrets(never, {})
    cob = cob_with({"port": 1})
    assert found.spec(cob) == (cob.spec, ())
    graph = Graph(cobs={COB: cob})
    assert found.graph(graph, {"h": Host(name="h")})[0] == graph


def test_objects_have_their_secrets_back_or_fail_with_what_they_lack() -> None:
    good, bad = cob_with({"key": FIRST}), cob_with({"key": SECOND})
    graph, _ = secrets(FIRST).graph(Graph(cobs={COB: good}), {"h": Host(name="h")})
    assert graph.cobs[COB].spec == {"key": FIRST}
    graph, _ = secrets(FIRST).graph(Graph(cobs={COB: bad}), {"h": Host(name="h")})
    assert set(graph.cobs[COB].type.actions()) == {Missing(message=gone("spec.key"))}


def test_variables_that_are_content_stay_digests_and_no_work_fails_for_them() -> None:
    """A type that says which count, or runs a role; of another one `inputs` is a word like any."""
    spec = {"key": FIRST, "inputs": {"web_known": FIRST, "web_gone": SECOND}}
    plain = cob_with(spec)
    counted = replace(plain, type=replace(plain.type, inputs=("web_*",)))
    found, missing = secrets(FIRST).spec(counted)
    assert found == {"key": FIRST, "inputs": redact(spec["inputs"])}
    assert missing == ("inputs.web_gone",)
    graph, _ = secrets(FIRST).graph(Graph(cobs={COB: counted}), {"h": Host(name="h")})
    assert graph.cobs[COB].type == counted.type
    graph, _ = secrets(FIRST).graph(Graph(cobs={COB: plain}), {"h": Host(name="h")})
    assert graph.cobs[COB].type.check == Missing(message=gone("spec.inputs.web_gone"))


def test_an_object_that_the_site_has_is_not_to_be_forgotten() -> None:
    old = Graph(cobs={COB: cob_with({"key": SECOND})})
    found, _ = secrets(cobs={COB: cob_with({})}).graph(old, {"h": Host(name="h")})
    assert found.cobs[COB].type.check == Missing(message=gone("spec.key", forget=""))


def test_an_object_that_is_still_there_may_have_another_secret_by_now() -> None:
    now = Cob(id=COB, type=a_type(Nothing()), spec={"key": THIRD})
    found = secrets(FIRST, cobs={COB: now}).spec(cob_with({"key": SECOND}))
    assert found == ({"key": THIRD}, ())


def test_a_host_that_is_gone_is_reached_by_what_was_kept() -> None:
    old = Host(
        name="h",
        variables=redact({"ansible_password": FIRST, "token": SECOND, "deep": {"a": SECOND}}),
    )
    graph = Graph(cobs={COB: cob_with({})})
    made, hosts = secrets(FIRST).graph(graph, {"h": old})
    assert hosts["h"].variables == {"ansible_password": FIRST}
    assert made == graph
    made, hosts = secrets().graph(graph, {"h": old})
    message = gone("the variable ansible_password")
    assert made.cobs[COB].type.check == Missing(message=message)
    present = {"h": Host(name="h", variables={"ansible_password": THIRD})}
    made, hosts = secrets(hosts=present).graph(graph, {"h": old})
    assert made == graph
    assert hosts["h"].variables == {"ansible_password": THIRD}
