"""The package berth, by the name of its distribution.

Another project has the name berth at PyPI. Where that one, or a folder of yours
with that name, takes the place of the package, import berth_gpu says so.
"""

import sys

import berth

if not hasattr(berth, "install_caps"):
    raise ImportError(
        "The package berth here (%s) is not the one of berth-gpu, but another project or folder of the same name. "
        "Rename the folder, or run: pip uninstall -y berth berth-gpu && pip install berth-gpu"
        % getattr(berth, "__file__", None)
    )
sys.modules[__name__] = berth
