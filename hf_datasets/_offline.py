"""Whether the Hub, and all else outside, is to be left alone."""

import os

__all__ = ["is_offline"]


def is_offline() -> bool:
    """Return whether ``HF_HUB_OFFLINE`` is set, read as huggingface_hub reads it."""
    return os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}
