"""``python -m lintstack``."""

import sys

from lintstack.cli import main

sys.exit(main())
