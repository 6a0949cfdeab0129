// What stands around every view: navigation, search, who is signed in, the state of the connection.

import { Component, type ComponentChildren } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { asProblem, Problem } from '../api/client';
import { loadSession, session, signedState, signOut } from '../api/session';
import { announce, Announcer } from '../ui/announce';
import { Button } from '../ui/button';
import { Icon } from '../ui/icons';
import { Name } from '../ui/name';
import { Empty, ErrorBox, PageHead } from '../ui/page';
import { ActionHost } from './actions';
import { Banner } from './banner';
import { Notices, notify } from './notices';
import { overlay, Overlays } from './overlays';
import { Link, moves, place, type View, type ViewProps } from './router';
import { routeOf, type Route } from './routes';
import { SignIn } from './sign_in';

const NAV: [string, string][] = [
  ['/', 'Promotions'], ['/c/', 'Contracts'], ['/evidence', 'Evidence'], ['/schedules', 'Schedules'], ['/holds', 'Holds'],
  ['/tokens', 'Tokens'], ['/settings', 'Settings'], ['/health', 'Health'],
];

export function Shell() {
  const state = signedState.value;
  // Another person's page begins anew, with nothing that the one before has read.
  if (state === 'in') return <Inside key={session.value?.token} />;
  return (
    <>
      <header class="bar"><span class="brand">driftgate</span></header>
      <main class="main narrow">
        {state === 'out' && <SignIn />}
        {state === 'unknown' && <p class="muted">Loading…</p>}
        {state === 'unreachable' && <Unreachable />}
      </main>
      <Announcer />
    </>
  );
}

function Unreachable() {
  useEffect(() => {
    const timer = setInterval(() => void loadSession(), 3000);
    return () => clearInterval(timer);
  }, []);
  return <ErrorBox problem={new Problem(0, 'unreachable', 'Trying again every 3 s.')} retry={() => void loadSession()} />;
}

function Inside() {
  const at = routeOf(place.value.path);
  useFocusAfterMoves();
  useFocusKept();
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>Skip to the content</a>
      <header class="bar">
        <Link to="/" class="brand">driftgate</Link>
        <nav class="nav" aria-label="Main">
          <ul class="nav-list">
            {NAV.map(([to, text]) => <li key={to}><Link to={to} aria-current={at?.route.nav === to ? 'page' : undefined}>{text}</Link></li>)}
          </ul>
        </nav>
        <div class="bar-end">
          <button type="button" class="button small-button" aria-keyshortcuts="/" aria-label="Search" onClick={() => { overlay.value = 'search'; }}><Icon name="search" /> <span class="bar-word">Search</span></button>
          <button type="button" class="button small-button" aria-keyshortcuts="?" aria-label="Keys" onClick={() => { overlay.value = 'help'; }}>?</button>
          <Who />
        </div>
      </header>
      <Banner />
      <main class="main" id="main" tabIndex={-1}>
        {at ? (
          <Guarded key={at.route.pattern + JSON.stringify(at.params)}>
            <Lazy key={at.route.pattern} route={at.route} params={at.params} query={place.value.query} />
          </Guarded>
        ) : (
          <><PageHead title="There is no such page" /><Empty title="Nothing stands at this address"><p><Link to="/">Models and promotions</Link></p></Empty></>
        )}
      </main>
      <Overlays />
      <ActionHost />
      <Notices />
      <Announcer />
    </>
  );
}

function skip(event: MouseEvent) {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

/** After a navigation the focus goes to the new heading, once there is one, so that it is read and Tab goes on from it. */
function useFocusAfterMoves() {
  const turn = moves.value;
  useEffect(() => {
    if (turn === 0) return;
    let tries = 0;
    let frame = 0;
    const before = document.getElementById('page-title');
    const look = () => {
      const heading = document.getElementById('page-title');
      if (heading && (heading !== before || tries > 20)) {
        heading.focus({ preventScroll: true });
        announce(document.title);
      } else if (++tries < 120) frame = requestAnimationFrame(look);
    };
    frame = requestAnimationFrame(look);
    return () => cancelAnimationFrame(frame);
  }, [turn]);
}

/** When what has the focus is taken away by an action or an event, the focus stays in the content. */
function useFocusKept() {
  useEffect(() => {
    let last: Element | null = null;
    const came = (event: FocusEvent) => { last = event.target as Element; };
    // Of what left the focus and is still there, the reader moved on.
    const went = () => setTimeout(() => { if (last?.isConnected && document.activeElement === document.body) last = null; });
    const look = new MutationObserver(() => {
      if (!last || last.isConnected || document.activeElement !== document.body) return;
      last = null;
      document.getElementById('main')?.focus({ preventScroll: true });
    });
    const main = document.getElementById('main');
    main?.addEventListener('focusin', came);
    main?.addEventListener('focusout', went);
    if (main) look.observe(main, { childList: true, subtree: true });
    return () => {
      look.disconnect();
      main?.removeEventListener('focusin', came);
      main?.removeEventListener('focusout', went);
    };
  }, []);
}

function Who() {
  const who = session.value;
  if (!who) return null;
  const leave = async () => {
    const fault = await signOut();
    if (fault) {
      notify(fault);
      announce(fault);
    }
  };
  return (
    <div class="who">
      <span class="who-name" title={`Scopes: ${who.scopes.join(', ')}`}><Icon name="person" /> <span class="offscreen">Signed in as </span><Name>{who.name}</Name> <span class="muted who-scopes">{who.scopes.join(', ')}</span></span>
      <Button kind="link" onClick={() => void leave()}>Sign out</Button>
    </div>
  );
}

const loaded = new Map<string, View>();

function Lazy({ route, ...props }: ViewProps & { route: Route }) {
  const [, again] = useState(0);
  const [fault, setFault] = useState<Problem | null>(null);
  const Shown = loaded.get(route.pattern);
  useEffect(() => {
    if (Shown) return;
    let gone = false;
    route.load().then(
      (module) => {
        loaded.set(route.pattern, module.default);
        if (!gone) again((turn) => turn + 1);
      },
      (error: unknown) => { if (!gone) setFault(asProblem(error)); },
    );
    return () => { gone = true; };
  }, [route, Shown]);
  if (fault) return <Failed title={route.title} problem={new Problem(0, 'page', 'This part of the page could not be loaded. The daemon is away, or has another version than the page: load the page again.')} />;
  return Shown ? <Shown {...props} /> : <p class="muted loading" aria-busy="true">Loading…</p>;
}

function Failed({ title, problem }: { title: string; problem: Problem }) {
  return (
    <>
      <PageHead title={title} />
      <ErrorBox title="This view does not work" problem={problem} />
      <Button onClick={() => location.reload()}>Load the page again</Button>
    </>
  );
}

/** Keeps a fault of a view inside it: the rest of the page goes on. */
class Guarded extends Component<{ children: ComponentChildren }, { fault: Problem | null }> {
  override state: { fault: Problem | null } = { fault: null };

  static override getDerivedStateFromError(error: unknown) {
    return { fault: asProblem(error) };
  }

  override componentDidCatch(error: unknown) {
    console.error(error);
  }

  override render() {
    if (this.state.fault) return <Failed title="Something went wrong" problem={this.state.fault} />;
    return this.props.children;
  }
}
