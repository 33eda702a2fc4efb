"""`python -m aerial_vpr_cl` is the same as `aerial-vpr`."""

import sys

from aerial_vpr_cl.cli import main

sys.exit(main())
