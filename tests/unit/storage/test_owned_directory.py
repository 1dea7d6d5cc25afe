from pkray.storage.owned_directory import OwnedDirectory


def test_owners_that_live_keep_their_folders(tmp_path):
    first, second = OwnedDirectory(str(tmp_path)), OwnedDirectory(str(tmp_path))
    assert first.path != second.path
    assert first.path.is_dir()
    first.close()
    assert not first.path.exists()
    assert second.path.is_dir()
    second.close()
