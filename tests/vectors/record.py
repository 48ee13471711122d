"""Records what the official Python client writes, as vectors for the decoder's tests.

    pip install pulsar-client==3.13.0 && python tests/vectors/record.py

A broker that knows just enough to be believed answers on a local port; each kind of frame that the client sends is kept once in
`pulsar-client-python-<version>/<command>[-<variant>].bin`. Times and generated names differ from run to run, the shape does not.
"""

import importlib.metadata
import pathlib
import re
import shutil
import socket
import struct
import threading
import time

import pulsar

VERSION = importlib.metadata.version("pulsar-client")
FOLDER = pathlib.Path(__file__).parent / f"pulsar-client-python-{VERSION}"

NAMES = {
    2: "connect", 4: "subscribe", 5: "producer", 6: "send", 10: "ack", 11: "flow", 12: "unsubscribe", 15: "close-producer",
    16: "close-consumer", 18: "ping", 19: "pong", 20: "redeliver-unacknowledged-messages", 21: "partitioned-metadata", 23: "lookup",
    25: "consumer-stats", 28: "seek", 29: "get-last-message-id", 32: "get-topics-of-namespace", 34: "get-schema",
}
NO_REQUEST = 2**64 - 1

# The client's own delays, in seconds, with some reserve.
ACKS_ARE_GROUPED = 0.5
PING_EVERY = 31


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def message(*fields):
    """Encodes (number, value) pairs; a value is an int, bytes or text."""
    out = b""
    for number, value in fields:
        if isinstance(value, int):
            out += varint(number << 3) + varint(value & NO_REQUEST)
        else:
            value = value.encode() if isinstance(value, str) else value
            out += varint(number << 3 | 2) + varint(len(value)) + value
    return out


