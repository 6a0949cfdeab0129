// Requests to /v1 of the host that the page came from: cookie, CSRF token, problems, and the end of a session.

import { csrfToken, renewSession, session, sessionEnded } from './session';

/** An RFC 9457 problem, or what stands for one when no answer came (status 0, code `unreachable`). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    readonly detail: string,
    readonly errors: { detail: string; pointer?: string; where?: string }[] = [],
  ) {
    super(detail);
    this.name = 'Problem';
  }

  /** Whether the daemon could not be reached or could not answer: asking again later may help. */
  get away(): boolean {
    return this.status === 0 || this.status === 502 || this.status === 503 || this.status === 504;
  }
}

export interface RequestOptions {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE';
  /** Sent as JSON. */
  body?: unknown;
  /** Sent as it is, as application/yaml (contracts). */
  yaml?: string;
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

export interface Answer<T> {
  value: T;
  etag: string | null;
}

const REQUEST_LIMIT_MS = 30_000;

/** Asks and gives the JSON of the answer; throws a Problem otherwise, an AbortError when the caller's signal fires. */
export async function request<T>(path: string, options: RequestOptions = {}): Promise<T> {
  return (await requestAnswer<T>(path, options)).value;
}

/** As request, with the ETag. */
export async function requestAnswer<T>(path: string, options: RequestOptions = {}): Promise<Answer<T>> {
  const response = await respond(path, options);
  const type = response.headers.get('Content-Type') ?? '';
  const value = await bodyOf(response, async () => (response.status === 204 ? undefined : type.includes('json') ? response.json() : response.text()));
  return { value: value as T, etag: response.headers.get('ETag') };
}

/** The answer's exact text (an entry whose bytes are hashed, a signed note, a bundle). */
export async function requestText(path: string, options: RequestOptions = {}): Promise<string> {
  const response = await respond(path, options);
  return bodyOf(response, () => response.text());
}

/** The answer's exact bytes. */
export async function requestBytes(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
  const response = await respond(path, options);
  return new Uint8Array(await bodyOf(response, () => response.arrayBuffer()));
}

/** The answer itself, for what is read as it arrives: then it must be `unlimited`, since the 30 s hold for the body too.
 * Throws as request does. */
export async function respond(path: string, options: RequestOptions & { unlimited?: boolean } = {}): Promise<Response> {
  const who = session.value?.token;
  const response = await attempt(path, options);
  if (response.ok) return response;
  const problem = await problemOf(response);
  if (problem.status === 401) {
    sessionEnded(problem.detail);
    throw problem;
  }
  // Another tab may have signed in anew, which leaves this one with an old CSRF token. The request had no effect.
  const writes = !!options.method && options.method !== 'GET' && options.method !== 'HEAD';
  if (problem.status === 403 && writes && (await renewSession())) {
    // Nothing that one person decided is sent in the name of another.
    if (session.value?.token !== who) {
      throw new Problem(409, 'other_session', 'Another person has signed in in this browser. Nothing was sent. Look again.');
    }
    const again = await attempt(path, options);
    if (again.ok) return again;
    throw await problemOf(again);
  }
  throw problem;
}

async function attempt(path: string, options: RequestOptions & { unlimited?: boolean }): Promise<Response> {
  const method = options.method ?? 'GET';
  const headers: Record<string, string> = { Accept: 'application/json, text/plain, */*', ...options.headers };
  let body: string | undefined;
  if (options.yaml !== undefined) {
    headers['Content-Type'] = 'application/yaml';
    body = options.yaml;
  } else if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
    body = JSON.stringify(options.body);
  }
  const csrf = csrfToken();
  if (csrf && method !== 'GET' && method !== 'HEAD') headers['X-CSRF-Token'] = csrf;
  const limit = new AbortController();
  const timer = options.unlimited ? undefined : setTimeout(() => limit.abort(), REQUEST_LIMIT_MS);
  const stop = () => limit.abort();
  options.signal?.addEventListener('abort', stop, { once: true });
  if (options.signal?.aborted) limit.abort();
  const release = () => {
    clearTimeout(timer);
    if (!options.unlimited) options.signal?.removeEventListener('abort', stop);
  };
  const explain = (error: unknown) => {
    if (options.signal?.aborted) return error;
    const late = limit.signal.aborted;
    return new Problem(0, 'unreachable', late ? `The daemon did not answer within ${REQUEST_LIMIT_MS / 1000} s.` : 'The daemon could not be reached.');
  };
  try {
    const response = await fetch(path, {
      method, headers, body, signal: limit.signal, credentials: 'same-origin', cache: 'no-store', redirect: 'error',
    });
    bodies.set(response, { release, explain });
    return response;
  } catch (error) {
    release();
    throw explain(error);
  }
}

/** What ends the limits of an answer, and what says why its body did not come. */
const bodies = new WeakMap<Response, { release: () => void; explain: (error: unknown) => unknown }>();

/** Reads the body of an answer, under the limits of its request. */
async function bodyOf<T>(response: Response, read: () => Promise<T>): Promise<T> {
  const limits = bodies.get(response);
  try {
    return await read();
  } catch (error) {
    throw error instanceof SyntaxError || !limits ? error : limits.explain(error);
  } finally {
    limits?.release();
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await bodyOf(response, () => response.text()).catch(() => '');
  try {
    const body = JSON.parse(text) as Partial<Problem> & { detail?: string };
    return new Problem(response.status, String(body.code ?? 'unknown'), String(body.detail ?? response.statusText),
                       Array.isArray(body.errors) ? body.errors : []);
  } catch {
    return new Problem(response.status, 'unknown', text.slice(0, 300) || response.statusText || `status ${response.status}`);
  }
}

/** Any error as a Problem, so that it can be shown. */
export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  return new Problem(0, 'page', error instanceof Error ? error.message : String(error));
}

/** `path?a=b` of the members that are neither empty nor undefined. */
export function withQuery(path: string, query: Record<string, string | number | boolean | null | undefined>): string {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== '' && value !== false) parts.set(name, String(value));
  }
  const text = parts.toString();
  return text ? `${path}?${text}` : path;
}
