import subprocess
import sys

import gistbench.hf_datasets as package


def test_every_public_name_is_there():
    assert all(hasattr(package, name) for name in package.__all__)
    assert len(set(package.__all__)) == len(package.__all__)


def test_import_is_light():
    script = (
        "import sys, gistbench.hf_datasets as p; p.list_datasets; p.load_taxonomy()\n"
        "print([m for m in ('datasets', 'pandas', 'torch', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
