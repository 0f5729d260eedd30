"""The errors of gistbench, one small tree.

::

    GistbenchError            something the user can put right; the command line prints it as one message
    ├── DataError             engagements, taxonomies or files that are not what they should be
    ├── ConfigError           an option, a name or a file of settings that cannot be used
    ├── EngineError           an engine that cannot be started, or cannot answer at all
    ├── StoreError            a response store or run folder that does not fit what is asked of it
    ├── HubError              a Hub that refuses, cannot be reached, or holds something else than was expected
    └── RunStoppedError       a run that was told to stop, or reached a limit; it can be gone on with

    GistbenchWarning          a result that stands but means less than it seems

A single request that fails is not an error but an outcome (see ``gistbench.runners.requests``).
The tree stands here because every other folder may import this one, and this one imports none.
"""

__all__ = [
    "ConfigError",
    "DataError",
    "EngineError",
    "GistbenchError",
    "GistbenchWarning",
    "HubError",
    "RunStoppedError",
    "StoreError",
]


class GistbenchError(Exception):
    """Base of all errors whose message tells the user what was found and what to do."""


class DataError(GistbenchError, ValueError):
    """Input data that is not what it should be; the message names the place."""


class ConfigError(GistbenchError, ValueError):
    """An option, a name or a settings file that cannot be used."""


class EngineError(GistbenchError, RuntimeError):
    """An engine that cannot be started, or cannot answer any request."""


class StoreError(GistbenchError, RuntimeError):
    """A response store or run folder that does not fit what is asked of it."""


class HubError(GistbenchError, RuntimeError):
    """A Hub that refuses, cannot be reached, or holds something else than was expected."""


class RunStoppedError(GistbenchError, RuntimeError):
    """A run that was told to stop, or reached a limit. What was answered is kept, and it can be gone on with."""

    def __init__(self, reason: str, exit_status: int = 1) -> None:
        """Say why it stopped, and the exit status that tells the reasons apart."""
        super().__init__(reason)
        self.exit_status = exit_status


class GistbenchWarning(UserWarning):
    """A result that stands, but means less than it seems."""
