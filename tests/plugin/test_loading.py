"""Loading: what is whole is there, what is broken is left out alone and said clearly."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import pytest

from cobweb.errors import PluginError
from cobweb.model import Nothing
from cobweb.plugin import FailedPlugin, Kind, Plugins, load_plugins

Install = Callable[..., Path]

WHOLE = """
    import click
    from cobweb.model import CobType, Host, Nothing, PythonAction, Tasks, Transition

    class Executor:
        name = "whole"
        actions = frozenset({Nothing})
        def open(self, setting): pass
        def submit(self, job): pass
        def wait(self, timeout_s): return []
        def wake(self): pass
        def now(self): return 0.0
        def close(self, *, kill=False): pass

    class Solver:
        name = "whole"
        def solve(self, template, constraints): return {"nodes": []}

    class Planner:
        name = "whole"
        def stages(self, graph, steps): return None
        def priorities(self, graph): return {}

    class Adapter:
        name = "whole"
        def reads(self, source): return False
        def hosts(self, source): yield Host(name="h")

    class Transport:
        name = "whole"
        def connect(self, address, owner, wake): return None

    class Section:
        name = "whole"
        schema = {"type": "object"}

    class Mark:
        name = "whole-mark"
        def cob_type(self):
            up = Transition(source="down", dest="up", action=Nothing())
            return CobType(name=self.name, states=("down", "up"), preferred="up", remove="down",
                           check=Tasks(path="/check.yml"), transitions=(up,))

    class Runs(Mark):
        name = "whole-python"
        def check(self, context): return "up"
        def start(self, context): pass
        def cob_type(self):
            start = PythonAction(type_name=self.name, method="start")
            up = Transition(source="down", dest="up", action=start)
            check = PythonAction(type_name=self.name, method="check")
            return CobType(name=self.name, states=("down", "up"), preferred="up", remove="down",
                           check=check, transitions=(up,))

    @click.command("whole")
    def command(): pass

    @hookimpl
    def cobweb_register_types(): return [Mark, Runs]
    @hookimpl
    def cobweb_register_executors(): return [Executor]
    @hookimpl
    def cobweb_register_solvers(): return (Solver,)
    @hookimpl
    def cobweb_register_planners(): return [Planner]
    @hookimpl
    def cobweb_register_adapters(): return [Adapter]
    @hookimpl
    def cobweb_register_commands(): return [command]
    @hookimpl
    def cobweb_register_sections(): return [Section]
    @hookimpl
    def cobweb_register_transports(): return [Transport]

    class Observer:
        name = "whole"
        def open(self, argument): pass
        def take(self, event): pass
        def close(self, result): pass

    @hookimpl
    def cobweb_register_observers(): return [Observer]

    class Extension:
        point = "whole-point"
        name = "whole"

    class Point:
        point = "extension-point"
        name = "whole-point"

    @hookimpl
    def cobweb_register_extensions(): return [Extension, Point]
