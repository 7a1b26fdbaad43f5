"""A simulated world in which the real core runs: trainer, disk, writer and clock are made up."""

from tests.support.world.chances import Chances
from tests.support.world.running import World

__all__ = ["Chances", "World"]
