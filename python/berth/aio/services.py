"""The services that share the GPUs: ``await berth.aio.services.all()``."""

from .. import calls
from .asking import awaited

all = awaited(calls.services_all, "all")
get = awaited(calls.services_get, "get")

__all__ = ["all", "get"]
