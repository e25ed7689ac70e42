"""The pure key derivations against OpenSSL's."""

import hashlib
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
import _gp_kdf as kdf  # noqa: E402


class Derivations(unittest.TestCase):
    def outcome(self, function, *args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception as error:
            return type(error), str(error)

    def test_pbkdf2(self):
        for args in (("sha256", b"pw", b"salt", 1), ("sha1", b"password", b"salt", 20, 20), ("sha512", b"p" * 300, b"s" * 70, 3, 200),
                     ("md5", b"", b"", 2, 5), ("sha256", bytearray(b"x"), memoryview(b"y"), 2), ("sha256", b"x", b"y", 0),
                     ("sha256", b"x", b"y", -1), ("sha256", b"x", b"y", 1, 0), ("sha256", b"x", b"y", 1, -1),
                     ("sha3_256", b"x", b"y", 2)):
            with self.subTest(args=args):
                self.assertEqual(self.outcome(kdf.pbkdf2_hmac, *args), self.outcome(hashlib.pbkdf2_hmac, *args))
        self.assertEqual(self.outcome(kdf.pbkdf2_hmac, "nope", b"x", b"y", 1)[0], ValueError)
        for args in ((1, b"x", b"y", 1), ("sha256", "text", b"y", 1), ("sha256", b"x", b"y", "1")):
            with self.subTest(args=args):
                self.assertEqual(self.outcome(kdf.pbkdf2_hmac, *args)[0], TypeError)

    def test_scrypt(self):
        for options in ({"salt": b"", "n": 16, "r": 1, "p": 1}, {"salt": b"NaCl", "n": 64, "r": 8, "p": 2, "dklen": 32},
                        {"salt": b"s", "n": 15, "r": 1, "p": 1}, {"salt": b"s", "n": 1, "r": 1, "p": 1},
                        {"salt": b"s", "n": 16, "r": 1, "p": 1, "dklen": 0}, {"salt": b"s", "n": 16, "r": 1, "p": 1, "maxmem": -1},
                        {"salt": b"s", "n": 2**20, "r": 8, "p": 1}, {"salt": b"s", "n": 16, "r": 8, "p": 1, "maxmem": 1000},
                        {"salt": b"s", "n": 16, "r": 0, "p": 1}):
            with self.subTest(options=options):
                ours, theirs = self.outcome(kdf.scrypt, b"pw", **options), self.outcome(hashlib.scrypt, b"pw", **options)
                if isinstance(theirs, tuple):
                    self.assertEqual(ours[0], theirs[0], (ours, theirs))
                else:
                    self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main()
