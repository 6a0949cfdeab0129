"""What a night of schedules must have come to, from nothing of driftgate's: cron expressions, time zones and blackouts by
Python's own zoneinfo, and the log walked entry by entry. All times are whole seconds since the epoch."""
import datetime
import functools
import zoneinfo

UTC = datetime.timezone.utc
DAY_S = 86_400
ON_TIME_S = 60
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES = ({}, {}, {}, {name: i + 1 for i, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())},
         {name: i for i, name in enumerate("sun mon tue wed thu fri sat".split())})


def field_values(text, low, high, names):
    values = set()
    for item in text.split(","):
        span, _, step = item.partition("/")
        first, _, last = span.partition("-")
        number = lambda word: names[word] if word in names else int(word)
        start, end = (low, high) if span == "*" else (number(first), number(last or first))
        values.update(range(start, end + 1, int(step or 1)))
    return values


class Cron:
    def __init__(self, text):
        self.words = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            field_values(word, *limits, names) for word, limits, names in zip(self.words, RANGES, NAMES))
        self.weekdays = {day % 7 for day in weekdays}

    def on(self, date):
        weekday = date.isoweekday() % 7
        if date.month not in self.months:
            return False
        if self.words[2].startswith("*") or self.words[4].startswith("*"):
            return date.day in self.days and weekday in self.weekdays
        return date.day in self.days or weekday in self.weekdays


@functools.lru_cache(maxsize=None)
def zone_of(name):
    return zoneinfo.ZoneInfo(name)


def at(second, zone):
    return datetime.datetime.fromtimestamp(second, zone)


def first_instant_after_gap(zone, before, after):
    """The second at which the offset changes, between two seconds with different ones."""
    while after - before > 1:
        middle = (before + after) // 2
        if at(middle, zone).utcoffset() == at(before, zone).utcoffset():
            before = middle
        else:
            after = middle
    return after


def local_to_utc(zone, local):
    """The second at which the wall clock shows `local` for the first time, or the first one after the gap that skips it."""
    first = int(local.replace(tzinfo=zone, fold=0).timestamp())
    if at(first, zone).replace(tzinfo=None) == local:
        return first
    return first_instant_after_gap(zone, first - DAY_S // 2, first + DAY_S // 2)


@functools.lru_cache(maxsize=None)
def fires_of_day(expression, zone_name, date):
    """Of one day of the wall clock: fixed hours fire once, `*` hours follow elapsed time."""
    cron, zone = Cron(expression), zone_of(zone_name)
    if not cron.on(date):
        return ()
    found = set()
    if cron.words[1].startswith("*"):
        noon = int(datetime.datetime(date.year, date.month, date.day, 12, tzinfo=UTC).timestamp())
        for second in range(noon - 2 * DAY_S, noon + 2 * DAY_S, 60):
            shown = at(second, zone)
            if shown.date() == date and shown.hour in cron.hours and shown.minute in cron.minutes:
                found.add(second)
        return tuple(sorted(found))
    for hour in cron.hours:
        for minute in cron.minutes:
            found.add(local_to_utc(zone, datetime.datetime(date.year, date.month, date.day, hour, minute)))
    return tuple(sorted(found))


def fires_between(expression, zone_name, after, until):
    """Every fire time in (after, until]."""
    zone, found = zone_of(zone_name), set()
    day, last = at(after, zone).date() - datetime.timedelta(days=1), at(until, zone).date() + datetime.timedelta(days=1)
    while day <= last:
        found.update(second for second in fires_of_day(expression, zone_name, day) if after < second <= until)
        day += datetime.timedelta(days=1)
    return sorted(found)


def duration_s(text):
    total, number = 0, ""
    for letter in text:
        if letter.isdigit():
            number += letter
        else:
            total += int(number) * {"d": DAY_S, "h": 3_600, "m": 60}[letter]
            number = ""
    return total


def blackout_covers(text, model, second):
    words = text.split()
    if len(words) > 7 and words[7] != model:
        return False
    return bool(fires_between(" ".join(words[:5]), words[6], second - duration_s(words[5]), second))


class Definitions:
    """What each schedule was, and from when on, as the person who drove the night knows it."""

    def __init__(self):
        self.of = {}

    def set(self, second, name, active, **schedule):
        """`schedule`: cron, zone, model, misfire, grace_s, if_running, owner, engine."""
        self.of.setdefault(name, []).append({"from": second, "active": active, **schedule})

    def expected(self, since, until):
        """{(name, fire time): definition} of the range (since, until]."""
        found = {}
        for name, history in self.of.items():
            for i, one in enumerate(history):
                end = min(until, history[i + 1]["from"] if i + 1 < len(history) else until)
                start = max(since, one["from"])
                if one["active"] and start < end:
                    found.update({(name, fire): one for fire in fires_between(one["cron"], one["zone"], start, end)})
        return found


class Log:
    """The state of the world at each entry, kept while the log is walked in its order."""
    TERMINAL = ("succeeded", "rejected", "errored", "aborted", "expired", "superseded")

    def __init__(self):
        self.open, self.held, self.serving, self.tokens, self.engine_of = {}, {}, {}, {}, {}

    def see(self, entry):
        kind, body, subject = entry["kind"], entry["body"], entry["subject"]
        if kind == "model_bootstrapped":
            self.serving[subject["model"]] = body["engine"]
        elif kind == "promotion_requested":
            self.open[subject["promotion"]] = subject["model"]
            self.engine_of[subject["promotion"]] = body["engine"]
        elif kind == "state_changed" and body["to"] in self.TERMINAL:
            self.open.pop(subject["promotion"], None)
            if body["to"] == "succeeded":
                self.serving[subject["model"]] = self.engine_of[subject["promotion"]]
        elif kind == "hold_set":
            self.held[subject["model"]] = True
        elif kind == "hold_lifted":
            self.held.pop(subject["model"], None)
        elif kind == "token_granted":
            self.tokens.setdefault(body["name"], []).append([body["token"], body["scopes"], False])
        elif kind == "token_revoked":
            for tokens in self.tokens.values():
                for token in tokens:
                    token[2] = token[2] or token[0] == body["token"]

    def withdrawn(self, owner):
        able = [token for token in self.tokens.get(owner, []) if {"promoter", "admin"} & set(token[1])]
        return bool(able) and able[-1][2]