"""


def _failure(plugins: Plugins, name: str) -> FailedPlugin:
    (failed,) = [plugin for plugin in plugins.failed if plugin.name == name]
    return failed


def test_a_whole_plugin_is_loaded_with_all_that_it_registers(install: Install) -> None:
    folder = install("whole", WHOLE, version="2.3")
    plugins = load_plugins()
    (loaded,) = [plugin for plugin in plugins.loaded if plugin.name == "whole"]
    assert (loaded.distribution, loaded.version) == ("whole-dist", "2.3")
    assert loaded.module == "whole_module"
    assert loaded.location == str(folder / "whole_module.py")
    registered: dict[Kind, tuple[str, ...]] = dict.fromkeys(Kind, ("whole",))
    registered[Kind.TYPES] = ("whole-mark", "whole-python")
    registered[Kind.EXTENSIONS] = ("whole-point/whole", "extension-point/whole-point")
    assert loaded.registered == registered
    assert {"whole-mark", "whole-python"} <= set(plugins.types)
    assert [name for name in plugins.python_types if name.startswith("whole")] == ["whole-python"]
    assert plugins.types["whole-mark"].transitions[0].action == Nothing()
    assert plugins.executors["whole"].name == "whole"
    assert plugins.executors["whole"].actions == {Nothing}
    assert isinstance(plugins.commands["whole"], click.Command)
    assert plugins.sections["whole"].schema == {"type": "object"}
    assert plugins.solvers["whole"].solve({}, {}) == {"nodes": []}
    assert [host.name for host in plugins.adapters["whole"].hosts(Path("x"))] == ["h"]
    assert plugins.planners["whole"].name == "whole"
    assert [*plugins.extensions_at("whole-point")] == ["whole"]
    assert plugins.extensions_at("whole-point")["whole"].name == "whole"
    assert loaded.notes == ()


def test_a_hook_of_another_version_is_noted_and_all_else_is_there(install: Install) -> None:
    install("newer", WHOLE + "    @hookimpl\n    def cobweb_register_weavers(spider): return [1]\n")
    plugins = load_plugins()
    (loaded,) = [plugin for plugin in plugins.loaded if plugin.name == "newer"]
    assert loaded.notes == ("this Cobweb has no hook cobweb_register_weavers",)
    assert "whole" in plugins.executors


def test_an_extension_that_no_plugin_asks_for_is_noted(install: Install) -> None:
    source = """
    class Extension:
        point = "{point}"
        name = "{name}"

    @hookimpl
    def cobweb_register_extensions(): return [Extension]
    """
    install("early", source.format(point="service-adapter", name="mine"))
    (early,) = [plugin for plugin in load_plugins().loaded if plugin.name == "early"]
    assert early.notes == ("no plugin asks for its service-adapter/mine",)
    install("late", source.format(point="extension-point", name="service-adapter"))
    loaded = {plugin.name: plugin.notes for plugin in load_plugins().loaded}
    assert (loaded["early"], loaded["late"]) == ((), ())


def test_two_extensions_have_one_name_at_two_points_only(install: Install) -> None:
    source = """
    class Extension:
        point = "{point}"
        name = "mine"

    @hookimpl
    def cobweb_register_extensions(): return [Extension]
    """
    install("first", source.format(point="one"))
    install("other", source.format(point="two"))
    install("same", source.format(point="one"))
    plugins = load_plugins()
    assert {"one/mine", "two/mine"} <= plugins.extensions.keys()
    assert "it registers extensions 'one/mine', which" in _failure(plugins, "same").reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """A plugin's source and what is said of it."""

    name: str
    source: str = ""
    head: str | None = None
    entry: str | None = None
    reason: str
    hint: str = ""


def _type(states: str = "('down', 'up')", **changes: str) -> str:
    """Return the source of a plugin with one type, some of whose fields are changed."""
    fields = {
        "name": "'t'", "states": states, "preferred": "'up'", "remove": "'down'",
        "check": "Nothing()", "transitions": "()",
    } | changes  # fmt: skip
    return f"""
    from cobweb.model import CobType, Nothing, PythonAction, Transition
    class T:
        name = "t"
        def cob_type(self):
            return CobType({", ".join(f"{key}={value}" for key, value in fields.items())})
    @hookimpl
    def cobweb_register_types(): return [T]
    """


def _executor(body: str) -> str:
    """Return the source of a plugin with one executor class, of the given body."""
    return f"""
    from cobweb.model import Nothing
    class E:
        name = "e"
        actions = frozenset({{Nothing}})
        def open(self, setting): pass
        def submit(self, job): pass
        def wait(self, timeout_s): return []
        def wake(self): pass
        def now(self): return 0.0
        def close(self, *, kill=False): pass
        {body}
    @hookimpl
    def cobweb_register_executors(): return [E]
    """


