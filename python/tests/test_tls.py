"""A daemon that speaks TLS, and clients that trust it or do not."""

import asyncio
import os
import pathlib
import shutil
import tempfile
import unittest

import berth
import berth.aio
from tests.daemon import BINARY, Daemon

CERTIFICATES = pathlib.Path(__file__).parent / "certificates"
CONFIGURATION = """
daemon:
  tls_cert: {0}/server.pem
  tls_key: {0}/server.key
  tls_client_ca: {0}/ca.pem
users:
  cert:node7: {{role: operator}}
"""


class TLS(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not BINARY.exists():
            raise unittest.SkipTest("there is no %s: run make build, or name the binary in BERTH_BIN" % BINARY)
        folder = tempfile.TemporaryDirectory(prefix="berth-")
        cls.addClassCleanup(folder.cleanup)
        cls.files = pathlib.Path(folder.name)
        for path in CERTIFICATES.iterdir():
            copy = shutil.copy(path, cls.files)
            os.chmod(copy, 0o600)  # a key that others can read is refused
        cls.daemon = Daemon("sim:1", CONFIGURATION.format(folder.name), "127.0.0.1:0")
        cls.addClassCleanup(cls.daemon.close)
        cls.url = "https://" + cls.daemon.address()
        cls.ca = str(cls.files / "ca.pem")

    def test_trusted(self):
        client = berth.Client(url=self.url, ca=self.ca)
        self.assertEqual(len(berth.devices(client=client)), 1)
        again = berth.Client(url=self.url.replace("127.0.0.1", "localhost"), ca=self.ca)
        self.assertEqual(len(berth.devices(client=again)), 1)

    def test_trusted_without_threads(self):
        client = berth.Client(url=self.url, ca=self.ca)
        self.assertEqual(len(asyncio.run(berth.aio.devices(client=client))), 1)

    def test_environment(self):
        before = dict(os.environ)
        try:
            os.environ.pop("BERTH_SOCKET", None)
            os.environ.update(BERTH_URL=self.url, BERTH_CA=self.ca)
            self.assertEqual(len(berth.devices()), 1)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def test_unknown_authority(self):
        for get in (berth.devices, lambda client: asyncio.run(berth.aio.devices(client=client))):
            with self.assertRaisesRegex(berth.NoDaemon, "BERTH_CA"):
                get(client=berth.Client(url=self.url))

    def test_no_tls_there(self):
        plain = Daemon("sim:1", "", "127.0.0.1:0")
        self.addCleanup(plain.close)
        with self.assertRaisesRegex(berth.NoDaemon, "http://"):
            berth.devices(client=berth.Client(url="https://" + plain.address(), ca=self.ca))

    def test_half_a_pair(self):
        with self.assertRaisesRegex(ValueError, "needs its key"):
            berth.Client(url=self.url, cert=str(self.files / "client.pem"))

    def test_token_file(self):
        path = self.files / "token"
        path.write_text("secret\n")
        os.environ["BERTH_TOKEN_FILE"] = str(path)
        self.addCleanup(os.environ.pop, "BERTH_TOKEN_FILE")
        self.assertEqual(berth.Client(socket="/s").token, "secret")
        self.assertEqual(berth.Client(url=self.url).token, "secret")
        path.write_text("two words\n")
        with self.assertRaisesRegex(ValueError, "one line"):
            berth.Client()


if __name__ == "__main__":
    unittest.main()
