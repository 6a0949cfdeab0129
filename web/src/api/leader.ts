// Which tab of the browser holds the stream of events: one at a time, by Web Locks. On plain http beyond localhost
// browsers have no Web Locks; there a lease in localStorage that the leader renews stands for them.

export interface Leadership {
  /** Stands for election. `lead` is called when this tab is the leader, with a signal that ends when it no longer is. */
  stand(lead: (end: AbortSignal) => void): void;
  /** Withdraws; another tab takes over. */
  withdraw(): void;
}

const NAME = 'driftgate-events';

export function leadership(): Leadership {
  if (typeof navigator !== 'undefined' && navigator.locks) return new LockLeadership(navigator.locks);
  return new LeaseLeadership(storage());
}

export class LockLeadership implements Leadership {
  private candidacy: AbortController | null = null;

  constructor(private readonly locks: Pick<LockManager, 'request'>) {}

  stand(lead: (end: AbortSignal) => void): void {
    if (this.candidacy) return;
    const mine = new AbortController();
    this.candidacy = mine;
    this.locks.request(NAME, { signal: mine.signal }, () => new Promise<void>((release) => {
      if (mine.signal.aborted) return release();
      mine.signal.addEventListener('abort', () => release(), { once: true });
      lead(mine.signal);
    })).catch(() => undefined); // withdrawn while it waited
  }

  withdraw(): void {
    this.candidacy?.abort();
    this.candidacy = null;
  }
}

/** What is used of localStorage. */
export interface Store {
  getItem(key: string): string | null;
  setItem(key: string, value: string): void;
  removeItem(key: string): void;
}

function storage(): Store | null {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

export const LEASE_MS = 4000;
const RENEW_MS = 1000;

export class LeaseLeadership implements Leadership {
  private readonly id = Math.random().toString(36).slice(2);
  private timer: ReturnType<typeof setInterval> | undefined;
  private leading: AbortController | null = null;
  private claimed = false;

  constructor(private readonly store: Store | null, private readonly now: () => number = Date.now) {}

  stand(lead: (end: AbortSignal) => void): void {
    if (this.timer !== undefined) return;
    this.tick(lead);
    this.timer = setInterval(() => this.tick(lead), RENEW_MS);
  }

  withdraw(): void {
    clearInterval(this.timer);
    this.timer = undefined;
    this.claimed = false;
    if (this.holder()?.id === this.id) this.store?.removeItem(NAME);
    this.end();
  }

  /** One look at the lease: a claim holds once it is still there a turn later, so that of two claims one stays. */
  tick(lead: (end: AbortSignal) => void): void {
    const holder = this.holder();
    if (this.store && holder && holder.id !== this.id && holder.until > this.now()) {
      this.claimed = false;
      return this.end();
    }
    const confirmed = !this.store || (this.claimed && holder?.id === this.id);
    try {
      this.store?.setItem(NAME, JSON.stringify({ id: this.id, until: this.now() + LEASE_MS }));
    } catch {
      // The storage is full or forbidden: this tab cannot know of others.
    }
    this.claimed = true;
    if (confirmed && !this.leading) {
      this.leading = new AbortController();
      lead(this.leading.signal);
    }
  }

  private end(): void {
    this.leading?.abort();
    this.leading = null;
  }

  private holder(): { id: string; until: number } | null {
    try {
      const value = JSON.parse(this.store?.getItem(NAME) ?? 'null') as { id?: unknown; until?: unknown } | null;
      return value && typeof value.id === 'string' && typeof value.until === 'number' ? { id: value.id, until: value.until } : null;
    } catch {
      return null;
    }
  }
}
