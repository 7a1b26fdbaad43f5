"""Starts the scripted trainer by path: ``python -S scripted_trainer.py --steps 50``.

All that costs time to compile or import stands elsewhere, and comes when it is needed: this
trainer stands for any trainer in the figures of a restart.
"""

import sys
import time

BEGAN = time.perf_counter()
sys.path.insert(0, __file__.rsplit("/", 3)[0])

from tests.support.scripted_life import main  # noqa: E402 - found by the line above

sys.exit(main(BEGAN))
