"""A hundred thousand messages: how often storage is read for them, and which of them come back after a restart. Each case prints its
figure."""

import threading
import time
import unittest
from collections import deque

from broker import PATIENCE, Broker
from talk import SHARED, all_acked, client, eventually, figure, number, numbers, publish, receive, subscribe

COUNT = 100_000
BATCHES = dict(batching_enabled=True, batching_max_messages=100, batching_max_publish_delay_ms=10_000)


class StorageReads(unittest.TestCase):
    def test_entries_are_read_once_however_slow_the_acks_are(self):
        entries = COUNT // BATCHES["batching_max_messages"]
        # Without a cache each entry has to be read, and each that is thrown away has to be read again.
        with Broker(managedLedgerCacheSizeMB=0) as broker:
            c = client(broker)
            subscribe(c, SHARED).close()
            publish(c, numbers(COUNT), **BATCHES)
            self.assertEqual(broker.stats("t")["subscriptions"]["s"]["msgBacklog"], entries)
            consumer = subscribe(c, SHARED, receiver_queue_size=1000)
            began, got, waiting = time.monotonic(), 0, deque()
            while got < COUNT or waiting:
                message = receive(consumer, 10) if got < COUNT else None
                now = time.monotonic()
                self.assertLess(now - began, PATIENCE, f"{got} of {COUNT} came")
                if message:
                    got += 1
                    waiting.append((now + 0.3, message))
                while waiting and (waiting[0][0] <= now or got == COUNT):
                    consumer.acknowledge(waiting.popleft()[1])
            took = time.monotonic() - began
            eventually("all acknowledged", lambda: all_acked(broker))
            read = broker.metric("geminga_storage_read_entries_total", "t")
            figure("e, storage reads", f"{read:.0f} entries read for {entries} of {BATCHES['batching_max_messages']} messages:"
                   f" {read / entries:.2f} times; {COUNT} messages in {took:.2f} s, each acknowledged 300 ms later")
            self.assertGreaterEqual(read, entries, "what is not cached was not counted when it was read")
            self.assertLessEqual(read, entries * 1.1)
            c.close()


class Half(threading.Thread):
    """Takes messages until all together have enough, and acknowledges every second one."""

    def __init__(self, consumer, seen, enough):
        super().__init__(daemon=True)
        self.consumer, self.seen, self.enough = consumer, seen, enough
        self.start()

    def run(self):
        while len(self.seen) < self.enough:
            message = receive(self.consumer, 100)
            if message:
                if number(message) % 2:
                    self.consumer.acknowledge(message)
                self.seen.append(number(message))


class HalfAcknowledged(unittest.TestCase):
    def after(self, end, count, **batching):
        """Acknowledges the odd ones of so many messages, ends the broker, and returns what comes after that, how often it came."""
        options = dict(batch_index_ack_enabled=True)
        with Broker() as broker:
            c = client(broker)
            # Two, because one consumer may hold 50,000 unacknowledged messages at most.
            consumers = [subscribe(c, SHARED, **options) for _ in range(2)]
            publish(c, numbers(count), **batching)
            seen = []
            for taking in [Half(consumer, seen, count) for consumer in consumers]:
                taking.join(PATIENCE)
            self.assertEqual(sorted(seen), list(range(count)))
            c.close()
            status = end(broker)
            self.assertIn(status, (None, 0))
            broker.start()
            c = client(broker)
            consumer = subscribe(c, SHARED, **options)
            back = []
            # Messages on their way at once are fewer than the limit of what may be unacknowledged, so silence means that none is left.
            while message := receive(consumer, 500 if len(back) >= count // 2 else PATIENCE * 1000):
                back.append(number(message))
                consumer.acknowledge(message)
            eventually("all acknowledged", lambda: all_acked(broker))
            c.close()
            return back

    def test_after_a_clean_restart_exactly_the_others_come_back(self):
        for what, batching in (("one by one", dict(batching_enabled=False)), ("in batches of 100", BATCHES)):
            with self.subTest(what):
                began = time.monotonic()
                back = self.after(Broker.stop, COUNT, **batching)
                acked = sum(n % 2 for n in back)
                figure(f"f, every second of {COUNT} acknowledged, {what}, clean restart", f"{acked} acknowledged ones came back,"
                       f" {len(set(back)) - acked} of {COUNT // 2} others did; {time.monotonic() - began:.1f} s")
                self.assertEqual(sorted(back), list(range(0, COUNT, 2)))

    def test_after_kill_9_none_is_missing(self):
        count = 20_000
        back = self.after(Broker.kill, count, batching_enabled=False)
        acked = sum(n % 2 for n in back)
        # A cursor is written once a second at most: what was acknowledged since then may come again.
        figure(f"f, every second of {count} acknowledged, kill -9", f"{acked} of {count // 2} acknowledged ones came back (those of the last second may),"
               f" {len(set(back)) - acked} of {count // 2} others did")
        self.assertEqual([n for n in sorted(set(back)) if n % 2 == 0], list(range(0, count, 2)))


if __name__ == "__main__":
    unittest.main()
