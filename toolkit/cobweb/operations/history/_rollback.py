"""An earlier generation desired again: what it says, carried out by what there is now.

Its content is desired as it is, so that the new generation has the digest of the old one. Files
that have changed since come from their copies (see `_stored_work`), vaulted values from the site by
their digests, and types of plugins from the plugins, where these have lost nothing since. What is
gone is told before anything is changed.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import replace

from cobweb.engine import analyse
from cobweb.errors import GenerationError, UsageError
from cobweb.generation import EvaluatedSite, StoredSite, read_site, tree_of
from cobweb.model import CobId, CobType, Graph, Host, Missing
from cobweb.operations.context._desired import Desired, desired_of
from cobweb.operations.context._removal import counted_variables
from cobweb.operations.context._stored_work import KeptWork, Secrets, has_only_more, with_types
from cobweb.plugin import Plugins
from cobweb.site import Site
from cobweb.store import Generation, Store

MOST_PROBLEMS = 20
"""How many problems are told of; the others are counted."""

_LATELY = 100
"""Among so many runs the one is looked for that made the current generation."""


def desired_again(site: Site, plugins: Plugins, store: Store, generation: int) -> Desired:
    """Return what a generation desired.

    UsageError for one that there is not, StoreError for one that is damaged, GenerationError for
    one that cannot come about any more: secrets, types, plugins or task files are gone, specs do
    not fit the types of plugins, or the analysis finds what can never work.
    """
    found = store.generation(generation)
    if found is None:
        raise no_generation(store, generation)
    stored, now = read_site(found.content), desired_of(site)
    secrets = Secrets(now.secrets, now.hosts)
    original = stored.graph(now.roots)
    hosts = {name: secrets.host(host) for name, host in stored.hosts.items()}
    # The types of plugins are as these are now, but for what they share.
    graph, lost = _with_secrets(
        with_types(original, lambda it: replace(plugins.types.get(it.name, it), shared=it.shared)),
        secrets,
    )
    types = {it.type.name: it.type for it in original.cobs.values()}
    problems = [
        *(
            f"{name}: the vaulted value of the variable {it} is not in the site any more"
            for name, (_, gone) in sorted(hosts.items())
            for it in gone
        ),
        *(f"{place}: its vaulted value is not in the site any more" for place in lost),
        *_lost_trees(original, store),
        *_missing_work(types, stored, KeptWork(store, now.roots, plugins.python_types), plugins),
        *(
            f"type {name}: the plugin has given it other states or transitions since"
            for name in sorted(types.keys() & plugins.types.keys())
            if not has_only_more(types[name], plugins.types[name])
        ),
    ]
    problems = problems or [*_wrong(graph)]
    if problems:
        raise _refusal(found, problems)
    evaluated = EvaluatedSite(original, stored.hosts, roots=now.roots, files=stored.files)
    counted = counted_variables(now.graph, graph)
    known = {name: _reached(host, now, counted[name]) for name, (host, _) in hosts.items()}
    return replace(
        now,
        graph=graph,
        hosts={**now.hosts, **known},
        chosen=frozenset({*now.hosts, *known}),
        evaluated=evaluated,
        whole=lambda: evaluated,
        commit=lambda: found.commit,
        files=dict,
        kept=stored.files,
        is_deletion=False,
        decisions=found.decisions,
    )


def to_go_back_to(store: Store, asked: int | None = None, *, after_failure: bool = False) -> int:
    """Return the newest generation that was reached and says something else than the current one.

    It is the one that is `asked` for, if any. `after_failure` of the current one, only where that
    was never reached: otherwise what failed is no change. UsageError where there is none.
    """
    infos = store.generations()
    if asked is not None:
        if all(info.id != asked for info in infos):
            raise no_generation(store, asked)
        return asked
    if after_failure and infos[0].reached is not None:
        message = f"generation {infos[0].id} was reached before"
        raise UsageError(message, hint="`cobweb rollback` goes to the one before it")
    for info in infos:
        if info.reached is not None and info.digest != infos[0].digest:
            return info.id
    raise UsageError(
        "there is no earlier generation that was reached",
        hint="`cobweb generations` lists them; name one to go to it",
    )


def takes_rollback_back(store: Store, chosen: int) -> bool:
    """Say whether a rollback made the current generation, and `chosen` is what was before it."""
    current, *rest = store.generations()
    digests = {info.id: info.digest for info in rest}
    before = digests.get(current.parent)
    if before is None or digests.get(chosen) != before or before == current.digest:
        return False
    return rollback_of_current(store) is not None


def rollback_of_current(store: Store) -> str | None:
    """Return the id of the rollback that brought about the current generation, None: no such."""
    current = store.current_generation_id()
    runs = (run.info for run in store.runs(_LATELY) if run.info.generation == current)
    return next((info.id for info in runs if info.command.startswith("rollback")), None)


def no_generation(store: Store, generation: int) -> UsageError:
    """Return the error for a generation that there is not, which says whether there was one."""
    if 0 < generation < store.current_generation_id():
        message = f"generation {generation} was deleted by `cobweb gc`"
        return UsageError(message, hint="`cobweb generations` lists those that are left")
    message = f"there is no generation {generation}"
    return UsageError(message, hint="`cobweb generations` lists them")


def original_of(store: Store) -> tuple[int, int]:
    """Return the current generation, and if a rollback made it the first that said so; else 0."""
    infos = store.generations()
    if not infos:
        return 0, 0
    same = [info.id for info in infos[1:] if info.digest == infos[0].digest]
    return infos[0].id, same[-1] if same and rollback_of_current(store) else 0


def _reached(host: Host, now: Desired, counted: Container[str]) -> Host:
    """Return a host of the generation, with the variables that it had no use for as they are now.

    What was added since, and is removed when one goes back, may need them. Those that are `counted`
    as content now are as they were, or not there.
    """
    variables = now.hosts.get(host.name, host).variables
    others = {name: value for name, value in variables.items() if name not in counted}
    return replace(host, variables={**others, **host.variables})


def _with_secrets(graph: Graph, secrets: Secrets) -> tuple[Graph, list[str]]:
    """Return the objects with their secrets back, and the places of those that are gone."""
    places: list[str] = []
    lost: set[str] = set()

    def revealed(kind: CobType) -> CobType:
        made, gone = secrets.type(kind)
        lost.update(f"type {kind.name}: shared.{place}" for place in gone)
        return made

    graph = with_types(graph, revealed)
    cobs = {}
    for cob, it in graph.cobs.items():
        spec, missing = secrets.spec(it)
        cobs[cob] = it if spec is it.spec else replace(it, spec=spec)
        places += [f"{cob}.spec.{place}" for place in missing]
    return replace(graph, cobs=cobs), [*places, *sorted(lost)]


def _lost_trees(graph: Graph, store: Store) -> Iterator[str]:
    """Yield the objects whose file trees are gone; of those with the same tree the first."""
    trees: dict[str, CobId] = {}
    for cob, it in graph.cobs.items():
        trees.setdefault(tree_of(it.spec), cob)
    for digest, cob in trees.items():
        if digest and store.file(digest) is None:
            yield f"{cob}.spec.tree: the copy of the tree is gone"


def _missing_work(
    types: Mapping[str, CobType], stored: StoredSite, work: KeptWork, plugins: Plugins
) -> Iterator[str]:
    """Yield why types cannot do their work; those of plugins that are there do it their way."""
    for name in sorted(types.keys() - plugins.types.keys()):
        for action in work.type(types[name], stored.files).actions():
            if isinstance(action, Missing):
                yield f"type {name}: {action.message}"
                break


def _wrong(graph: Graph) -> Iterator[str]:
    """Yield what is wrong with a generation whose parts are all there."""
    from cobweb.site import unfit_specs  # which takes a slow import

    yield from unfit_specs(graph.cobs.values())
    for trouble in analyse(graph):
        yield "; ".join([trouble.message, *map(str, trouble.cycle)])


def _refusal(generation: Generation, problems: list[str]) -> GenerationError:
    commit, sign, _ = generation.commit.partition("+")
    checkout = f"check out commit {commit[:12]} of the site" if commit else "bring back its files"
    if sign:
        checkout += ", which had changes that were not committed"
    told = problems[:MOST_PROBLEMS]
    if len(problems) > len(told):
        told.append(f"... and {len(problems) - len(told)} more")
    return GenerationError(generation.id, told, hint=f"{checkout}, and apply")
