"""The openai engine: any server that speaks OpenAI's chat completions, one call per request, many at once.

`config` says how servers are reached, `chat` writes requests and reads answers, `gate` holds back what a server does
not bear, `replicas` chooses among servers of one model, and `engine` makes the calls. None of them knows the weights
behind a server: a served model has no commit, so its revision is what the configuration says, or empty.
"""

from .config import OpenAIConfig
from .engine import OpenAIEngine

__all__ = ["OpenAIConfig", "OpenAIEngine"]
