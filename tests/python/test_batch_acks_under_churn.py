"""Acks of single messages of batches, negative acks, closing and coming back, all at once and on few event loops.

A race of permits in such a crowd can stop a subscription for good. Here it must end with everything acknowledged, nothing held, and no
permits lost; `tests/batch_churn.rs` counts permits one by one with a client of our own.
"""

import random
import threading
import time
import unittest
from collections import Counter

from broker import PATIENCE, Broker
from talk import SHARED, all_acked, client, eventually, figure, number, numbers, publish, receive, subscribe

QUEUE = 100


class Crowd:
    """What all consumers together did."""

    def __init__(self, count):
        self.count = count
        self.lock = threading.Lock()
        self.acks = Counter()
        self.again, self.returned, self.kept, self.came_back = 0, 0, 0, 0
        self.calm, self.over = threading.Event(), threading.Event()

    def tell(self, ack=None, again=0, returned=0, kept=0, came_back=0):
        with self.lock:
            if ack is not None:
                self.acks[ack] += 1
            self.again += again
            self.returned += returned
            self.kept += kept
            self.came_back += came_back

    def missing(self):
        with self.lock:
            return self.count - len(self.acks)


class Restless(threading.Thread):
    """Acknowledges some messages, gives some back, forgets some, and now and then closes and comes back. Once all are calm, it
    acknowledges whatever comes."""

    def __init__(self, seed, attach, crowd):
        super().__init__(daemon=True)
        self.random, self.attach, self.crowd = random.Random(seed), attach, crowd
        self.consumer = attach()
        self.start()

    def run(self):
        until_closing = 200
        while not self.crowd.calm.is_set():
            message = receive(self.consumer, 10)
            if message:
                self.treat(message)
                until_closing -= 1
            if until_closing == 0:
                self.come_back()
                until_closing = self.random.randrange(50, 400)
        # What it has forgotten goes to whoever is there.
        self.come_back()
        while not self.crowd.over.is_set():
            message = receive(self.consumer, 10)
            if message:
                self.acknowledge(message)

    def treat(self, message):
        self.crowd.tell(again=message.redelivery_count() > 0)
        chance = self.random.random()
        if chance < 0.7:
            self.acknowledge(message)
        elif chance < 0.9:
            self.consumer.negative_acknowledge(message)
            self.crowd.tell(returned=1)
        else:
            self.crowd.tell(kept=1)

    def acknowledge(self, message):
        self.consumer.acknowledge(message)
        self.crowd.tell(ack=number(message))

    def come_back(self):
        self.consumer.close()
        self.consumer = self.attach()
        self.crowd.tell(came_back=1)


class Visitor(threading.Thread):
    """Has a subscription of its own on the same topic, which it drops and makes again."""

    def __init__(self, attach, crowd):
        super().__init__(daemon=True)
        self.attach, self.crowd, self.visits = attach, crowd, 0
        self.start()

    def run(self):
        while not self.crowd.calm.is_set():
            consumer = self.attach()
            for _ in range(30):
                message = receive(consumer, 1000)
                if message and number(message) % 3:
                    consumer.acknowledge(message)
            consumer.unsubscribe()
            self.visits += 1


def too_few_permits(broker):
    """Permits of consumers that are fewer than what their client has granted: it grants half of its queue whenever that much is free.

    There may be more. Of a batch that comes again this client also gives back the messages that were acknowledged before, which the
    broker does not charge: other clients do not, and would run out of permits.
    """
    permits = [consumer["availablePermits"] for consumer in broker.subscription("t", "s")["consumers"]]
    return [n for n in permits if n <= QUEUE // 2]


class BatchAcksUnderChurn(unittest.TestCase):
    def test_nothing_stops_and_in_the_end_everything_is_acknowledged_and_no_permits_are_lost(self):
        for loops in (1, 2):
            with self.subTest(loops=loops):
                self.churn(loops)

    def churn(self, loops):
        count, consumers = 10_000, 8
        options = dict(batch_index_ack_enabled=True, negative_ack_redelivery_delay_ms=100, receiver_queue_size=QUEUE)
        with Broker(numIOThreads=loops, acknowledgmentAtBatchIndexLevelEnabled="true") as broker:
            crowd = Crowd(count)
            clients = [client(broker) for _ in range(4)]
            attach = [lambda c=c: subscribe(c, SHARED, **options) for c in clients]
            began = time.monotonic()
            restless = [Restless(seed, attach[seed % len(attach)], crowd) for seed in range(consumers)]
            visitor = Visitor(lambda: subscribe(clients[0], SHARED, subscription_name="visited", **options), crowd)
            publish(clients[0], numbers(count), batching_enabled=True, batching_max_messages=20, batching_max_publish_delay_ms=1000)
            # The last tenth is left to the calm, since what is given back again and again never ends.
            eventually("nine tenths acknowledged", lambda: max(0, crowd.missing() - count // 10))
            crowd.calm.set()
            eventually("every message acknowledged by a client", crowd.missing)
            eventually("all acknowledged", lambda: all_acked(broker))
            took = time.monotonic() - began
            eventually("everybody is attached", lambda: consumers - len(broker.subscription("t", "s")["consumers"]))
            eventually("nobody has lost permits", lambda: too_few_permits(broker))
            # It goes on as if nothing had happened.
            crowd.count += 1_000
            publish(clients[1], numbers(crowd.count, count), batching_enabled=True, batching_max_messages=20)
            eventually("what was published afterwards", crowd.missing)
            eventually("all acknowledged", lambda: all_acked(broker))
            crowd.over.set()
            for thread in [*restless, visitor]:
                thread.join(PATIENCE)
            told = broker.subscription("t", "s")
            self.assertEqual(set(crowd.acks), set(range(crowd.count)))
            # An ack can meet its message on the way to the next consumer, which acknowledges it once more. That is rare.
            twice = sum(times - 1 for times in crowd.acks.values())
            self.assertLess(twice, count // 10, "messages that were acknowledged come again")
            figure(f"d, batch-index acks under churn, {loops} loop{'s'[:loops - 1]}", f"{count} messages in {took:.2f} s, {told['msgOutCounter']} delivered"
                   f" ({crowd.again} redeliveries seen, {crowd.returned} given back, {crowd.kept} forgotten), {crowd.came_back} times closed and back,"
                   f" {visitor.visits} unsubscribed, unacked 0, {twice} acks crossed a redelivery")
            for c in clients:
                c.close()
            self.assertEqual(broker.stop(), 0)
            broker.start()
            c = client(broker)
            consumer = subscribe(c, SHARED, **options)
            self.assertIsNone(receive(consumer, 300), "an acknowledged message came back after a restart")
            self.assertIsNone(all_acked(broker))
            c.close()


if __name__ == "__main__":
    unittest.main()
