"""Seeded mutations of bundles: each says with which codes the changed bundle may be refused, or why it may be accepted.

respell.py: another spelling; lines.py: without keys; thief.py: with the log's key."""
import random

import lines
import respell
import thief
from bundles import Bundle, World, places  # noqa: F401

# Why a changed bundle may be accepted: the names and the words are those of docs/evidence.md.
MEANINGS = {
    "head_lines": "signature lines of keys that the trust file does not have, and signed extension lines",
    "key_id_form": "the key id of an attestation in its older form",
    "tables_left_out": "tables, reports and approved evidence left out",
    "consistency_left_out": "the consistency line left out where no older head is given",
    "times": "other times asked for, which the entries reach beyond",
    "after_the_end": "entries from after the end of a promotion left out",
    "running": "a part of a promotion, under --running",
    "unchanged": "nothing was changed",
    "signed_facts": "facts that the log's key signed, from which what is concluded follows",
}


LARGE = 300_000  # bytes; a bundle with its tables, which is mutated less often


def kinds_of(bundle):
    kinds = []
    for module in (lines, respell, thief):
        kinds += [(mutate, weight, module) for mutate, weight in module.ANYWHERE + (module.OF_PROMOTIONS if bundle.single else [])]
    return kinds


def mutations(seed, count, world, bundles, only=None):
    """Gives (name, case) `count` times; the same seed gives the same. `bundles`: {name: Bundle}; `only`: a kind's name."""
    rng = random.Random(seed)
    world.others = list(bundles.values())
    names = sorted(bundles)
    weights = [1 if len(world.bytes_of[name]) > LARGE else 6 for name in names]
    number = 0
    while number < count:
        name = rng.choices(names, weights)[0]
        bundle = bundles[name]
        kinds = [kind for kind in kinds_of(bundle) if only in (None, kind[0].__name__)]
        if not kinds:
            continue
        mutate, _, module = rng.choices(kinds, [weight for _, weight, _ in kinds])[0]
        try:
            case = mutate(rng, world, bundle.copy())
        except (IndexError, KeyError):  # this bundle has nothing for this mutation
            continue
        if case.running is None:
            case.running = bundle.running
        case.tables = len(bundle.of("blob")) > 1
        if module is thief and 0 in case.allowed:
            case.meaning = "signed_facts"
        if case.data == world.bytes_of[name] and case.meaning != "unchanged":
            continue
        yield f"{number:05d}-{mutate.__name__}-{name}", case
        number += 1
