"""The supervisor of a long training run: keeps the trainer alive and its history whole."""

__version__ = "0.1.0"
