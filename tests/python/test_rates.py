"""The official client under rates and backlog quotas."""

import threading
import time
import unittest

import pulsar

from broker import PATIENCE, Broker
from talk import EARLIEST, client as client_of

RATE = 100


def most(began):
    """What the rate lets through since then: what a second brings at once, and the rest evenly."""
    return RATE + (time.monotonic() - began) * RATE + 1


def eventually(what, is_so):
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Receipts:
    """Counts receipts and keeps what went wrong."""

    def __init__(self):
        self.lock = threading.Lock()
        self.came = 0
        self.wrong = []

    def __call__(self, result, _):
        with self.lock:
            self.came += 1
            if result != pulsar.Result.Ok:
                self.wrong.append(result)


class Rates(unittest.TestCase):
    def test_a_flooded_topic_leaves_the_other_producer_of_its_connection_alone(self):
        with Broker(maxPublishRatePerTopicInMessages=RATE) as broker:
            client = client_of(broker)
            flooded = client.create_producer("flooded", batching_enabled=False, block_if_queue_full=True)
            steady = client.create_producer("steady", batching_enabled=False)
            began, receipts = time.monotonic(), Receipts()
            for n in range(4 * RATE):
                flooded.send_async(str(n).encode(), receipts)
            for n in range(RATE):
                steady.send(str(n).encode())
            self.assertLessEqual(receipts.came, most(began))
            eventually("all is stored", lambda: receipts.came == 4 * RATE)
            self.assertGreater(time.monotonic() - began, 2.9)
            self.assertEqual(receipts.wrong, [])
            consumer = client.subscribe("flooded", "s", initial_position=EARLIEST)
            self.assertEqual([int(consumer.receive(10_000).data()) for _ in range(4 * RATE)], list(range(4 * RATE)))
            client.close()

    def test_delivery_keeps_its_rate(self):
        with Broker(dispatchThrottlingRatePerSubscriptionInMsg=RATE) as broker:
            client = client_of(broker)
            producer = client.create_producer("t", batching_enabled=False)
            for n in range(3 * RATE):
                producer.send_async(str(n).encode(), lambda *_: None)
            producer.flush()
            began = time.monotonic()
            consumer = client.subscribe("t", "s", pulsar.ConsumerType.Shared, initial_position=EARLIEST)
            for n in range(3 * RATE):
                self.assertEqual(int(consumer.receive(10_000).data()), n)
                self.assertLess(n, most(began))
            client.close()


class Quotas(unittest.TestCase):
    def refused_until_drained(self, policy, error):
        settings = {"backlogQuotaDefaultLimitBytes": 1_024, "backlogQuotaCheckIntervalInSeconds": 1, "backlogQuotaDefaultRetentionPolicy": policy}
        with Broker(**settings) as broker:
            client = client_of(broker)
            consumer = client.subscribe("t", "s")
            client.create_producer("t").send(b"x" * 1_024)
            with self.assertRaises(error):
                client.create_producer("t")
            consumer.acknowledge(consumer.receive(10_000))

            def is_let_in():
                try:
                    client.create_producer("t").send(b"small")
                    return True
                except error:
                    return False

            eventually("the backlog is drained", is_let_in)
            client.close()

    def test_a_full_backlog_refuses_producers_who_may_wait(self):
        self.refused_until_drained("producer_request_hold", pulsar.exceptions.ProducerBlockedQuotaExceededError)

    def test_a_full_backlog_refuses_producers_who_are_to_fail(self):
        self.refused_until_drained("producer_exception", pulsar.exceptions.ProducerBlockedQuotaExceededException)

    def test_a_producer_that_was_closed_goes_on_when_the_backlog_is_drained(self):
        with Broker(backlogQuotaDefaultLimitBytes=10_240, backlogQuotaCheckIntervalInSeconds=1) as broker:
            client = client_of(broker)
            consumer = client.subscribe("t", "s")
            producer = client.create_producer("t", batching_enabled=False)
            for _ in range(10):
                producer.send(b"x" * 1_024)
            eventually("the producer is closed", lambda: broker.stats("t")["publishers"] == [])
            receipts = Receipts()
            producer.send_async(b"after", receipts)
            for _ in range(10):
                consumer.acknowledge(consumer.receive(10_000))
            eventually("it goes on", lambda: receipts.came == 1)
            self.assertEqual(receipts.wrong, [])
            self.assertEqual(consumer.receive(10_000).data(), b"after")
            client.close()

    def test_the_oldest_messages_go_where_the_policy_says_so(self):
        settings = {"backlogQuotaDefaultLimitBytes": 100_000, "backlogQuotaCheckIntervalInSeconds": 1}
        with Broker(backlogQuotaDefaultRetentionPolicy="consumer_backlog_eviction", **settings) as broker:
            client = client_of(broker)
            client.subscribe("t", "s").close()
            producer = client.create_producer("t", batching_enabled=False)
            for n in range(200):
                producer.send(b"%d " % n + b"x" * 1_000)
            eventually("a tenth is free", lambda: broker.stats("t")["backlogSize"] <= 90_000)
            first = int(client.subscribe("t", "s").receive(10_000).data().split()[0])
            self.assertGreater(first, 100)
            client.create_producer("t").send(b"producers have nothing to do with it")
            client.close()


if __name__ == "__main__":
    unittest.main()
