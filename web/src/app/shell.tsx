import { useEffect, useState } from 'preact/hooks';
import { signedState } from '../api/session';
import { match, place, type View, type ViewProps } from './router';
import { routes } from './routes';

export function Shell() {
  return <main class="main">{signedState.value === 'in' ? <Current /> : <p>Signed out.</p>}</main>;
}

function Current() {
  const { path, query } = place.value;
  for (const route of routes) {
    const params = match(route.pattern, path);
    if (params) return <Lazy key={route.pattern} load={route.load} params={params} query={query} />;
  }
  return <p>There is no such page.</p>;
}

function Lazy({ load, ...props }: ViewProps & { load: () => Promise<{ default: View }> }) {
  const [Shown, setShown] = useState<View | null>(null);
  useEffect(() => {
    load().then((module) => setShown(() => module.default));
  }, [load]);
  return Shown ? <Shown {...props} /> : <p class="muted">Loading…</p>;
}
