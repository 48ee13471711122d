"""The official Python client produces and consumes, across restarts and `kill -9`."""

import unittest

import pulsar

from broker import Broker
from talk import EARLIEST, client



def receive(consumer, count):
    """The next messages as text, each acknowledged."""
    texts = []
    for _ in range(count):
        message = consumer.receive(timeout_millis=20_000)
        texts.append(message.data().decode())
        consumer.acknowledge(message)
    return texts


def receive_waiting(consumer):
    """What comes without a pause, up to four messages, so that another consumer gets its share too."""
    texts = []
    try:
        while len(texts) < 4:
            message = consumer.receive(timeout_millis=2_000 if not texts else 100)
            texts.append(message.data().decode())
            consumer.acknowledge(message)
    except pulsar.Timeout:
        pass
    return texts


def is_silent(consumer):
    try:
        message = consumer.receive(timeout_millis=300)
    except pulsar.Timeout:
        return True
    raise AssertionError(f"nothing should come, but {message.data()!r} did")


class OfficialClient(unittest.TestCase):
    def test_ten_lines_produce_and_consume(self):
        with Broker() as broker:
            c = client(broker)
            consumer = c.subscribe("my-topic", "my-subscription", initial_position=EARLIEST)
            c.create_producer("my-topic").send(b"hello")
            self.assertEqual(receive(consumer, 1), ["hello"])
            c.close()

    def test_what_has_a_receipt_is_there_after_kill_9_and_after_a_restart(self):
        with Broker() as broker:
            expected = []
            for end in (broker.kill, broker.stop, broker.kill):
                c = client(broker)
                producer = c.create_producer("t")
                for number in range(50):
                    producer.send(f"{len(expected)}".encode())
                    expected.append(f"{len(expected)}")
                end()
                c.shutdown()
                broker.start()
            c = client(broker)
            reader = c.create_reader("t", pulsar.MessageId.earliest)
            self.assertEqual([reader.read_next(20_000).data().decode() for _ in expected], expected)
            self.assertFalse(reader.has_message_available())
            c.close()

    def test_what_was_acknowledged_does_not_come_again_after_a_clean_stop(self):
        with Broker() as broker:
            c = client(broker)
            shared = dict(consumer_type=pulsar.ConsumerType.Shared, batch_index_ack_enabled=True, initial_position=EARLIEST)
            consumer = c.subscribe("t", "s", **shared)
            producer = c.create_producer("t", batching_enabled=True)
            for number in range(100):
                producer.send_async(str(number).encode(), lambda *_: None)
            producer.flush()
            receive(consumer, 60)
            c.close()
            self.assertEqual(broker.stop(), 0)
            broker.start()
            c = client(broker)
            consumer = c.subscribe("t", "s", **shared)
            self.assertEqual(sorted(map(int, receive(consumer, 40))), list(range(60, 100)))
            is_silent(consumer)
            c.close()

    def test_clients_go_on_by_themselves_after_kill_9(self):
        with Broker() as broker:
            c = client(broker)
            producer = c.create_producer("t")
            consumer = c.subscribe("t", "s", initial_position=EARLIEST)
            producer.send(b"before")
            self.assertEqual(receive(consumer, 1), ["before"])
            broker.kill()
            broker.start()
            producer.send(b"after")
            last = receive(consumer, 1)
            # An ack is written once a second: one that was lost with the process brings its message again.
            if last == ["before"]:
                last = receive(consumer, 1)
            self.assertEqual(last, ["after"])
            c.close()

    def test_two_shared_consumers_divide_the_work(self):
        with Broker() as broker:
            c = client(broker)
            both = [c.subscribe("t", "s", pulsar.ConsumerType.Shared, receiver_queue_size=5, initial_position=EARLIEST) for _ in range(2)]
            producer = c.create_producer("t", batching_enabled=False)
            for number in range(40):
                producer.send(str(number).encode())
            shares = [receive_waiting(consumer) for consumer in both]
            while sum(map(len, shares)) < 40:
                more = [receive_waiting(consumer) for consumer in both]
                self.assertTrue(any(more), f"only {shares} came")
                shares = [share + new for share, new in zip(shares, more)]
            self.assertEqual(sorted(int(text) for share in shares for text in share), list(range(40)))
            self.assertTrue(all(shares), "one got nothing")
            c.close()

    def test_http_says_the_same_as_the_client_knows(self):
        with Broker() as broker:
            c = client(broker)
            consumer = c.subscribe("t", "s", initial_position=EARLIEST)
            producer = c.create_producer("t", batching_enabled=False)
            for _ in range(3):
                producer.send(b"x")
            stats = broker.stats("t")
            self.assertEqual(stats["msgInCounter"], 3)
            self.assertEqual(stats["subscriptions"]["s"]["msgBacklog"], 3)
            self.assertEqual(len(stats["publishers"]), 1)
            receive(consumer, 3)
            c.close()


if __name__ == "__main__":
    unittest.main()
