"""Processes of their own: what importing brings, and what killed ones leave behind."""

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

from pkray.storage.opening import open_store
from pkray.storage.owned_directory import OwnedDirectory


def test_import_loads_neither_ray_nor_spark():
    code = (
        "import sys, pkray; pkray.connect; pkray.Table; "
        "print([m for m in ('ray', 'pyspark', 'raydp') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout == "[]\n"


def die_while_creating(root: str) -> None:
    os.link = lambda *args: os._exit(9)
    open_store(root).create("snapshot/snapshot-1", b"{}")


def test_a_file_that_a_killed_process_began_is_hidden(tmp_path):
    process = multiprocessing.get_context("spawn").Process(
        target=die_while_creating, args=(str(tmp_path),)
    )
    process.start()
    process.join(120)
    assert process.exitcode == 9
    store = open_store(tmp_path)
    assert list(store.list()) == []
    assert next(s.path for s in store.list(hidden=True)).startswith("snapshot/.snapshot-1.")
    assert store.create("snapshot/snapshot-1", b"{}")


def test_a_folder_that_a_killed_process_owned_is_removed(tmp_path):
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
