from pkray.cdc.postgresql.server_identity import ServerIdentity, branch_points, lsn_of, lsn_text


def test_a_timeline_s_file_says_where_it_left_the_earlier_ones():
    history = "1\t0/16B3748\tno recovery target specified\n\n# a word\n2\t2/AB000000\tbefore 2026\n"
    assert branch_points(history) == {1: 0x16B3748, 2: (2 << 32) + 0xAB000000}
    assert branch_points("") == {}


def test_texts_come_back():
    identity = ServerIdentity("7713089072854479897", 3)
    assert ServerIdentity.from_text(identity.text) == identity
    assert lsn_text(lsn_of("2A/16B3748")) == "2A/16B3748"