def fields(encoded):
    """Decodes a message into {number: last value}; enough for requests."""
    found, at = {}, 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = encoded[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(encoded):
        tag = number()
        if tag & 7 == 0:
            found[tag >> 3] = number()
        else:
            length = number()
            found[tag >> 3] = encoded[at:at + length]
            at += length
    return found


class Broker:
    """Believes everything, keeps messages by topic, delivers each entry once to each consumer of its topic."""

    def __init__(self, max_message_size=5 * 1024 * 1024):
        self.max_message_size = max_message_size
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "pulsar://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.variant = ""
        self.kept = {}
        self.producers, self.consumers, self.entries = {}, {}, {}
        self.lock = threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        stream = connection.makefile("rb")
        while head := stream.read(4):
            frame = stream.read(struct.unpack(">I", head)[0])
            size = struct.unpack(">I", frame[:4])[0]
            envelope = fields(frame[4:4 + size])
            kind = envelope[1]
            with self.lock:
                self.keep(kind, head + frame)
                self.answer(connection, kind, fields(envelope[kind]), frame[4 + size:])

    def keep(self, kind, frame):
        name = NAMES[kind] + (f"-{self.variant}" if self.variant and kind in self.varied else "")
        self.kept.setdefault(name, frame)

    varied = ()

    def record(self, variant, *kinds):
        """From here on, frames of these kinds are a variant."""
        self.variant, self.varied = variant, kinds

    def send(self, connection, kind, body, payload=b""):
        command = message((1, kind), (kind, body))
        connection.sendall(struct.pack(">II", 4 + len(command) + len(payload), len(command)) + command + payload)

    def answer(self, connection, kind, body, payload):
        def success(request):
            self.send(connection, 13, message((1, request)))

        if kind == 2:
            self.send(connection, 3, message((1, "vectors"), (2, 21), (3, self.max_message_size)))
        elif kind == 4:
            self.consumers[body[4]] = [connection, body[1], 0, 0]
            success(body[5])
        elif kind == 5:
            self.producers[body[2]] = body[1]
            name = body.get(4, b"vectors-0-%d" % body[2])
            self.send(connection, 17, message((1, body[3]), (2, name), (3, -1), (4, b"")))
        elif kind == 6:
            entries = self.entries.setdefault(self.producers[body[1]], [])
            entries.append((payload, body.get(3, 1)))
            self.send(connection, 7, message((1, body[1]), (2, body[2]), (3, message((1, 1), (2, len(entries) - 1)))))
            self.deliver()
        elif kind == 10:
            if 8 in body:
                self.send(connection, 38, message((1, body[1]), (6, body[8])))
        elif kind == 11:
            self.consumers[body[1]][3] += body[2]
            self.deliver()
        elif kind == 12:
            self.consumers.pop(body[1])
            success(body[2])
        elif kind == 15:
            success(body[2])
        elif kind == 16:
            self.consumers.pop(body[1], None)
            success(body[2])
        elif kind == 18:
            self.send(connection, 19, b"")
        elif kind == 20:
            self.consumers[body[1]][2] = 0
            self.deliver()
        elif kind == 21:
            self.send(connection, 22, message((1, 0), (2, body[2]), (3, 0)))
        elif kind == 23:
            self.send(connection, 24, message((1, self.url), (3, 1), (4, body[2]), (5, 1)))
        elif kind == 28:
            self.send(connection, 16, message((1, body[1]), (2, NO_REQUEST)))
            success(body[2])
        elif kind == 29:
            last = len(self.entries.get(self.consumers[body[1]][1], ())) - 1
            position = message((1, 1), (2, last))
            self.send(connection, 30, message((1, position), (2, body[2]), (3, message((1, 1), (2, -1)))))
        elif kind == 32:
            topics = [(2, topic) for topic in self.entries]
            self.send(connection, 33, message((1, body[1]), *topics))
        elif kind == 34:
            self.send(connection, 35, message((1, body[1]), (2, 11), (3, "no schema")))

    def deliver(self):
        for identity, consumer in self.consumers.items():
            connection, topic, _, _ = consumer
            entries = self.entries.get(topic, ())
            while consumer[3] > 0 and consumer[2] < len(entries):
                payload, count = entries[consumer[2]]
                self.send(connection, 9, message((1, identity), (2, message((1, 1), (2, consumer[2])))), payload)
                consumer[2] += 1
                consumer[3] -= count

    def ping_all(self):
        with self.lock:
            for connection in {consumer[0] for consumer in self.consumers.values()}:
                self.send(connection, 18, b"")


def drive(broker):
    """Makes the client say everything that it can be made to say."""
    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.url, logger=quiet, operation_timeout_seconds=10)

    producer = client.create_producer("orders", properties={"app": "vectors"}, batching_enabled=False)
    producer.send(b"hello")
    broker.record("keyed", 6)
    producer.send(b"keyed", partition_key="key", ordering_key="order", properties={"a": "b"}, event_timestamp=1700000000000)
    broker.record("delayed", 6)
    producer.send(b"later", deliver_at=1700000000000)

    broker.record("batch", 6, 5)
    batching = client.create_producer(
        "orders", producer_name="batching", batching_enabled=True, batching_max_publish_delay_ms=10000, schema=pulsar.schema.StringSchema())
    for text in ("one", "two", "three"):
        batching.send_async(text, lambda result, identity: None)
    batching.flush()

    broker.record("exclusive", 5)
    client.create_producer("exclusive", access_mode=pulsar.ProducerAccessMode.Exclusive).close()

    broker.record("")
    consumer = client.subscribe("orders", "audit", pulsar.ConsumerType.Exclusive, receiver_queue_size=10,
                                initial_position=pulsar.InitialPosition.Earliest)
    first, second = consumer.receive(5000), consumer.receive(5000)
    consumer.acknowledge(first)
    time.sleep(ACKS_ARE_GROUPED)
    broker.ping_all()
    broker.record("cumulative", 10)
    consumer.acknowledge_cumulative(second)
    time.sleep(ACKS_ARE_GROUPED)
    consumer.get_last_message_id()
    consumer.seek(first.message_id())
    broker.record("time", 28)
    consumer.seek(1700000000000)
    consumer.unsubscribe()

    broker.record("shared", 4, 10, 20)
    shared = client.subscribe("orders", "shared", pulsar.ConsumerType.Shared, consumer_name="worker", negative_ack_redelivery_delay_ms=100,
                              properties={"app": "vectors"}, batch_index_ack_enabled=True)
    received = [shared.receive(5000) for _ in range(6)]
    shared.negative_acknowledge(received[0])
    shared.acknowledge(received[3])
    time.sleep(ACKS_ARE_GROUPED)
    broker.record("many", 10)
    shared.acknowledge(received[1])
    shared.acknowledge(received[2])
    time.sleep(2)
    broker.record("")
    shared.redeliver_unacknowledged_messages()
    shared.close()

    broker.record("key-shared", 4)
    policy = pulsar.ConsumerKeySharedPolicy(pulsar.KeySharedMode.Sticky, sticky_ranges=[(0, 100), (200, 65535)])
    client.subscribe("orders", "keys", pulsar.ConsumerType.KeyShared, key_shared_policy=policy,
                     schema=pulsar.schema.JsonSchema(Order)).close()

    broker.record("reader", 4)
    reader = client.create_reader("orders", pulsar.MessageId.earliest)
    reader.has_message_available()
    reader.close()

    broker.record("")
    client.subscribe(re.compile("persistent://public/default/ord.*"), "pattern").close()
    producer.close()
    time.sleep(PING_EVERY)
    client.close()


def drive_in_chunks(broker):
    """The client keeps the largest message's size for its whole process, so this comes last."""
    client = pulsar.Client(broker.url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), operation_timeout_seconds=10)
    broker.record("chunk", 6, 10)
    producer = client.create_producer("chunks", batching_enabled=False, chunking_enabled=True)
    consumer = client.subscribe("chunks", "audit", initial_position=pulsar.InitialPosition.Earliest)
    producer.send(b"x" * 1000)
    consumer.acknowledge(consumer.receive(5000))
    time.sleep(ACKS_ARE_GROUPED)
    client.close()


class Order(pulsar.schema.Record):
    """Some schema."""

    customer = pulsar.schema.String()
    pieces = pulsar.schema.Integer()


def main():
    broker = Broker()
    drive(broker)
    small = Broker(max_message_size=400)
    drive_in_chunks(small)
    broker.kept |= {name: frame for name, frame in small.kept.items() if name.endswith("-chunk")}
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name, frame in sorted(broker.kept.items()):
        (FOLDER / f"{name}.bin").write_bytes(frame)
        print(f"{len(frame):6} {name}")


if __name__ == "__main__":
    main()
