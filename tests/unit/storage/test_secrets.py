"""Secrets of storage options are in no text that somebody may see."""

import copy
import pickle
import traceback

import pytest

from pkray.errors import OptionError, PkrayError
from pkray.storage.location import TableLocation
from pkray.storage.opening import open_store
from pkray.storage.secrets import Secret, hide, may_hold_secret, redact, reveal, shown_url

SECRET = "s3kr/t+Val"


def said(error: BaseException | None) -> str:
    """All that an error and those below it say."""
    if error is None:
        return ""
    below = said(error.__cause__) + said(error.__context__)
    values = repr(error.values) if isinstance(error, PkrayError) else ""
    return "".join(traceback.format_exception(error)) + repr(error) + values + below


def test_a_secret_is_printed_nowhere():
    secret = Secret(SECRET)
    texts = [repr(secret), str(secret), f"{secret}", f"{secret!r:>9}", str([secret])]
    assert SECRET not in "".join(texts)


def test_a_secret_goes_to_other_processes_and_stays_one():
    for other in (pickle.loads(pickle.dumps(Secret(SECRET))), copy.deepcopy(Secret(SECRET))):
        assert (other, other.reveal(), hash(other)) == (Secret(SECRET), SECRET, hash(SECRET))
    assert Secret(SECRET) != Secret("other")
    assert Secret(SECRET) != SECRET


def test_all_but_known_options_are_secrets():
    plain = {
        "endpoint": "http://127.0.0.1:9000",
        "aws_region": "eu-west-1",
        "allow_http": "true",
        "timeout": "30s",
        "retry_timeout": "2 min",
    }
    assert hide(plain) == plain
    for key in ("access_key_id", "secret_access_key", "sas_key", "session_token", "proxy_url"):
        assert hide({key: SECRET}) == {key: Secret(SECRET)}
    assert reveal(hide({"token": SECRET, **plain})) == {"token": SECRET, **plain}
    assert hide(hide({"token": SECRET})) == hide({"token": SECRET})


@pytest.mark.parametrize("key", ["endpoint", "region", "allow_http", "timeout", "max_retries"])
@pytest.mark.parametrize("value", [SECRET, f"https://k:{SECRET}@h", (SECRET,), SECRET.encode()])
def test_a_known_option_whose_value_is_none_of_its_is_a_secret(key, value):
    assert hide({key: value}) == {key: Secret(value)}


def test_a_location_shows_no_secret():
    location = TableLocation("s3://lake/t", "db.t", {"secret_access_key": SECRET, "timeout": "5s"})
    assert SECRET not in repr(location) + repr(location.on_branch("b")) + str(vars(location))
    assert "s3://lake/t" in repr(location)


@pytest.mark.parametrize(
    "url",
    [
        f"s3://AKIA:{SECRET}@bucket/x",
        "s3://AKIA:plain@bucket",
        "s3://AKIA:12/plain@bucket",
        "s3://token@bucket/x",
        "s3://bucket/x?X-Amz-Signature=plain",
        "az://container/x?sv=1&sig=plain",
        "abfss://c:plain@account.dfs.core.windows.net/x",
        "https://u:plain@host/x",
        "hdfs://u:plain@host/x",
        "file://u:plain@host/x",
        "memory://plain@x",
    ],
)
def test_a_url_with_keys_in_it_is_refused_without_being_shown(url):
    with pytest.raises(OptionError, match="storage options, or in the environment") as caught:
        open_store(url)
    for word in (SECRET, "plain", "AKIA", "token@"):
        assert word not in said(caught.value)
    assert shown_url(url) == url.partition("://")[0] + "://***"


@pytest.mark.parametrize(
    "url",
    [
        "s3://bucket/a@b/c:d",
        "abfss://container@account.dfs.core.windows.net/x",
        "/home/u@host:1/x?y",
        "memory://name:1/x",
        "http://[::1]:9000/x",
    ],
)
def test_other_urls_stay_as_they_are(url):
    assert not may_hold_secret(url)
    assert shown_url(url) == url


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"secret_access_key": (SECRET,)}, "'secret_access_key' cannot be a tuple"),
        ({"secret_access_key": SECRET.encode()}, "'secret_access_key' cannot be a bytes"),
        ({"secret_access_key": {SECRET: SECRET}}, "'secret_access_key' cannot be a dict"),
        ({"endpoint": SECRET}, "'endpoint' is no URL"),
        ({"endpoint": f"https://key:{SECRET}@host"}, "'endpoint' has a user"),
        ({"endpoint": f"https://host?sig={SECRET}"}, "'endpoint' has a user"),
        ({"timeout": SECRET}, "cannot open"),
        ({"timeout": SECRET.encode()}, "'timeout' cannot be a bytes"),
        ({"retry_timeout": SECRET}, "'retry_timeout' is no duration"),
        ({"max_retries": SECRET}, "'max_retries' is no whole number"),
        ({"default_headers": {"Authorization": (SECRET,)}}, "'default_headers' cannot be a dict"),
        ({"default_headers": {"Authorization": SECRET + "\n"}}, "cannot open"),
        ({"user_agent": SECRET + "\n"}, "cannot open"),
        ({"proxy_url": f"u:{SECRET}@"}, "cannot open"),
        ({"root_certificate": SECRET}, "cannot open"),
        ({"allow_invalid_certificates": SECRET}, "cannot open"),
        ({"conditional_put": SECRET}, "cannot open"),
        ({"acces_key": SECRET}, "unknown storage option"),
        ({"aws_timeout": SECRET}, "cannot open|unknown"),
    ],
)
def test_a_refused_option_is_named_and_not_shown(options, message):
    with pytest.raises(PkrayError, match=message) as caught:
        open_store("s3://lake/x", **options)
    assert SECRET not in said(caught.value)


def test_what_obstore_quotes_of_the_environment_is_not_shown(monkeypatch):
    monkeypatch.setenv("AWS_CONDITIONAL_PUT", SECRET)
    with pytest.raises(PkrayError, match="AWS_") as caught:
        open_store("s3://lake/x")
    assert SECRET not in said(caught.value)


def test_texts_lose_secrets_users_and_signatures(monkeypatch):
    monkeypatch.setenv("AWS_SESSION_TOKEN", "around")
    options = hide({"secret_access_key": SECRET, "sas_key": "sv=1&sig=a%2Bb"})
    text = f"{SECRET} s3kr%2Ft%2BVal around http://u:p@h/x?prefix=a&sig=zzz&X-Amz-Credential=c/d"
    found = redact(text, options)
    assert found == "*** *** *** http://***@h/x?prefix=a&sig=***&X-Amz-Credential=***"
