from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from pkray.storage.owned_directory import OwnedDirectory


def test_owners_that_live_keep_their_folders(tmp_path):
    first, second = OwnedDirectory(str(tmp_path)), OwnedDirectory(str(tmp_path))
    assert first.path != second.path
    assert first.path.is_dir()
    first.close()
    assert not first.path.exists()
    assert second.path.is_dir()
    second.close()


def test_what_a_killed_process_left_is_removed(tmp_path):
    script = (
        "import os, sys\nfrom pkray.storage.owned_directory import OwnedDirectory\n"
        "owned = OwnedDirectory(sys.argv[1])\n(owned.path / 'data').write_text('x')\n"
        "print(owned.path, flush=True)\nos.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, env=environment
    )
    left = Path(killed.stdout.decode().strip())
    assert left.exists()
    OwnedDirectory(str(tmp_path)).close()
    assert not left.exists()
