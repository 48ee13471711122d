"""What tests say to a broker through the official client."""

import time

import pulsar

from broker import PATIENCE

EARLIEST = pulsar.InitialPosition.Earliest
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
SHARED = pulsar.ConsumerType.Shared
KEY_SHARED = pulsar.ConsumerType.KeyShared


def client(broker):
    return pulsar.Client(broker.url, operation_timeout_seconds=20, logger=QUIET)


def subscribe(client, kind, **options):
    """A consumer of the subscription `s` of the topic `t`, from its first message on."""
    options = {"topic": "t", "subscription_name": "s", "initial_position": EARLIEST, **options}
    return client.subscribe(consumer_type=kind, **options)


def publish(client, messages, topic="t", **options):
    """Publishes pairs of key and text without waiting for each, and returns when all are stored."""
    refused = []

    def answered(result, _):
        if result != pulsar.Result.Ok:
            refused.append(result)

    producer = client.create_producer(topic, block_if_queue_full=True, max_pending_messages=5_000, **options)
    for key, text in messages:
        producer.send_async(str(text).encode(), answered, partition_key=key)
    producer.flush()
    producer.close()
    assert not refused, f"{len(refused)} messages were refused: {refused[0]}"


def numbers(end, begin=0):
    """Messages without a key, numbered."""
    return ((None, number) for number in range(begin, end))


def receive(consumer, milliseconds):
    """The next message, none if none comes in time."""
    try:
        return consumer.receive(timeout_millis=milliseconds)
    except pulsar.Timeout:
        return None


def number(message):
    return int(message.data())


def eventually(what, condition):
    """Waits until the condition holds; what it returned last is told if it never does."""
    deadline = time.monotonic() + PATIENCE
    while True:
        problem = condition()
        if not problem:
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {PATIENCE} s: {problem}")
        time.sleep(0.02)


def all_acked(broker):
    """What speaks against everything of the subscription being acknowledged, and known to be."""
    stats = broker.subscription("t", "s")
    told = {key: stats[key] for key in ("msgBacklog", "unackedMessages", "nonContiguousDeletedMessagesRanges")}
    held = [consumer["unackedMessages"] for consumer in stats["consumers"]]
    return f"{told}, held by consumers: {held}" if any(told.values()) or any(held) else None


def figure(case, text):
    """One line for whoever reads the log."""
    print(f"case {case}: {text}", flush=True)
