"""Another distribution called berth in the same folder of packages.

Both have a package berth: whichever is installed last overwrites files of the
other, and neither works as it should.
"""

import os
import re

OTHER = re.compile(r"berth-[^-]+(-py[\d.]+)?\.(dist-info|egg-info)", re.IGNORECASE)


def beside(folder: str) -> str:
    """Returns the record of another distribution that has the name berth, or ''."""
    if os.path.basename(folder) not in ("site-packages", "dist-packages"):
        return ""  # a checkout, or a folder of the program
    try:
        names = os.listdir(folder)
    except OSError:
        return ""
    return next((name for name in sorted(names) if OTHER.fullmatch(name)), "")


def refuse(package: str) -> None:
    """Raises ImportError if another distribution shares the folder of the package."""
    folder = os.path.dirname(os.path.dirname(os.path.abspath(package)))
    found = beside(folder)
    if found:
        raise ImportError(
            "Two distributions have put a package called berth into %s: berth-gpu, and another project called berth (%s). "
            "They overwrite each other's files. Keep one: pip uninstall -y berth berth-gpu && pip install berth-gpu"
            % (folder, found)
        )
