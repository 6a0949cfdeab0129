// Which view stands at which address. A view is loaded when it is first shown; to add one, see web/README.md.

import { match, type View } from './router';

export interface Route {
  pattern: string;
  title: string;
  /** Entry of the main navigation, if any. */
  nav?: string;
  load: () => Promise<{ default: View }>;
}

export const routes: Route[] = [
  { pattern: '/', title: 'Models and promotions', nav: '/', load: () => import('../views/overview/view') },
  { pattern: '/p/:id', title: 'Promotion', nav: '/', load: () => import('../views/promotion/view') },
  { pattern: '/p/:id/slices', title: 'Slices', nav: '/', load: () => import('../views/slices/view') },
  { pattern: '/models/*name', title: 'Model', nav: '/', load: () => import('../views/model/view') },
  { pattern: '/c', title: 'Contracts', nav: '/c/', load: () => import('../views/contracts/view') },
  { pattern: '/c/*contract', title: 'Contract', nav: '/c/', load: () => import('../views/contract/view') },
  { pattern: '/evidence', title: 'Evidence', nav: '/evidence', load: () => import('../views/evidence/view') },
  { pattern: '/schedules', title: 'Schedules', nav: '/schedules', load: () => import('../views/schedules/view') },
  { pattern: '/holds', title: 'Holds and blocks', nav: '/holds', load: () => import('../views/holds/view') },
  { pattern: '/tokens', title: 'Tokens', nav: '/tokens', load: () => import('../views/tokens/view') },
  { pattern: '/settings', title: 'Settings', nav: '/settings', load: () => import('../views/settings/view') },
  { pattern: '/health', title: 'Health', nav: '/health', load: () => import('../views/health/view') },
];

/** The view that stands at a path. */
export function routeOf(path: string): { route: Route; params: Record<string, string> } | null {
  for (const route of routes) {
    const params = match(route.pattern, path);
    if (params) return { route, params };
  }
  return null;
}
