"""Cases known to stop brokers of this kind: consumers that pause or leave, and one hot key. Each prints its figure."""

import threading
import time
import unittest
from collections import defaultdict, deque

import pulsar

from broker import PATIENCE, Broker
from talk import KEY_SHARED, SHARED, all_acked, client, eventually, figure, number, numbers, publish, receive, subscribe


def spread(count, keys):
    """So many messages over so many keys, numbered."""
    return ((f"key-{number % keys}", number) for number in range(count))


def keys_of_the_first(c, keys):
    """The keys that go to the first of two Key_Shared consumers: the split depends on nothing but the order in which they join."""
    first, second = (subscribe(c, KEY_SHARED, topic="split") for _ in range(2))
    publish(c, spread(keys, keys), topic="split", batching_enabled=False)
    found, others = set(), 0
    deadline = time.monotonic() + PATIENCE
    while len(found) + others < keys:
        assert time.monotonic() < deadline, f"of {keys} keys {len(found)} went to the first, {others} to the second"
        message = receive(first, 20)
        if message:
            found.add(message.partition_key())
        others += receive(second, 20) is not None
    first.close()
    second.close()
    return found


class PausedConsumer(unittest.TestCase):
    def test_one_that_never_asks_does_not_hold_back_the_keys_of_others(self):
        count, keys = 40_000, 200
        with Broker() as broker:
            c = client(broker)
            mine = keys_of_the_first(c, keys)
            self.assertTrue(0 < len(mine) < keys)
            active = subscribe(c, KEY_SHARED)
            # Without a queue this client sends no FLOW until it is asked for a message.
            paused = subscribe(c, KEY_SHARED, receiver_queue_size=0, consumer_name="paused")
            began = time.monotonic()
            publish(c, spread(count, keys), batching_enabled=False)
            stored = time.monotonic() - began
            expected, last = count // keys * len(mine), {}
            for got in range(expected):
                message = receive(active, PATIENCE * 1000)
                self.assertIsNotNone(message, f"only {got} of {expected} came")
                self.assertIn(message.partition_key(), mine)
                self.assertLess(last.get(message.partition_key(), -1), number(message), "a key came out of order")
                last[message.partition_key()] = number(message)
                active.acknowledge(message)
            took = time.monotonic() - began
            told = next(c for c in broker.subscription("t", "s")["consumers"] if c["consumerName"] == "paused")
            self.assertEqual((told["availablePermits"], told["msgOutCounter"]), (0, 0), "it was not paused")
            figure("a, paused Key_Shared consumer", f"the other got all {expected} messages of its {len(mine)} keys in {took:.2f} s"
                   f" ({count - expected} wait for the paused one; publishing took {stored:.2f} s)")
            first = []
            asking = threading.Thread(target=lambda: first.append(paused.receive()), daemon=True)
            asking.start()
            asking.join(PATIENCE)
            self.assertTrue(first and first[0].partition_key() not in mine, "the paused one gets nothing when it asks")
            c.close()


class LeavingConsumer(unittest.TestCase):
    def leaves(self, name, kind, leave):
        count = 6_000
        with Broker() as broker:
            c, others = client(broker), client(broker)
            staying = subscribe(c, kind)
            leaving = subscribe(others, kind, receiver_queue_size=500, consumer_name="leaving")
            publish(c, spread(count, 50) if kind == KEY_SHARED else numbers(count), batching_enabled=False)
            got = defaultdict(list)

            def take(milliseconds):
                message = receive(staying, milliseconds)
                if message:
                    got[message.partition_key()].append(number(message))
                    staying.acknowledge(message)
                return message is not None

            # Until the staying one has nothing more to do, so that the leave is all that happens.
            while take(500):
                pass
            left = count - sum(map(len, got.values()))
            self.assertGreaterEqual(left, 500, "the leaving consumer holds nothing")
            began = time.monotonic()
            leave(others, leaving)
            while sum(map(len, got.values())) < count:
                self.assertTrue(take(PATIENCE * 1000), f"{sum(map(len, got.values()))} of {count} came, and then nothing")
            took = time.monotonic() - began
            self.assertEqual(sorted(n for numbers in got.values() for n in numbers), list(range(count)))
            if kind == KEY_SHARED:
                self.assertTrue(all(numbers == sorted(numbers) for numbers in got.values()), "a key came out of order")
            eventually("all acknowledged", lambda: all_acked(broker))
            figure(f"b, {name}", f"{left} messages left behind, all with the other one {took * 1000:.0f} ms later, {count} in all, none twice")
            c.close()
            others.close()

    def test_what_it_held_goes_on_without_a_new_publish(self):
        for kind, what in ((SHARED, "Shared"), (KEY_SHARED, "Key_Shared")):
            with self.subTest(what):
                self.leaves(f"{what} consumer closes", kind, lambda _, consumer: consumer.close())
                self.leaves(f"{what} connection ends", kind, lambda c, _: c.shutdown())


# Its hash is in the lower quarter, and a consumer that joins gets the lower half of the largest range.
HOT = "hot-1"


