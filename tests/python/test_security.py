"""What the official client sees of TLS, certificates as roles, tokens, and of keys and certificates that change while the broker runs."""

import shutil
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

import pulsar

from broker import BINARY, PATIENCE, Broker, environment


def geminga(*arguments):
    return subprocess.run([BINARY, *arguments], env=environment(), check=True, capture_output=True, text=True).stdout.strip()


class Security(unittest.TestCase):
    def setUp(self):
        self.home = Path(tempfile.mkdtemp(prefix="geminga-keys-"))
        self.addCleanup(shutil.rmtree, self.home)
        self.make("tls")

    def make(self, name):
        geminga("tls", "init", self.home / name, "--client", "admin", "--client", "orders")
        return self.home / name

    def broker(self, **settings):
        tls = self.home / "tls"
        return Broker(
            brokerServicePortTls=0,
            tlsCertificateFilePath=tls / "server.pem",
            tlsKeyFilePath=tls / "server-key.pem",
            tlsTrustCertsFilePath=tls / "ca.pem",
            tlsCertRefreshCheckDurationSec=1,
            authenticationRefreshCheckSeconds=1,
            **settings,
        )

    def client(self, broker, authentication=None, trust="tls"):
        return pulsar.Client(
            broker.endpoints["pulsarTls"],
            authentication=authentication,
            tls_trust_certs_file_path=str(self.home / trust / "ca.pem"),
            tls_validate_hostname=True,
            operation_timeout_seconds=2,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )

    def certificate(self, name):
        tls = self.home / "tls"
        return pulsar.AuthenticationTLS(str(tls / f"client-{name}.pem"), str(tls / f"client-{name}-key.pem"))

    def works(self, *arguments, **keywords):
        """Whether a message goes there and back."""
        client = self.client(*arguments, **keywords)
        try:
            consumer = client.subscribe("t", "s", consumer_type=pulsar.ConsumerType.Shared)
            client.create_producer("t").send(b"hello")
            message = consumer.receive(PATIENCE * 1000)
            consumer.acknowledge(message)
            consumer.close()
            return message.data() == b"hello"
        except pulsar.PulsarException:
            return False
        finally:
            client.close()

    def eventually(self, condition):
        deadline = time.monotonic() + PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), deadline)

    def test_a_changed_certificate_is_shown_to_new_connections(self):
        with self.broker() as broker:
            self.assertTrue(self.works(broker))
            others = self.make("others")
            self.assertFalse(self.works(broker, trust="others"))
            for name in ("server.pem", "server-key.pem"):
                shutil.copy(others / name, self.home / "tls" / name)
            self.eventually(lambda: self.works(broker, trust="others"))
            self.assertFalse(self.works(broker))

    def test_a_certificate_is_a_role(self):
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": "AuthenticationProviderTls",
            "authorizationEnabled": "true",
            "superUserRoles": "admin",
        }
        with self.broker(**settings) as broker:
            self.assertTrue(self.works(broker, self.certificate("admin")))
            self.assertFalse(self.works(broker, self.certificate("orders")))
            self.assertFalse(self.works(broker))

    def test_keys_of_tokens_are_exchanged_while_clients_come_and_go(self):
        secret = self.home / "secret.key"
        geminga("token", "create-secret", secret)
        old = geminga("token", "create", "me", "--secret", secret)
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": "AuthenticationProviderToken",
            "tokenSecretKey": f"file://{secret}",
        }
        with self.broker(**settings) as broker:
            self.assertTrue(self.works(broker, pulsar.AuthenticationToken(old)))
            self.assertFalse(self.works(broker))
            secret.unlink()
            geminga("token", "create-secret", secret)
            new = geminga("token", "create", "me", "--secret", secret)
            self.eventually(lambda: self.works(broker, pulsar.AuthenticationToken(new)))
            self.assertFalse(self.works(broker, pulsar.AuthenticationToken(old)))

    def test_a_client_with_a_supplier_outlives_its_first_token(self):
        secret = self.home / "secret.key"
        geminga("token", "create-secret", secret)
        settings = {
            "authenticationEnabled": "true",
            "authenticationProviders": "AuthenticationProviderToken",
            "tokenSecretKey": f"file://{secret}",
        }
        asked = []

        def supply():
            asked.append(time.monotonic())
            return geminga("token", "create", "me", "--secret", secret, "--expires", "2s")

        with self.broker(**settings) as broker:
            client = self.client(broker, pulsar.AuthenticationToken(supply))
            producer = client.create_producer("t")
            connections = len(asked)
            self.eventually(lambda: producer.send(b"again") and len(asked) > connections + 1)
            self.assertTrue(producer.is_connected())
            client.close()


if __name__ == "__main__":
    unittest.main()
