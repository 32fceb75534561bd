"""The configuration of the daemon: ``await berth.aio.config.get()``."""

from .. import calls
from .asking import awaited

get = awaited(calls.config_get, "get")
set = awaited(calls.config_set, "set")
reload = awaited(calls.config_reload, "reload")
sources = awaited(calls.config_sources, "sources")

__all__ = ["get", "set", "reload", "sources"]
