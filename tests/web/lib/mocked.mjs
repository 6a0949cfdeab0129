// A mock for each test, and links to its views.
import { fixturesPath, Mock } from '../mock/server.mjs';
import { browserTest } from './browser.mjs';

const fixtures = fixturesPath();

/** A test against a mock of its own; change(world) makes it other than the stored one; host is a name for the loopback. */
export function mockTest(name, body, { change, host = '127.0.0.1', ...options } = {}) {
  browserTest(name, async () => {
    const mock = new Mock({ dist: process.env.DRIFTGATE_WEB_DIST, fixtures });
    change?.(mock.world);
    await mock.start();
    const url = mock.url.replace('127.0.0.1', host);
    return { mock, world: mock.world, url: () => url, close: () => mock.stop() };
  }, (made) => body({ ...made, url: made.url() }), options);
}

/** Every view by a name, with data of all kinds of promotion. */
export function views(world) {
  const [succeeded, slice, canary, waiting] = world.promotions;
  const path = encodeURIComponent;
  return {
    overview: '/',
    'promotion that succeeded': `/p/${succeeded.id}`,
    'promotion rejected in a slice': `/p/${slice.id}`,
    'promotion rolled back in canary': `/p/${canary.id}`,
    'promotion that waits': `/p/${waiting.id}`,
    slices: `/p/${slice.id}/slices`,
    model: `/models/${path(world.models[0].name)}`,
    contracts: '/c/',
    contract: `/c/${slice.contract}`,
    evidence: '/evidence',
    'what served when': '/evidence?show=served',
    population: '/evidence?show=population',
    exceptions: '/evidence?show=exceptions',
    sample: '/evidence?show=sample&seed=7',
    export: '/evidence?show=export',
    'all promotions': '/?show=all',
    'an opened slice': `/p/${slice.id}/slices?slice=language%3Dde`,
    'heat map': `/p/${slice.id}/slices?view=heat`,
    'differences of contracts': `/c/${slice.contract}?with=${succeeded.contract}&promotion=${slice.id}`,
    schedules: '/schedules',
    holds: '/holds',
    tokens: '/tokens',
    settings: '/settings',
    health: '/health',
  };
}
