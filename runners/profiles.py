"""Model profiles: what a family of models needs, kept as data in ``profiles.toml`` and in files of the user's.

A profile says how a family is prompted and sampled, how it writes its reasoning, how its interface names things, and
what is known of its size and licence. It says nothing of where a model runs.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ..hf_datasets.errors import ConfigError
from .profile import Profile, Recommended, split_answer, template_options
from .profile_files import load_built_in, load_profiles

if TYPE_CHECKING:
    from rich.table import Table

__all__ = [
    "PROFILES_VARIABLE",
    "Profile",
    "find_profile",
    "list_profiles",
    "load_profiles",
    "profiles_table",
    "settle_options",
    "split_answer",
    "switch_thinking",
    "template_options",
    "use_profiles",
]

PROFILES_VARIABLE = "GISTBENCH_PROFILES"
"""The environment variable that names files of profiles. It reaches every process that a run starts."""
_HEADINGS = ("profile", "parameters", "weights", "context", "reasoning", "recommended", "GPUs", "tested", "note")


def list_profiles() -> dict[str, Profile]:
    """Return every profile by name, in the order in which they are tried: the user's before those of this package."""
    return _listed(os.environ.get(PROFILES_VARIABLE, ""))


def find_profile(model: str, name: str | None = None) -> Profile:
    """Return the profile called `name`, or else the first that fits the model's name.

    Raises:
        ConfigError: there is no profile of that name, or a file of profiles cannot be used.
    """
    return _found(model, name, os.environ.get(PROFILES_VARIABLE, ""))


def use_profiles(*paths: Path | str) -> None:
    """Put the profiles of these files before all others, here and in every process that this one starts.

    Raises:
        ConfigError: a file cannot be used.
    """
    for path in paths:
        load_profiles(path)
    before = [path for path in os.environ.get(PROFILES_VARIABLE, "").split(os.pathsep) if path]
    given = [str(Path(path).expanduser().absolute()) for path in paths]
    os.environ[PROFILES_VARIABLE] = os.pathsep.join(dict.fromkeys([*given, *before]))


def switch_thinking(profile: Profile, thinking: Literal["on", "off"]) -> Profile:
    """Return the profile for the same model with its reasoning switched on or off.

    Raises:
        ConfigError: the model's reasoning cannot be switched so.
    """
    profiles = list_profiles()
    family = profile.name.partition(":")[0]
    variants = [profile, *(profiles[name] for name in (family, f"{family}:thinking-{thinking}") if name in profiles)]
    for variant in variants:
        if variant.thinking == thinking:
            return variant
    known = f"is always {profile.thinking}" if profile.thinking else "is not known to be switchable"
    raise ConfigError(
        f"thinking={thinking} cannot be had under the model profile {profile.name!r}: its reasoning {known}. Leave the "
        "option out, or name a profile of your own (a table thinking_on or thinking_off says what differs)."
    )


def settle_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a model's options with ``thinking`` and ``sampling``, which only its profile can explain, put into effect.

    ``thinking=on|off`` becomes the profile of that name; ``sampling=recommended`` fills in what the profile recommends
    where no option says otherwise, ``sampling=greedy`` leaves the default.

    Raises:
        ConfigError: a value that there is not, or a profile that cannot do it.

    >>> settle_options({"name": "Qwen/Qwen3-32B", "thinking": "off"})
    {'name': 'Qwen/Qwen3-32B', 'profile': 'qwen3-32b:thinking-off'}
    """
    settled = dict(options)
    thinking, sampling = settled.pop("thinking", None), settled.pop("sampling", None)
    if thinking is None and sampling is None:
        return settled
    profile = find_profile(str(settled.get("name", "")), settled.get("profile"))
    if thinking is not None:
        wanted: dict[Any, Literal["on", "off"]] = {"on": "on", "off": "off", True: "on", False: "off"}
        if thinking not in wanted:
            raise ConfigError(f"thinking is on or off, not {thinking!r}.")
        profile = switch_thinking(profile, wanted[thinking])
        settled["profile"] = profile.name
    if sampling not in (None, "greedy", "recommended"):
        raise ConfigError(f"sampling is greedy or recommended, not {sampling!r}.")
    if sampling == "recommended":
        if profile.recommended is None:
            raise ConfigError(f"The model profile {profile.name!r} recommends no sampling. Give temperature and top_p.")
        settled = profile.recommended.model_dump(exclude_none=True) | settled
    return settled


def profiles_table() -> "Table":
    """Return all profiles as a table for the terminal."""
    from rich.table import Table

    table = Table(
        title="Model profiles",
        caption="GPUs: for one copy, by arithmetic. A profile that was not tested was written from published formats.",
        title_justify="left",
        caption_justify="left",
    )
    for heading in _HEADINGS:
        is_number = heading in ("parameters", "context")
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=heading == "profile")
    for profile in list_profiles().values():
        recommended = (profile.recommended or Recommended()).model_dump(exclude_none=True)
        table.add_row(
            str(profile),
            _size(profile),
            " ".join(filter(None, (profile.weights, profile.licence and f"({profile.licence})"))),
            f"{profile.context_tokens:,}" if profile.context_tokens else "",
            _reasoning(profile),
            ", ".join(f"{name}={value:g}" for name, value in recommended.items()),
            ", ".join(f"{n} x {gb} GB" for gb, n in profile.tensor_parallel.items()),
            "yes" if profile.tested else "no",
            profile.note,
        )
    return table


def _size(profile: Profile) -> str:
    if profile.parameters_b is None:
        return ""
    active = f" ({profile.active_parameters_b:g} active)" if profile.active_parameters_b else ""
    return f"{profile.parameters_b:g} B{active}"


def _reasoning(profile: Profile) -> str:
    if profile.thinking == "off":
        return "off"
    if profile.format == "harmony":
        return "harmony channels"
    if profile.weights == "closed":
        return "kept by the server" if profile.thinking == "on" else ""
    marks = " ".join(profile.reasoning)
    return f"{marks}, opened by the template" if profile.reasoning_is_opened else marks


@cache
def _found(model: str, name: str | None, paths: str) -> Profile:
    profiles = _listed(paths)
    if name is not None:
        if name not in profiles:
            raise ConfigError(f"There is no model profile {name!r}. There are: {', '.join(profiles)}.")
        return profiles[name]
    # The last part alone: neither an organisation's name nor a folder's path says what the model is.
    short = model.rstrip("/").rsplit("/", 1)[-1]
    fitting = (p for p in profiles.values() if p.match and re.search(p.match, short, re.IGNORECASE))
    return next(fitting, profiles["default"])


@cache
def _listed(paths: str) -> dict[str, Profile]:
    """Return the profiles of these files, joined as in PATH, and those of the package that they do not replace."""
    listed: dict[str, Profile] = {}
    for path in paths.split(os.pathsep):
        # A name that is there already goes before, with its variants.
        listed |= _not_named_in(listed, load_profiles(path)) if path else {}
    return listed | _not_named_in(listed, load_built_in())


def _not_named_in(listed: Mapping[str, Profile], profiles: dict[str, Profile]) -> dict[str, Profile]:
    named = {name.partition(":")[0] for name in listed}
    return {name: profile for name, profile in profiles.items() if name.partition(":")[0] not in named}