def _step(source: str, dest: str, attempts: int = 1) -> str:
    return f"Transition(source='{source}', dest='{dest}', action=Nothing(), attempts={attempts})"


BROKEN = [
    Broken(
        name="missing_module",
        source="import cobweb_no_such_thing",
        reason="ModuleNotFoundError: No module named 'cobweb_no_such_thing' at ",
        hint="install what provides cobweb_no_such_thing, or reinstall the plugin",
    ),
    Broken(
        name="no_entry",
        entry="no_entry = no_such_package",
        reason="no_such_package cannot be imported: ModuleNotFoundError",
        hint="install what provides no_such_package",
    ),
    Broken(
        name="no_attribute",
        entry="no_attribute = no_attribute_module:nothing",
        reason="AttributeError",
    ),
    Broken(
        name="raises",
        source="raise ValueError('two\\nlines')",
        reason="raises_module cannot be imported: ValueError: two lines at ",
        hint="report this to its author",
    ),
    Broken(name="syntax", source="def (", reason="SyntaxError: invalid syntax (syntax_module.py"),
    Broken(name="exits", source="raise SystemExit(3)", reason="SystemExit: 3 at "),
    Broken(name="silent", source="raise ValueError", reason="ValueError at "),
    Broken(
        name="no_interface",
        head="",
        reason="it does not say which plugin interface it was made for",
        hint="write `cobweb_interface = 1` in no_interface_module",
    ),
    Broken(
        name="old_interface",
        head="cobweb_interface = 0\n",
        reason="it was made for plugin interface 0, this Cobweb has 1",
        hint="install a version of old_interface-dist that fits",
    ),
    Broken(
        name="hostile_module",
        source="def __getattr__(name): raise RuntimeError(name)",
        head="",
        reason="it cannot be examined: RuntimeError: cobweb_interface at ",
    ),
    Broken(
        name="extension_without_point",
        source="""
        class E:
            name = "e"
        @hookimpl
        def cobweb_register_extensions(): return [E]
        """,
        reason="E lacks a point and a name that are words",
    ),
    Broken(
        name="extension_name",
        source="""
        class E:
            point, name = "extension-point", "A/b"
        @hookimpl
        def cobweb_register_extensions(): return [E]
        """,
        reason="E lacks a point and a name that are words",
    ),
    Broken(
        name="decision_schema_true",
        source="""
        class S:
            name, schema, decision_schema = "s", {}, True
        @hookimpl
        def cobweb_register_sections(): return [S]
        """,
        reason="the decision_schema of S is no mapping",
    ),
    Broken(
        name="decision_schema",
        source="""
        class S:
            name, schema, decision_schema = "s", {}, {"type": "lamp"}
        @hookimpl
        def cobweb_register_sections(): return [S]
        """,
        reason="the schema of the decisions of section s is no JSON Schema at $.type: ",
    ),
    Broken(
        name="misspelt",
        source="@hookimpl\ndef cobweb_register_typs(): return []",
        reason="there is no hook cobweb_register_typs",
        hint="did you mean cobweb_register_types?",
    ),
    Broken(
        name="misspelt_unmarked",
        source="def cobweb_register_solver(): return []",
        reason="there is no hook cobweb_register_solver",
        hint="did you mean cobweb_register_solvers?",
    ),
    Broken(
        name="alien",
        source="@hookimpl\ndef totally_different(): return []",
        reason="there is no hook totally_different",
        hint="hooks are cobweb_register_types, ",
    ),
    Broken(
        name="unmarked",
        source="def cobweb_register_types(): return []",
        reason="cobweb_register_types is not marked",
        hint="write @hookimpl above it",
    ),
    Broken(
        name="arguments",
        source="@hookimpl\ndef cobweb_register_types(site): return []",
        reason="its hooks do not fit: PluginValidationError",
    ),
    Broken(
        name="hook_raises",
        source="@hookimpl\ndef cobweb_register_types(): raise KeyError('x')",
        reason="cobweb_register_types failed: KeyError: 'x' at ",
    ),
    Broken(
        name="hook_exits",
        source="@hookimpl\ndef cobweb_register_types(): raise SystemExit",
        reason="cobweb_register_types failed: SystemExit",
    ),
    Broken(
        name="returns_none",
        source="@hookimpl\ndef cobweb_register_types(): pass",
        reason="cobweb_register_types returned NoneType, not a list",
        hint="return a list of classes",
    ),
    Broken(
        name="returns_text",
        source="@hookimpl\ndef cobweb_register_types(): return 'abc'",
        reason="cobweb_register_types returned str, not a list",
    ),
    Broken(
        name="no_class",
        source="@hookimpl\ndef cobweb_register_solvers(): return [3]",
        reason="cobweb_register_solvers returned 3, which is no class",
    ),
    Broken(
        name="no_name",
        source="""
        class S:
            def solve(self, template, constraints): return {}
        @hookimpl
        def cobweb_register_solvers(): return [S]
        """,
        reason="S lacks a name",
    ),
    Broken(
        name="no_method",
        source="""
        class S:
            name = "s"
        @hookimpl
        def cobweb_register_solvers(): return [S]
        """,
        reason="S lacks the method solve(template, constraints)",
        hint="see cobweb.plugin for the protocols",
    ),
    Broken(
        name="method_no_function",
        source=_executor("wake = 3"),
        reason="E lacks the method wake()",
    ),
    Broken(
        name="method_arguments",
        source=_executor("def wait(self): return []"),
        reason="E.wait must take (timeout_s)",
    ),
    Broken(
        name="method_keywords",
        source=_executor("def close(self): pass"),
        reason="E.close must take (*, kill)",
    ),
    Broken(
        name="no_actions",
        source=_executor("actions = {'tasks'}"),
        reason="E lacks its actions (a class attribute, a frozenset of Nothing, PythonAction, ",
    ),
    Broken(
        name="no_schema",
        source="""
        class S:
            name = "s"
        @hookimpl
        def cobweb_register_sections(): return [S]
        """,
        reason="S lacks a schema",
    ),
    Broken(
        name="no_command",
        source="@hookimpl\ndef cobweb_register_commands(): return [print]",
        reason="which is no click command",
    ),
    Broken(
        name="nameless_command",
        source="""
        import click
        @hookimpl
        def cobweb_register_commands(): return [click.Command(None)]
        """,
        reason="lacks a name",
    ),
    Broken(
        name="needs_arguments",
        source="""
        class S:
            name = "s"
            def __init__(self, site): pass
            def solve(self, template, constraints): return {}
        @hookimpl
        def cobweb_register_solvers(): return [S]
        """,
        reason="s cannot be made: TypeError",
    ),
    Broken(
        name="twice",
        source="""
        class S:
            name = "s"
            def solve(self, template, constraints): return {}
        @hookimpl
        def cobweb_register_solvers(): return [S, S]
        """,
        reason="it registers solvers 's' twice",
    ),
    Broken(
        name="hostile_name",
        source="""
        class Meta(type):
            @property
            def name(cls): raise RuntimeError("no name")
        class S(metaclass=Meta):
            def solve(self, template, constraints): return {}
        @hookimpl
        def cobweb_register_solvers(): return [S]
        """,
        reason="what cobweb_register_solvers returned cannot be used: RuntimeError: no name",
    ),
    Broken(
        name="unsayable",
        source="""
        class Silent(Exception):
            def __str__(self): raise RuntimeError("no text")
        raise Silent
        """,
        reason="unsayable_module cannot be imported: Silent: <exception str() failed> at ",
    ),
    Broken(
        name="hostile_list",
        source="""
        class Items(list):
            def __iter__(self): raise RuntimeError("not twice")
        @hookimpl
        def cobweb_register_solvers(): return Items()
        """,
        reason="it cannot be examined: RuntimeError: not twice at ",
    ),
    Broken(
        name="hostile_text",
        source="""
        class Name(str):
            __hash__ = None
        class S:
            name = Name("s")
            def solve(self, template, constraints): return {}
        @hookimpl
        def cobweb_register_solvers(): return [S]
        """,
        reason="it cannot be examined: TypeError: unhashable type: 'Name' at ",
    ),
    Broken(
        name="hostile_place",
        entry="hostile_place = hostile_place_module:plugin",
        source="""
        class Place:
            def __bool__(self): raise RuntimeError("nowhere")
        class Plugin:
            cobweb_interface = 1
            __file__ = Place()
        plugin = Plugin()
        """,
        reason="it cannot be examined: RuntimeError: nowhere at ",
    ),
    Broken(
        name="type_is_none",
        source="""
        class T:
            name = "t"
            def cob_type(self): pass
        @hookimpl
        def cobweb_register_types(): return [T]
        """,
        reason="cob_type() of t returned NoneType, not a CobType",
    ),
    Broken(
        name="type_raises",
        source="""
        class T:
            name = "t"
            def cob_type(self): raise OSError("no disk")
        @hookimpl
        def cobweb_register_types(): return [T]
        """,
        reason="t cannot be made: OSError: no disk at ",
    ),
    Broken(name="type_name", source=_type(name="'u'"), reason="returned a type named 'u'"),
    Broken(name="type_states", source=_type(states="()"), reason="type t: it has no states"),
    Broken(
        name="type_state_twice",
        source=_type(states="('up', 'down', 'up')"),
        reason="type t: a state is named twice",
    ),
    Broken(
        name="type_unknown",
        source=_type(states="('unknown', 'down', 'up')"),
        reason="type t: 'unknown' cannot be a state of a type",
    ),
    Broken(
        name="type_any",
        source=_type(states="('*', 'down', 'up')"),
        reason="type t: '*' cannot be a state of a type",
    ),
    Broken(
        name="type_preferred",
        source=_type(preferred="'on'"),
        reason="type t: its preferred state 'on' is not one of its states",
    ),
    Broken(
        name="type_group_name",
        source=_type(groups="{'up': ('down',)}"),
        reason="type t: its group 'up' is called like a state",
    ),
    Broken(
        name="type_group_word",
        source=_type(groups="{'on/off': ('down',)}"),
        reason="type t: 'on/off' cannot be a group of states",
    ),
    Broken(
        name="type_group_empty",
        source=_type(groups="{'off': ()}"),
        reason="type t: its group 'off' has no states",
    ),
    Broken(
        name="type_group_state",
        source=_type(groups="{'off': ('down', 'gone')}"),
        reason="type t: its group 'off' names 'gone', which is not one of its states",
    ),
    Broken(
        name="type_group_twice",
        source=_type(groups="{'off': ('down', 'down')}"),
        reason="type t: its group 'off' names a state twice",
    ),
    Broken(
        name="type_connection",
        source=_type(connection="('port',)"),
        reason="type t: its `connection` names 'port', which is no variable of a connection",
    ),
    Broken(
        name="type_connection_runs",
        source=_type(connection="('ansible_ssh_args',)"),
        reason="type t: its `connection` names 'ansible_ssh_args', which can run programs here",
    ),
    Broken(
        name="type_serving",
        source=_type(serving="('up', 'gone')"),
        reason="type t: its `serving` names 'gone', which is not one of its states",
    ),
    Broken(
        name="type_serving_twice",
        source=_type(serving="('up', 'up')"),
        reason="type t: its `serving` names a state twice",
    ),
    Broken(
        name="type_serving_removed",
        source=_type(serving="('up', 'down')"),
        reason="type t: its `serving` names 'down', in which it is about to be removed",
    ),
    Broken(
        name="type_serving_lacks",
        source=_type("('down', 'half', 'up')", serving="('half',)"),
        reason="type t: its `serving` lacks 'up', the state that it prefers",
    ),
    Broken(
        name="type_interrupts",
        source=_type(transitions=f"({_step('up', 'down')[:-1]}, interrupts=True),)"),
        reason="type t: the transition up -> down interrupts what does not serve before and after",
    ),
    Broken(
        name="type_remove",
        source=_type(remove="'off'"),
        reason="type t: its remove state 'off' is not one of its states",
    ),
    Broken(
        name="type_transition",
        source=_type(transitions=f"({_step('down', 'on')},)"),
        reason="type t: the transition down -> on is between states that it does not have",
    ),
    Broken(
        name="type_loop",
        source=_type(transitions=f"({_step('up', 'up')},)"),
        reason="type t: the transition up -> up leads nowhere",
    ),
    Broken(
        name="type_transition_twice",
        source=_type(transitions=f"({_step('down', 'up')}, {_step('down', 'up')})"),
        reason="type t: the transition down -> up is there twice",
    ),
    Broken(
        name="type_attempts",
        source=_type(transitions=f"({_step('down', 'up', 0)},)"),
        reason="type t: the transition down -> up has 0 attempts",
    ),
    Broken(
        name="type_prepare",
        source=_type(prepare="'keep'"),
        reason="type t: it has `prepare` without `revert`",
    ),
    Broken(
        name="type_method",
        source=_type(check="PythonAction(type_name='t', method='look')"),
        reason="type t: its class lacks the method look(context)",
    ),
    Broken(
        name="type_schema",
        source=_type(spec_schema="{'properties': {'port': {'type': 'objekt'}}}"),
        reason="the schema of type t is no JSON Schema at $.properties.port.type: 'objekt' is not",
    ),
    Broken(
        name="type_schema_text",
        source=_type(spec_schema="'object'"),
        reason="the schema of type t is no JSON Schema at $: 'object' is not",
    ),
    Broken(
        name="section_schema",
        source="""
        class S:
            name = "s"
            schema = {"required": "all"}
        @hookimpl
        def cobweb_register_sections(): return [S]
        """,
        reason="the schema of section s is no JSON Schema at $.required: 'all' is not",
    ),
    Broken(
        name="type_foreign_action",
        source=_type(check="PythonAction(type_name='u', method='check')"),
        reason="type t: its action check belongs to the type 'u'",
    ),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
def test_a_broken_plugin_is_left_out_and_said_why(case: Broken, install: Install) -> None:
    before = load_plugins()
    more = {"head": case.head} if case.head is not None else {}
    install(case.name, case.source, entry=case.entry, **more)
    plugins = load_plugins()
    failed = _failure(plugins, case.name)
    assert case.reason in failed.reason
    assert "\n" not in failed.reason
    assert case.hint in failed.hint
    assert (failed.distribution, failed.version) == (f"{case.name}-dist", "1.0")
    assert plugins.loaded == before.loaded
    assert plugins.types == before.types
    assert set(plugins.executors) == set(before.executors)


@pytest.mark.parametrize("answer", ["raise ValueError('not with me')", "return False"])
def test_one_that_is_not_even_like_itself_harms_no_other(install: Install, answer: str) -> None:
    """No hook of it is asked again for the next one, which has none, and is not blamed."""
    source = f"""
        class Solver:
            name = "odd"
            def solve(self, template, constraints): return {{}}
        class Plugin:
            cobweb_interface = 1
            __hash__ = object.__hash__
            def __eq__(self, other): {answer}
            def __ne__(self, other): {answer}
            @hookimpl
            def cobweb_register_solvers(self): return [Solver]
        plugin = Plugin()
    """
    install("before", source, entry="before = before_module:plugin")
    install("behind", "")
    loaded = load_plugins().loaded
    assert [it.name for it in loaded][-2:] == ["before", "behind"]
    assert loaded[-1].registered == {}


def test_two_may_name_one_module(install: Install) -> None:
    """What is loaded a second time is as it was the first time."""
    install("first", "")
    install("second", "", entry="second = first_module")
    assert [it.name for it in load_plugins().loaded][-2:] == ["first", "second"]


def test_strict_raises_and_names_every_broken_plugin(install: Install) -> None:
    install("bad_a", "raise ValueError('first')")
    install("bad_b", "raise ValueError('second')")
    with pytest.raises(PluginError) as caught:
        load_plugins(strict=True)
    assert "first" in str(caught.value)
    assert "plugin bad_b (bad_b-dist 1.0): " in str(caught.value)
    assert "second" in str(caught.value)


def test_strict_is_quiet_when_all_are_whole(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    install("whole", WHOLE)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if "site-packages" not in path])
    assert [plugin.name for plugin in load_plugins(strict=True).loaded] == ["whole"]


