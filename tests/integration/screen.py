"""A program on a real pseudo-terminal, and the part of a terminal that its output needs: enough to say what a person
would see, and to fail on any sequence that is not known."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import unicodedata

from harness import PATIENCE_S, Failure, check

SEQUENCE = re.compile(r"\x1b\[(\??)(\d*)(?:;\d+)*([A-Za-z])")
# What is left of one whose end was discarded: the key's echo comes next, or another sequence.
CUT = re.compile(r"\x1b(?:\[\??[\d;]*)?(?=\^C|[\r\n]*\x1b)")


def width_of(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    """Rows of text; `above` has what was scrolled off the top."""

    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.lines, self.above = [[]], []
        self.row = self.column = 0
        self.cursor_shown, self.wraps, self.coloured = True, True, False
        self.pending = ""

    def resize(self, columns, rows):
        """As terminals do that keep lines as they are; what is too long is broken."""
        lines, cursor = [], None
        for i, line in enumerate(self.lines):
            if i == self.row:
                cursor = len(lines)
            lines += [line[at:at + columns] for at in range(0, max(1, len(line)), columns)]
        self.lines, self.row, self.columns, self.rows = lines, cursor, columns, rows
        self.scroll()

    def feed(self, text):
        text = self.pending + text
        self.pending = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found, cut = SEQUENCE.match(text, at), CUT.match(text, at)
                if cut:
                    at = cut.end()
                    continue
                if not found:
                    check(len(text) - at < 16, f"a sequence that no line of this program needs: {text[at:at + 16]!r}")
                    self.pending = text[at:]
                    return
                self.act(*found.groups())
                at = found.end()
            else:
                self.put(text[at])
                at += 1

    def act(self, private, number, letter):
        count = int(number or 1)
        if private:
            modes = {("25", "h"): ("cursor_shown", True), ("25", "l"): ("cursor_shown", False),
                     ("7", "h"): ("wraps", True), ("7", "l"): ("wraps", False)}
            check((number, letter) in modes, f"an unknown mode: ?{number}{letter}")
            setattr(self, *modes[number, letter])
        elif letter == "A":
            self.row = max(0, self.row - count)
        elif letter == "K":
            del self.lines[self.row][self.column:]
        elif letter == "J":
            del self.lines[self.row][self.column:], self.lines[self.row + 1:]
        elif letter == "m":
            self.coloured = True
        else:
            raise Failure(f"an unknown sequence: {number}{letter}")

    def put(self, character):
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row += 1
            if self.row == len(self.lines):
                self.lines.append([])
            self.scroll()
        else:
            check(character >= " " and character != "\x7f", f"a control character: {character!r}")
            width = width_of(character)
            if self.column + width > self.columns:
                check(self.wraps, f"a line is wider than {self.columns}: {''.join(self.lines[self.row])}")
                self.put("\r")
                self.put("\n")
            line = self.lines[self.row]
            line.extend(" " * (self.column - len(line)))
            line[self.column:self.column + width] = [character] + [""] * (width - 1)
            self.column += width

    def scroll(self):
        while self.row >= self.rows or len(self.lines) > self.rows:
            self.above.append(self.lines.pop(0))
            self.row -= 1

    def text(self):
        return "\n".join("".join(line).rstrip() for line in self.lines)

    def all_text(self):
        return "\n".join("".join(line).rstrip() for line in self.above + self.lines)


class OnTerminal:
    """A program whose standard streams are a terminal of its own. What it prints is kept as `raw` and on `screen`."""

    def __init__(self, argv, columns=80, rows=24, env=None):
        self.master, slave = pty.openpty()
        self.size(slave, columns, rows)
        self.screen, self.raw = Screen(columns, rows), ""
        environment = {**os.environ, "TERM": "xterm-256color", **(env or {})}
        environment = {name: value for name, value in environment.items() if value is not None}

        def own_terminal():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        self.child = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env=environment,
                                      preexec_fn=own_terminal)
        os.close(slave)
        self.open = True
        self.undecoded = b""

    @staticmethod
    def size(fd, columns, rows):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def settle(self):
        while self.read(0.03):
            pass

    def resize(self, columns, rows):
        self.settle()  # nothing that is drawn for the old size may come after
        self.screen.resize(columns, rows)
        self.size(self.master, columns, rows)  # the kernel tells the program

    def type(self, text):
        os.write(self.master, text.encode())

    def read(self, seconds):
        """Takes what comes within the time; false when nothing did."""
        if not self.open or not select.select([self.master], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:  # the program ended, and with it the other side
            data = b""
        if not data:
            self.open = False
            return False
        data = self.undecoded + data
        text = data.decode("utf-8", "ignore")
        self.undecoded = data[len(text.encode()):]
        self.raw += text
        self.screen.feed(text)
        return True

    def until(self, what, seen):
        """Reads until seen(the screen's text) holds."""
        end = time.monotonic() + PATIENCE_S
        while not seen(self.screen.text()):
            check(time.monotonic() < end and (self.read(1) or self.open), f"{what}; on the screen:\n{self.screen.text()}")

    def unread(self):
        return struct.unpack("i", fcntl.ioctl(self.master, termios.FIONREAD, b"\0" * 4))[0]

    def fall_behind(self):
        """Reads nothing and has the picture drawn again until the terminal's buffer is full. A key that sends a
        signal then makes the kernel discard the rest, mostly from the middle of a drawing."""
        end, before = time.monotonic() + PATIENCE_S, -1
        while self.unread() == 0 or self.unread() != before:
            check(time.monotonic() < end, f"{before} bytes do not fill the terminal's buffer")
            before = self.unread()
            self.child.send_signal(signal.SIGWINCH)
            time.sleep(0.1)  # a drawing that the buffer does not take is seen by nothing else

    def end(self):
        """Reads to the end; the exit code."""
        end = time.monotonic() + PATIENCE_S
        while self.open and time.monotonic() < end:
            self.read(1)
        try:
            return self.child.wait(timeout=30)
        except subprocess.TimeoutExpired as still:
            raise Failure(f"it does not end; on the screen:\n{self.screen.text()}") from still

    def close(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGKILL)
            self.child.wait(timeout=30)
        os.close(self.master)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
