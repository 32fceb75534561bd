"""The services that share the GPUs: ``berth.services.all()``."""

from . import calls
from .asking import answered

all = answered(calls.services_all, "all")
get = answered(calls.services_get, "get")

__all__ = ["all", "get"]
