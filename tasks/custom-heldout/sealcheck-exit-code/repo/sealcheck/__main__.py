"""``python -m sealcheck``."""

import sys

from sealcheck.cli import main

sys.exit(main())
