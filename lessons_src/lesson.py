"""What `lesson` means in a script that an open lesson starts (by torchrun, say): the lesson's room.

In the kernel and on dtlib's own ranks the name is there already; a script finds this file by the
PYTHONPATH that the kernel has set.
"""

import importlib
import os
import sys

from dtlib.ranks.aliases import alias

alias({"lesson": os.environ["DTLIB_ROOM"]})
sys.modules[__name__] = importlib.import_module(os.environ["DTLIB_ROOM"])
