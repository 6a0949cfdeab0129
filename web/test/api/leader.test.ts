import assert from 'node:assert/strict';
import { test } from 'node:test';
import { LEASE_MS, LeaseLeadership, LockLeadership, type Store } from '../../src/api/leader';

class Shelf implements Store {
  readonly kept = new Map<string, string>();
  getItem(key: string) { return this.kept.get(key) ?? null; }
  setItem(key: string, value: string) { this.kept.set(key, value); }
  removeItem(key: string) { this.kept.delete(key); }
}

/** A tab: it counts how often it was made the leader, and whether it is. */
class Tab {
  times = 0;
  end: AbortSignal | null = null;
  readonly lead = (end: AbortSignal) => { this.times += 1; this.end = end; };
  get leads() { return !!this.end && !this.end.aborted; }
}

test('of tabs that share a lease one leads, and another follows when it withdraws or dies', () => {
  let now = 1000;
  const shelf = new Shelf();
  const seats = [0, 1, 2].map(() => ({ tab: new Tab(), lease: new LeaseLeadership(shelf, () => now) }));
  const turn = (indexes: number[]) => {
    now += 1000;
    for (const index of indexes) seats[index]!.lease.tick(seats[index]!.tab.lead);
  };
  const leading = () => seats.filter((one) => one.tab.leads).length;
  for (let i = 0; i < 5; ++i) {
    turn([0, 1, 2]);
    assert.ok(leading() <= 1, 'never two');
  }
  assert.equal(leading(), 1);
  const first = seats.findIndex((one) => one.tab.leads);
  const others = [0, 1, 2].filter((index) => index !== first);

  seats[first]!.lease.withdraw();
  assert.equal(leading(), 0);
  turn(others);
  turn(others);
  assert.equal(leading(), 1, 'the next one leads after a withdrawal');

  const second = seats.findIndex((one) => one.tab.leads);
  const last = others.filter((index) => index !== second);
  turn(last);
  assert.equal(seats[last[0]!]!.tab.leads, false, 'a lease holds until it runs out');
  now += LEASE_MS; // the second tab died without a word
  turn(last);
  turn(last);
  assert.equal(seats[last[0]!]!.tab.leads, true);
  turn([second]);
  assert.equal(seats[second]!.tab.leads, false, 'who comes back late leads no more');
});

test('without storage every tab leads for itself', () => {
  const tab = new Tab();
  const lease = new LeaseLeadership(null);
  lease.tick(tab.lead);
  assert.equal(tab.leads, true);
  lease.withdraw();
  assert.equal(tab.leads, false);
});

test('by Web Locks: withdrawing gives the lock to the next', async () => {
  const queue: { run: () => Promise<void>; signal: AbortSignal }[] = [];
  let held = false;
  const next = () => {
    const one = queue.shift();
    if (!one) return;
    held = true;
    void one.run().then(() => { held = false; next(); });
  };
  const locks = {
    request(_: string, options: LockOptions, run: () => Promise<void>) {
      queue.push({ run, signal: options.signal as AbortSignal });
      if (!held) next();
      return new Promise(() => undefined);
    },
  } as unknown as Pick<LockManager, 'request'>;
  const [a, b] = [new Tab(), new Tab()];
  const [first, second] = [new LockLeadership(locks), new LockLeadership(locks)];
  first.stand(a.lead);
  first.stand(a.lead);
  second.stand(b.lead);
  assert.deepEqual([a.times, a.leads, b.leads], [1, true, false]);
  first.withdraw();
  await new Promise((done) => setImmediate(done));
  assert.deepEqual([a.leads, b.leads], [false, true]);
});
