// Requests to /v1 of the host that the page came from: cookie, CSRF token, problems, and the end of a session.

import { csrfToken, renewSession, sessionEnded } from './session';

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
  const value = response.status === 204 ? undefined : type.includes('json') ? await response.json() : await response.text();
  return { value: value as T, etag: response.headers.get('ETag') };
}

/** The answer's exact text (an entry whose bytes are hashed, a signed note, a bundle). */
export async function requestText(path: string, options: RequestOptions = {}): Promise<string> {
  return (await respond(path, options)).text();
}

/** The answer's exact bytes. */
export async function requestBytes(path: string, options: RequestOptions = {}): Promise<Uint8Array> {
  return new Uint8Array(await (await respond(path, options)).arrayBuffer());
}

/** The answer itself, for what is read as it arrives; the 30 s limit does not apply. Throws as request does. */
export async function respond(path: string, options: RequestOptions & { unlimited?: boolean } = {}): Promise<Response> {
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
  try {
    return await fetch(path, {
      method, headers, body, signal: limit.signal, credentials: 'same-origin', cache: 'no-store', redirect: 'error',
    });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    const late = limit.signal.aborted;
    throw new Problem(0, 'unreachable', late ? `The daemon did not answer within ${REQUEST_LIMIT_MS / 1000} s.` : 'The daemon could not be reached.');
  } finally {
    clearTimeout(timer);
    if (!options.unlimited) options.signal?.removeEventListener('abort', stop);
  }
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text().catch(() => '');
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
