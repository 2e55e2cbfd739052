"""Every error code at every request of a producer, a consumer and an admin client; `tests/client` has samples."""

from __future__ import annotations

import pytest
import uvloop
from odradek.protocol.apis import ApiKey
from odradek.tests.client import test_admin_errors as admin
from odradek.tests.client.consumer import test_error_table as consumer
from odradek.tests.client.producer import test_every_error as sample


@pytest.mark.parametrize(("key", "version"), sample.TRANSACTIONAL, ids=lambda each: getattr(each, "name", str(each)))
def test_each_error_in_a_transaction_is_survived_or_raised_once(key: ApiKey, version: int) -> None:
    uvloop.run(sample.each_error_in_a_transaction(key, version, sample.CODES))


@pytest.mark.parametrize("key", [ApiKey.INIT_PRODUCER_ID, ApiKey.FIND_COORDINATOR], ids=lambda key: key.name)
def test_each_error_at_the_start_of_a_transactional_producer_is_survived_or_raised_once(key: ApiKey) -> None:
    uvloop.run(sample.each_error_at_a_start(key, sample.CODES))


@pytest.mark.parametrize("key", [ApiKey.PRODUCE, ApiKey.INIT_PRODUCER_ID], ids=lambda key: key.name)
def test_each_error_without_transactions_is_survived_or_raised_once(key: ApiKey) -> None:
    uvloop.run(sample.each_error_without_transactions(key, "all", sample.CODES))


@pytest.mark.parametrize("key", consumer.ANSWERS, ids=lambda key: key.name)
def test_each_error_of_a_consumer_is_survived_or_raised_once(key: ApiKey) -> None:
    uvloop.run(consumer.each_error(key, consumer.CODES))


@pytest.mark.parametrize("name", admin.CASES)
def test_each_error_of_an_administrator_is_survived_or_told_once(name: str) -> None:
    uvloop.run(admin.meet(name, admin.CODES))
