"""Reads a daemon's data folder as it lies on the disk, without the daemon's code: entries, Merkle tree, head."""
import base64
import hashlib
import json
import os
import shutil
import sqlite3
import tempfile

from harness import check


def leaf_hash(entry):
    return hashlib.sha256(b"\0" + entry).digest()


def root_of(leaves):
    """RFC 6962, section 2.1, by merging equal subtrees from the left."""
    stack = []
    for i, leaf in enumerate(leaves):
        stack.append(leaf)
        while i & 1:
            right, left = stack.pop(), stack.pop()
            stack.append(hashlib.sha256(b"\1" + left + right).digest())
            i >>= 1
    if not stack:
        return hashlib.sha256(b"").digest()
    root = stack.pop()
    while stack:
        root = hashlib.sha256(b"\1" + stack.pop() + root).digest()
    return root


class Record:
    """A copy of the folder's database, WAL and head: what a crash left, read before a daemon touches it."""

    def __init__(self, data_dir):
        # The head is published after the COMMIT, so it is copied first and may be the older of the two.
        with open(os.path.join(data_dir, "head.note"), encoding="utf-8") as handle:
            self.head_origin, size, root = handle.read().split("\n")[:3]
        self.head_size, self.head_root = int(size), base64.b64decode(root)
        folder = tempfile.mkdtemp(prefix="driftgate-record-", dir=memory())
        try:
            for name in ("driftgate.db", "driftgate.db-wal"):
                if os.path.exists(os.path.join(data_dir, name)):
                    shutil.copy(os.path.join(data_dir, name), folder)
            database = sqlite3.connect(os.path.join(folder, "driftgate.db"))
            check(database.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the database is damaged")
            self.entries = [row[0] for row in self.rows_in_order(database)]
            self.promotions = dict(database.execute("SELECT id, state FROM promotions"))
            self.kernels = [row[0] for row in database.execute("SELECT name FROM kernels")]
            self.notes = [json.loads(row[0]).get("note") for row in database.execute("SELECT request FROM promotions")]
            database.close()
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @staticmethod
    def rows_in_order(database):
        rows = database.execute("SELECT bytes, seq FROM entries ORDER BY seq").fetchall()
        check([seq for _, seq in rows] == list(range(len(rows))), "the log has a gap")
        return rows

    def verify(self):
        """No gap, every entry carries its own number, and the published head is a prefix of the log."""
        leaves = [leaf_hash(entry) for entry in self.entries]
        for i, entry in enumerate(self.entries):
            check(json.loads(entry)["seq"] == i, f"entry {i} says another number")
        check(self.head_size <= len(leaves), f"the head has {self.head_size} entries, the log {len(leaves)}")
        check(root_of(leaves[:self.head_size]) == self.head_root, "the published head is of another log")

    def decoded(self, kind):
        return [entry for entry in map(json.loads, self.entries) if entry["kind"] == kind]


def memory():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
