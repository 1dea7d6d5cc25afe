"""Texts for others have neither secrets nor values of rows, and are of use all the same."""

import pytest

from pkray.inspection.masking import Mask
from pkray.storage.secrets import hide

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "text",
    [
        f"connecting with password={SECRET}",
        f"connecting with password: {SECRET}, again",
        f'{{"api_key": "{SECRET}"}}',
        f"'sasl.jaas.config' = '{SECRET}'",
        f"Authorization: Bearer {SECRET}",
        f"sent Bearer {SECRET}",
        f"jdbc:postgres://user:{SECRET}@host/db",
        f"s3://key:{SECRET}@bucket/path",
        f"https://store/path?sig={SECRET}",
        f"https://store/path?other={SECRET}",
    ],
)
def test_what_stands_where_secrets_do_is_hidden(text):
    assert SECRET not in Mask({}).text(text)
    assert SECRET not in Mask({}).log(text)


def test_a_secret_of_the_options_is_hidden_wherever_it_stands():
    assert SECRET not in Mask(hide({"secret_access_key": SECRET})).text(f"so {SECRET} it is")


def test_a_secret_of_the_environment_is_hidden_wherever_it_stands(monkeypatch):
    monkeypatch.setenv("SHOP_DB_PASSWORD", SECRET)
    assert SECRET not in Mask({}).text(f"so {SECRET} it is")


@pytest.mark.parametrize(
    "text",
    [
        "the value 'Ada' is no INT",
        'the value "Ada" is no INT',
        "the value b'Ada' is no INT",
        "the table's value 'Ada' is no INT",
        "the row {'name': 'Ada'} is none",
        "the value 'it's Ada' is none",
        '{"level": "INFO", "message": "the value \'Ada\' is none"}',
    ],
)
def test_a_quoted_value_is_left_out_of_messages(text):
    assert "Ada" not in Mask({}).log(text)


def test_numbers_of_a_row_are_left_out_of_the_error_that_names_them():
    error = "471 (INT) cannot be cast to TINYINT; the row has id = 5, v = 471"
    left = "… (INT) cannot be cast to TINYINT; the row has …"
    assert Mask({}).message(error) == left
    assert Mask({}).log(f"ERROR {error}\nINFO next") == f"ERROR {left}\nINFO next"


def test_names_stay_where_they_are_quoted():
    said = Mask({}, {"shop.orders", "total"}).message("'total' of 'shop.orders' is 'x'")
    assert said == "'total' of 'shop.orders' is '…'"


def test_lines_of_a_stack_trace_stay():
    line = '  File "/usr/lib/python3/x.py", line 7, in run'
    assert Mask({}).log(line) == line


def test_a_line_of_json_stays_one_without_what_its_keys_call_secret():
    said = Mask({}).log(f'{{"table": "shop.orders", "token": "{SECRET}"}}')
    assert said == '{"table":"shop.orders","token":"***"}'


def test_options_are_hidden_by_their_names():
    given = {"bucket": "2", "kafka.sasl.password": SECRET, "sequence.field": "at"}
    assert Mask({}).options(given) == given | {"kafka.sasl.password": "***"}