def test_an_interrupt_at_import_is_the_operators(install: Install) -> None:
    install("interrupts", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugins()


def test_of_two_that_register_a_name_the_later_is_left_out_and_both_are_named(
    install: Install,
) -> None:
    source = """
        class S:
            name = "same"
            def solve(self, template, constraints): return {"by": __name__}
        @hookimpl
        def cobweb_register_solvers(): return [S]
    """
    install("second", source, version="2.0")
    install("first", source)
    plugins = load_plugins()
    failed = _failure(plugins, "second")
    assert failed.reason == (
        "it registers solvers 'same', which plugin first (first-dist 1.0) has registered before"
    )
    assert failed.hint == "rename one of them, or uninstall second-dist"
    assert plugins.solvers["same"].solve({}, {}) == {"by": "first_module"}


def test_nobody_takes_the_name_of_a_built_in_one(install: Install) -> None:
    source = WHOLE.replace('name = "whole"', 'name = "simulate"', 1)
    install("aaa", source)
    plugins = load_plugins()
    assert "which plugin simulate (cobweb " in _failure(plugins, "aaa").reason
    assert plugins.executors["simulate"].__module__.startswith("cobweb_plugins.simulate")
    assert "whole-mark" not in plugins.types


def test_a_plugin_with_one_bad_class_registers_nothing(install: Install) -> None:
    install("half", WHOLE.replace("def solve(self, template, constraints)", "def solve(self)"))
    plugins = load_plugins()
    assert "Solver.solve must take" in _failure(plugins, "half").reason
    assert "whole-mark" not in plugins.types


def test_order_goes_by_name_after_the_built_in_ones(install: Install) -> None:
    for name in ("zebra", "aardvark", "monkey"):
        install(name)
    loaded = load_plugins().loaded
    ours = [plugin.name for plugin in loaded if plugin.distribution == "cobweb"]
    names = [plugin.name for plugin in loaded]
    assert ours == sorted(ours)
    assert names[: len(ours)] == ours
    third = [name for name in names[len(ours) :] if name in {"zebra", "aardvark", "monkey"}]
    assert third == ["aardvark", "monkey", "zebra"]


def test_damaged_metadata_harms_only_its_own_distribution(install: Install) -> None:
    install("damaged", entry="this is no entry point")
    install("fine")
    plugins = load_plugins()
    failed = _failure(plugins, "damaged-dist")
    assert failed.reason.startswith("its entry_points.txt cannot be read")
    assert failed.hint == "reinstall damaged-dist"
    assert "fine" in [plugin.name for plugin in plugins.loaded]


def test_metadata_of_another_encoding_harms_only_its_own_distribution(install: Install) -> None:
    """Its name cannot be known where METADATA is wrong; its plugins can."""
    (info,) = install("latin").glob("*.dist-info")
    points = b"[cobweb]\nlatin = latin_module\n# \xfcber\n"
    (info / "entry_points.txt").write_bytes(points)
    assert "utf-8" in _failure(load_plugins(), "latin-dist").reason
    (info / "METADATA").write_bytes(b"Name: latin-dist\nAuthor: J\xfcrgen\n")
    assert "utf-8" in _failure(load_plugins(), "unknown").reason
    (info / "entry_points.txt").write_bytes(points[: points.index(b"#")])
    (loaded,) = [plugin for plugin in load_plugins().loaded if plugin.name == "latin"]
    assert (loaded.distribution, loaded.version) == ("unknown", "unknown")


def test_entry_points_of_others_that_cannot_be_read_harm_nobody(install: Install) -> None:
    for name, file in [("endless", "entry_points.txt"), ("nameless", "METADATA")]:
        (info,) = install(name).glob("*.dist-info")
        (info / file).unlink()
        (info / file).symlink_to(file)
    plugins = load_plugins()
    assert plugins.failed == ()
    assert {"endless", "nameless"} & {it.name for it in plugins.loaded} == {"nameless"}


def test_two_threads_that_load_leave_our_output_where_it_was(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first one leaves while the second is inside; neither waits for the other to end."""
    install("meets", "import sys\n@hookimpl\ndef cobweb_register_solvers(): return sys.meet()")
    second, before = threading.Thread(target=load_plugins), sys.stdout
    inside, left = threading.Event(), threading.Event()
    met: list[bool] = []

    def meet() -> list[type]:
        if threading.current_thread() is second:
            inside.set()
            met.append(left.wait(60))
        else:
            second.start()
            met.append(inside.wait(60))
        return []

    monkeypatch.setattr(sys, "meet", meet, raising=False)
    load_plugins()
    left.set()
    second.join(timeout=60)
    assert met == [True, True]
    assert sys.stdout is before


def test_a_distribution_without_a_name_is_still_loaded(install: Install) -> None:
    install("nameless", metadata="Metadata-Version: 2.1\n")
    (loaded,) = [plugin for plugin in load_plugins().loaded if plugin.name == "nameless"]
    assert (loaded.distribution, loaded.version) == ("unknown", "unknown")


def test_a_distribution_that_is_found_twice_counts_once(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = install("found")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    assert [plugin.name for plugin in load_plugins().loaded].count("found") == 1


def test_what_plugins_print_does_not_reach_our_data(
    install: Install, capsys: pytest.CaptureFixture[str]
) -> None:
    install("chatty", "print('hello')")
    load_plugins()
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "hello\n")


def test_nothing_loaded_is_empty() -> None:
    plugins = Plugins()
    assert plugins.failed == ()
    assert dict(plugins.types) == {}


def test_a_method_without_a_readable_signature_is_taken_at_its_word(install: Install) -> None:
    install("builtin", WHOLE.replace("def now(self): return 0.0", "now = dict.pop"))
    assert "builtin" in [plugin.name for plugin in load_plugins().loaded]


def test_a_failure_reads_as_one_line() -> None:
    failed = FailedPlugin(
        name="x", distribution="x-dist", version="1", module="x", reason="it broke", hint="mend it"
    )
    assert str(failed) == "x (x-dist 1): it broke (mend it)"


def test_loading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from cobweb.plugin import load_plugins; load_plugins();"
        "print(*sorted({'ansible', 'ansible_runner', 'sqlalchemy', 'rich', 'jsonschema',"
        " 'jinja2', 'asyncio'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_a_section_of_cobwebs_own_is_refused(install: Install) -> None:
    from cobweb.plugin._contracts import RESERVED_SECTIONS
    from cobweb.site._load import _KEYS

    assert {*_KEYS, "imports"} == RESERVED_SECTIONS
    install(
        "greedy",
        """
        class S:
            name = "limits"
            schema = {"type": "object"}
        @hookimpl
        def cobweb_register_sections(): return [S]
        """,
    )
    (failed,) = load_plugins().failed
    assert "the section limits is Cobweb's own" in failed.reason
