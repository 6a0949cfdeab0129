// Says when the daemon does not answer, and when it came back.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { awaySince, comebacks, connection, liveFault, restarted } from '../api/events';
import { session } from '../api/session';
import { announce } from '../ui/announce';
import { Button } from '../ui/button';
import { clock, duration } from '../ui/format';
import { Icon } from '../ui/icons';
import { Sentence } from '../ui/name';
import { now } from '../ui/time';

const SHOWN_MS = 15_000;
const back = signal<{ at: number; text: string } | null>(null);
let lostAt: number | null = null;
let heardComebacks = 0;

/** Notices the changes; the banner itself only shows them. */
function watch(): void {
  if (connection.value === 'away') {
    if (lostAt === null) {
      lostAt = awaySince.value ?? Date.now();
      back.value = null;
      announce(liveFault.value ? 'There are no live updates.' : 'The daemon does not answer.');
    }
  } else if (comebacks.value !== heardComebacks) {
    heardComebacks = comebacks.value;
    const away = lostAt === null ? '' : ` after ${duration((Date.now() - lostAt) / 1000)}`;
    lostAt = null;
    const again = restarted.value && Date.now() - restarted.value.at < 5000 ? ' It was started anew.' : '';
    back.value = { at: Date.now(), text: `The daemon is back${away}.${again} It is being read again.` };
    announce(back.value.text);
  }
}

export function Banner() {
  return <section class="banners" aria-label="Connection"><Said /></section>;
}

function Said() {
  const state = connection.value;
  const turn = comebacks.value;
  useEffect(watch, [state, turn]);
  const version = restarted.value?.version;
  if (state === 'away') return <Away />;
  if (version && session.value && version !== session.value.server.version) {
    return (
      <div class="banner warn"><Icon name="info" /> <span>The daemon has been updated from <bdi>{session.value.server.version}</bdi> to <bdi>{version}</bdi>. This page is the older one's.</span>
        <Button onClick={() => location.reload()}>Load the page again</Button></div>
    );
  }
  const said = back.value;
  if (!said || now.value - said.at > SHOWN_MS) return null;
  return <div class="banner good" data-banner="back"><Icon name="pass" /> <span>{said.text}</span><Button kind="link" onClick={() => { back.value = null; }}>Dismiss</Button></div>;
}

function Away() {
  const since = awaySince.value;
  if (liveFault.value) {
    return <div class="banner warn" data-banner="no-live"><Icon name="offline" /> <span>There are no live updates: <Sentence>{liveFault.value}</Sentence> Trying again.</span></div>;
  }
  const text = since === null ? '' : ` since ${clock(since * 1000).slice(11)} (${duration((now.value - since) / 1000)})`;
  return <div class="banner bad" data-banner="away"><Icon name="offline" /> <span>The daemon does not answer{text}. What you see is as of then; trying again.</span></div>;
}
