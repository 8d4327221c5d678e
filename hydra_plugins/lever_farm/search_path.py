"""Makes our schema known and puts the user's own groups, LEVER_HOME/conf, before ours."""

from __future__ import annotations

from hydra.core.config_search_path import ConfigSearchPath, SearchPathQuery
from hydra.plugins.search_path_plugin import SearchPathPlugin

from hydra_plugins.lever_farm._conf import register
from orchestrator import settings

OUR_CONF = "pkg://orchestrator.conf"


class LeverSearchPath(SearchPathPlugin):
    """Touches our own application only: Hydra loads every plugin for every application of an environment."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        if not any(element.provider == "main" and element.path == OUR_CONF for element in search_path.get_path()):
            return
        register()
        folder = settings.load().user_conf
        if folder.is_dir():
            search_path.prepend("lever-home", f"file://{folder}", anchor=SearchPathQuery(provider="main"))
