"""`python -m jscatter`: the main job; see `jscatter._commands.main`."""

import sys

from jscatter._commands.main import main

if __name__ == "__main__":
    sys.exit(main())
