"""The configuration of the daemon: ``berth.config.get()``."""

from . import calls
from .asking import answered

get = answered(calls.config_get, "get")
set = answered(calls.config_set, "set")
reload = answered(calls.config_reload, "reload")
sources = answered(calls.config_sources, "sources")

__all__ = ["get", "set", "reload", "sources"]