class Deliveries:
    """What was delivered to whom and is not acknowledged, by key; remembers what should not have happened."""

    def __init__(self):
        self.lock = threading.Lock()
        self.next = {}
        self.held = defaultdict(lambda: defaultdict(set))
        self.count, self.again = 0, 0
        self.problems = []
        self.hot_by, self.hot_at, self.hot_gap = None, None, 0.0
        self.hands = 0

    def delivered(self, who, message):
        key, n, again = message.partition_key(), number(message), message.redelivery_count() > 0
        with self.lock:
            self.count += 1
            self.again += again
            due = self.next.get(key, 0)
            if n > due or (n < due and not again):
                self.problems.append(f"{key}: {n} came in place of {due} (again: {again})")
            others = [other for other, held in self.held[key].items() if other != who and held]
            if others:
                self.problems.append(f"{key}: {n} came to {who} while {others} hold some of it")
            self.next[key] = max(due, n + 1)
            self.held[key][who].add(n)
            if key == HOT:
                now = time.monotonic()
                self.hot_gap = max(self.hot_gap, now - (self.hot_at or now))
                self.hands += self.hot_by not in (None, who)
                self.hot_at, self.hot_by = now, who

    def acked(self, who, message):
        with self.lock:
            self.held[message.partition_key()][who].discard(number(message))

    def gone(self, who):
        with self.lock:
            for held in self.held.values():
                held.pop(who, None)

    def done(self):
        with self.lock:
            return sum(self.next.values())

    def holders(self, key):
        with self.lock:
            return [who for who, held in self.held[key].items() if held]


class SlowConsumer(threading.Thread):
    """Takes what comes and acknowledges each message a while after it came; leaves without acknowledging when told to."""

    ACK_AFTER = 0.1

    def __init__(self, name, consumer, deliveries):
        super().__init__(name=name, daemon=True)
        self.consumer, self.deliveries = consumer, deliveries
        self.leaving = threading.Event()
        self.start()

    def run(self):
        waiting = deque()
        while not self.leaving.is_set():
            message = receive(self.consumer, 5)
            now = time.monotonic()
            if message:
                self.deliveries.delivered(self.name, message)
                waiting.append((now + self.ACK_AFTER, message))
            while waiting and waiting[0][0] <= now:
                message = waiting.popleft()[1]
                self.deliveries.acked(self.name, message)
                self.consumer.acknowledge(message)
        self.deliveries.gone(self.name)
        self.consumer.close()

    def leave(self):
        self.leaving.set()
        self.join(PATIENCE)


class HotKey(unittest.TestCase):
    def test_one_hot_key_in_batches_with_slow_acks_stays_in_order_while_consumers_come_and_go(self):
        rounds, hot, keys = 400, 100, 20
        total = rounds * (hot + keys)
        with Broker() as broker:
            c = client(broker)
            deliveries, joined = Deliveries(), iter(range(100))

            def join():
                consumer = subscribe(c, KEY_SHARED, receiver_queue_size=500)
                return SlowConsumer(f"consumer {next(joined)}", consumer, deliveries)

            consumers = [join()]
            publisher = threading.Thread(target=publish_steadily, args=(c, rounds, hot, keys), daemon=True)
            began = time.monotonic()
            publisher.start()
            steps, left = 0, 0
            while deliveries.done() < total and time.monotonic() < began + PATIENCE:
                holders = deliveries.holders(HOT)
                if deliveries.done() * 12 // total > steps and holders:
                    # At each twelfth of the way another one joins: twice the hot key is among those that go to it. When there are
                    # three, whoever has it leaves with all that it holds.
                    if len(consumers) == 3:
                        leaving = next(one for one in consumers if one.name == holders[0])
                        leaving.leave()
                        consumers.remove(leaving)
                        left += 1
                    consumers.append(join())
                    steps += 1
                time.sleep(0.002)
            took = time.monotonic() - began
            self.assertEqual(deliveries.done(), total, f"it stopped: {dict(deliveries.next)}")
            self.assertEqual(deliveries.problems[:5], [])
            self.assertGreater(left, 3, "nobody left")
            self.assertGreater(deliveries.hands, left, "the hot key did not move to those that joined")
            eventually("all acknowledged", lambda: all_acked(broker))
            for consumer in consumers:
                consumer.leave()
            gap, beyond = deliveries.hot_gap * 1000, (deliveries.hot_gap - SlowConsumer.ACK_AFTER) * 1000
            figure("c, one hot key, acks after 100 ms", f"longest gap {gap:.0f} ms, {max(0, beyond):.0f} ms beyond the ack;"
                   f" {deliveries.count / took:.0f} messages/s; {total} messages, {rounds * hot} of the hot key, which changed hands {deliveries.hands} times,"
                   f" {left} times because its holder left; {deliveries.again} redelivered")
            publisher.join(PATIENCE)
            c.close()


def publish_steadily(c, rounds, hot, keys):
    """Each round a batch of the hot key and a message of each other key, numbered within their keys; a round takes 10 ms."""

    def messages():
        began = time.monotonic()
        for turn in range(rounds):
            yield from ((HOT, turn * hot + n) for n in range(hot))
            yield from ((f"key-{key}", turn) for key in range(keys))
            time.sleep(max(0.0, began + turn * 0.01 - time.monotonic()))

    publish(c, messages(), batching_enabled=True, batching_type=pulsar.BatchingType.KeyBased, batching_max_publish_delay_ms=5)


if __name__ == "__main__":
    unittest.main()
