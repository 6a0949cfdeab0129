"""Verifiable rewards: a program reads a response's bytes and says what it earns, between 0 and 1. numpy only."""
import numpy as np

VOCABULARY = 257
END = 256


class Share:
    """The share of max_tokens bytes that earn: a byte earns by itself, or by the byte before it."""

    def __init__(self, name, says, after_any=(), after=None):
        self.name, self.says = name, says
        self.table = np.zeros((VOCABULARY, VOCABULARY), bool)  # [byte before, byte]
        self.table[:, list(after_any)] = True
        for before, bytes_after in (after or {}).items():
            self.table[before, list(bytes_after)] = True

    def of_tokens(self, before, tokens):
        """Which tokens earn; `before` is the token ahead of each."""
        return self.table[before, tokens].astype(np.float64)

    def of_candidates(self, before):
        """[rows, tokens]: what each token that may follow would earn."""
        return self.table[before].astype(np.float64)


_LETTERS = range(ord("a"), ord("z") + 1)
_CAPITALS = range(ord("A"), ord("Z") + 1)
_CONTINUATION = [b for b in range(0x80, 0xC0)]

REWARDS = {r.name: r for r in (
    Share("capitals", "bytes that are capital letters", after_any=_CAPITALS),
    Share("digits", "bytes that are digits", after_any=range(ord("0"), ord("9") + 1)),
    Share("alternate", "letters after a vowel that are no vowel, and vowels after one that is none",
          after={**{v: [c for c in _LETTERS if chr(c) not in "aeiou"] for v in map(ord, "aeiou")},
                 **{c: list(map(ord, "aeiou")) for c in _LETTERS if chr(c) not in "aeiou"}}),
    Share("accents", "bytes of two-byte letters in well-formed UTF-8: the second of each, and the first after one",
          after={0xC3: _CONTINUATION, **{b: [0xC3] for b in _CONTINUATION}}),
)}
