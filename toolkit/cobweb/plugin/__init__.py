"""Hook specifications, protocols, loading and isolation of plugins.

A plugin is a module that an entry point of the group `cobweb` names. It says `cobweb_interface = 1`
and implements the hooks that it needs, marked with `hookimpl`; docs/plugins has the tutorials.
"""

from __future__ import annotations

from cobweb._durations import seconds_of
from cobweb._foreign_json import JsonError, json_file, json_of
from cobweb._resources import data_dir
from cobweb._tables import Cell, Column, Tone
from cobweb._text import plain, shortened
from cobweb.plugin._access import (
    ACCESS_KEY,
    Answer,
    Document,
    Question,
    SiteAccess,
    forms_of,
    on_site,
    site_access,
)
from cobweb.plugin._border import answered
from cobweb.plugin._hooks import Kind, hookimpl
from cobweb.plugin._loading import FailedPlugin, LoadedPlugin, Plugins, load_plugins
from cobweb.plugin._provider_fields import field_problems, secret_fields
from cobweb.plugin._type_files import type_file
from cobweb.plugin.protocols import (
    ActionAdapter,
    ActionUse,
    Adapter,
    CobContext,
    EndingExecutor,
    Executor,
    ExecutorSetting,
    ExpandContext,
    Extension,
    Found,
    Generator,
    JoiningAdapter,
    Link,
    Machine,
    MarkingExecutor,
    NodeProvider,
    NodeRequest,
    Observer,
    OrderedAdapter,
    PlannedStep,
    Planner,
    PythonType,
    RegisteredType,
    Section,
    SiteFiles,
    SiteMark,
    Solver,
    Stages,
    TaskPlanner,
    Transport,
    UnaskedObserver,
    UnvaultingAdapter,
)

__all__ = [
    "ACCESS_KEY",
    "ActionAdapter",
    "ActionUse",
    "Adapter",
    "Answer",
    "Cell",
    "CobContext",
    "Column",
    "Document",
    "EndingExecutor",
    "Executor",
    "ExecutorSetting",
    "ExpandContext",
    "Extension",
    "FailedPlugin",
    "Found",
    "Generator",
    "JoiningAdapter",
    "JsonError",
    "Kind",
    "Link",
    "LoadedPlugin",
    "Machine",
    "MarkingExecutor",
    "NodeProvider",
    "NodeRequest",
    "Observer",
    "OrderedAdapter",
    "PlannedStep",
    "Planner",
    "Plugins",
    "PythonType",
    "Question",
    "RegisteredType",
    "Section",
    "SiteAccess",
    "SiteFiles",
    "SiteMark",
    "Solver",
    "Stages",
    "TaskPlanner",
    "Tone",
    "Transport",
    "UnaskedObserver",
    "UnvaultingAdapter",
    "answered",
    "data_dir",
    "field_problems",
    "forms_of",
    "hookimpl",
    "json_file",
    "json_of",
    "load_plugins",
    "on_site",
    "plain",
    "seconds_of",
    "secret_fields",
    "shortened",
    "site_access",
    "type_file",
]
