"""The prompts: versioned data files, and the text form of what is put into them.

A prompt is one TOML file of this folder: ``version``, ``max_tokens`` (the longest answer), and the Jinja templates
``system``, ``user`` and ``reminder`` (added to ``user`` when an answer could not be read). What varies from request to
request stands as late in ``user`` as it can, so that requests share long prefixes. All wording is this project's own;
scores obtained with it do not compare to the digit with scores published under other prompts.
"""

from .items import clean, identifier, item_name, read_lines, render_lines
from .prompt import PROMPTS, QRELS_PROMPTS, Prompt, load_prompt

__all__ = [
    "PROMPTS",
    "QRELS_PROMPTS",
    "Prompt",
    "clean",
    "identifier",
    "item_name",
    "load_prompt",
    "read_lines",
    "render_lines",
]
