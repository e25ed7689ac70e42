"""`hashlib.pbkdf2_hmac` and `hashlib.scrypt` (RFC 8018, RFC 7914) with the interface and errors of the OpenSSL ones."""

import hashlib
import struct

_SCRYPT_DEFAULT_MEMORY = 32 * 1024 * 1024
_INT_MAX = 2**31 - 1


def _bytes(value, name):
    if isinstance(value, str):
        raise TypeError("a bytes-like object is required, not 'str'") from None
    return bytes(memoryview(value))


def _hmac_states(hash_name, password):
    """The hash objects after the inner and the outer padded key: each HMAC is two copies of them."""
    inner = hashlib.new(hash_name)
    outer = inner.copy()
    if len(password) > inner.block_size:
        password = hashlib.new(hash_name, password).digest()
    password = password.ljust(inner.block_size, b"\0")
    inner.update(bytes(byte ^ 0x36 for byte in password))
    outer.update(bytes(byte ^ 0x5C for byte in password))
    return inner, outer


def pbkdf2_hmac(hash_name, password, salt, iterations, dklen=None):
    """Password based key derivation function 2 (PKCS #5 v2.0) with HMAC as pseudorandom function."""
    if not isinstance(hash_name, str):
        raise TypeError(f"pbkdf2_hmac() argument 'hash_name' must be str, not {type(hash_name).__name__}")
    password = _bytes(password, "password")
    salt = _bytes(salt, "salt")
    try:
        inner, outer = _hmac_states(hash_name, password)
    except ValueError:
        raise ValueError(f"unsupported hash type {hash_name}") from None
    if iterations < 1:
        raise ValueError("iteration value must be greater than 0.")
    if iterations > _INT_MAX:
        raise OverflowError("iteration value is too great.")
    if dklen is None:
        dklen = outer.digest_size
    if dklen < 1:
        raise ValueError("key length must be greater than 0.")
    if dklen > _INT_MAX:
        raise OverflowError("key length is too great.")
    result = bytearray()
    block = 0
    copy_inner, copy_outer, from_bytes = inner.copy, outer.copy, int.from_bytes
    while len(result) < dklen:
        block += 1
        value = salt + block.to_bytes(4, "big")
        total = 0
        for _ in range(iterations):
            first = copy_inner()
            first.update(value)
            second = copy_outer()
            second.update(first.digest())
            value = second.digest()
            total ^= from_bytes(value, "big")
        result += total.to_bytes(len(value), "big")
    return bytes(result[:dklen])


def scrypt(password, *, salt, n, r, p, maxmem=0, dklen=64):
    """scrypt password-based key derivation function."""
    password = _bytes(password, "password")
    salt = _bytes(salt, "salt")
    for name, value in (("n", n), ("r", r), ("p", p)):
        if not isinstance(value, int):
            raise TypeError(f"{name} is required and must be an unsigned int")
    if n < 2 or n & (n - 1):
        raise ValueError("n must be a power of 2.")
    if maxmem < 0 or maxmem > _INT_MAX:
        raise ValueError(f"maxmem must be positive and smaller than {_INT_MAX}")
    if dklen < 1 or dklen > _INT_MAX:
        raise ValueError(f"dklen must be greater than 0 and smaller than {_INT_MAX}")
    if r < 1 or p < 1 or p * r >= 1 << 30:
        raise ValueError("Invalid parameter combination for n, r, p, maxmem.")
    # OpenSSL's own estimate: the blocks, the table of n blocks and one block of scratch.
    needed = p * 128 * r + 32 * r * (n + 2) * 4
    if needed > (maxmem or _SCRYPT_DEFAULT_MEMORY):
        raise ValueError("Invalid parameter combination for n, r, p, maxmem.")
    blocks = pbkdf2_hmac("sha256", password, salt, 1, p * 128 * r)
    size = 128 * r
    mixed = b"".join(_mix(blocks[start:start + size], n, r) for start in range(0, len(blocks), size))
    return pbkdf2_hmac("sha256", password, mixed, 1, dklen)


def _mix(block, n, r):
    words = 32 * r
    unpack, pack = struct.Struct(f"<{words}I").unpack, struct.Struct(f"<{words}I").pack
    state = list(unpack(block))
    table = []
    for _ in range(n):
        table.append(pack(*state))
        state = _block_mix(state, r)
    last = words - 16
    size = 128 * r
    for _ in range(n):
        packed = int.from_bytes(pack(*state), "little")
        packed ^= int.from_bytes(table[state[last] & (n - 1)], "little")
        state = _block_mix(list(unpack(packed.to_bytes(size, "little"))), r)
    return pack(*state)


def _block_mix(state, r):
    chunk = state[-16:]
    even, odd = [], []
    for index in range(2 * r):
        chunk = _salsa20_8([a ^ b for a, b in zip(chunk, state[index * 16:index * 16 + 16])])
        (odd if index & 1 else even).extend(chunk)
    return even + odd


# The quarter rounds of one double round of Salsa20, as indices into the sixteen words.
_ROUNDS = (
    (0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
    (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14),
)


def _salsa20_8(words):
    x = words[:]
    for _ in range(4):
        for a, b, c, d in _ROUNDS:
            xa, xb, xc, xd = x[a], x[b], x[c], x[d]
            t = (xa + xd) & 0xFFFFFFFF
            xb ^= (t << 7 & 0xFFFFFFFF) | t >> 25
            t = (xb + xa) & 0xFFFFFFFF
            xc ^= (t << 9 & 0xFFFFFFFF) | t >> 23
            t = (xc + xb) & 0xFFFFFFFF
            xd ^= (t << 13 & 0xFFFFFFFF) | t >> 19
            t = (xd + xc) & 0xFFFFFFFF
            x[a] = xa ^ ((t << 18 & 0xFFFFFFFF) | t >> 14)
            x[b], x[c], x[d] = xb, xc, xd
    return [(a + b) & 0xFFFFFFFF for a, b in zip(x, words)]


def install():
    """Only where OpenSSL's are missing; they are much faster."""
    for function in (pbkdf2_hmac, scrypt):
        if not hasattr(hashlib, function.__name__):
            function.__module__ = "hashlib"
            setattr(hashlib, function.__name__, function)
    if "pbkdf2_hmac" not in hashlib.__all__:
        hashlib.__all__ += ("pbkdf2_hmac",)
