"""Ed25519 by OpenSSL's library, called in this process: what the openssl command does, thousands of times faster."""
import ctypes
import ctypes.util
import functools
import hashlib
import subprocess

CRYPTO = ctypes.CDLL(ctypes.util.find_library("crypto"))
ED25519 = 1087  # NID_ED25519
for _name in ("EVP_PKEY_new_raw_public_key", "EVP_PKEY_new_raw_private_key", "EVP_MD_CTX_new"):
    getattr(CRYPTO, _name).restype = ctypes.c_void_p


def _with_key(make, raw, use):
    key = ctypes.c_void_p(make(ED25519, None, raw, ctypes.c_size_t(len(raw))))
    context = ctypes.c_void_p(CRYPTO.EVP_MD_CTX_new())
    try:
        return use(context, key) if key else None
    finally:
        CRYPTO.EVP_MD_CTX_free(context)
        CRYPTO.EVP_PKEY_free(key)


@functools.lru_cache(maxsize=4096)
def verifies(key, message, signature):
    """Whether `signature` is the one of the 32 bytes `key` on the message."""
    def check(context, pkey):
        return CRYPTO.EVP_DigestVerifyInit(context, None, None, None, pkey) == 1 and CRYPTO.EVP_DigestVerify(
            context, signature, ctypes.c_size_t(len(signature)), message, ctypes.c_size_t(len(message))) == 1
    return bool(_with_key(CRYPTO.EVP_PKEY_new_raw_public_key, key, check))


class Signer:
    """A key pair from the 32 bytes of its secret."""

    def __init__(self, secret):
        self.secret = secret
        raw, length = ctypes.create_string_buffer(32), ctypes.c_size_t(32)
        _with_key(CRYPTO.EVP_PKEY_new_raw_private_key, secret,
                  lambda _, pkey: CRYPTO.EVP_PKEY_get_raw_public_key(pkey, raw, ctypes.byref(length)))
        self.raw = raw.raw

    @staticmethod
    def load(path):
        """From PKCS #8 in PEM."""
        der = subprocess.run(["openssl", "pkey", "-in", path, "-outform", "DER"], check=True, capture_output=True).stdout
        return Signer(der[-32:])

    def sign(self, message):
        signature, length = ctypes.create_string_buffer(64), ctypes.c_size_t(64)

        def make(context, pkey):
            return CRYPTO.EVP_DigestSignInit(context, None, None, None, pkey) == 1 and CRYPTO.EVP_DigestSign(
                context, signature, ctypes.byref(length), message, ctypes.c_size_t(len(message))) == 1
        if not _with_key(CRYPTO.EVP_PKEY_new_raw_private_key, self.secret, make):
            raise RuntimeError("OpenSSL does not sign")
        return signature.raw

    def digest(self, name):
        return hashlib.sha256(name.encode() + b"\n\1" + self.raw).digest()

    def key_id(self, name):
        return self.digest(name)[:4]
