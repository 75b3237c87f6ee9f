// Requests to the server besides the socket. The token is kept in localStorage, which belongs to this port only:
// a cookie would also go to other programs of this machine.

const TOKEN = "sm.token";

export const token = () => localStorage.getItem(TOKEN);
export const forget = () => localStorage.removeItem(TOKEN);

export class RequestFailed extends Error {
  constructor(message, hint = null) {
    super(message);
    this.hint = hint;
  }
}

async function answer(response) {
  const body = await response.json().catch(() => null);
  if (response.ok) return body;
  const problem = body?.error ?? body ?? {};
  throw new RequestFailed(problem.message ?? problem.words ?? `the server answered ${response.status}`, problem.hint);
}

async function reach(path, options) {
  try {
    return await fetch(path, { ...options, cache: "no-store", credentials: "omit", redirect: "error" });
  } catch {
    throw new RequestFailed("no connection to sm web");
  }
}

/** Trade the code of a link for a token. */
export async function login(code) {
  const headers = { "Content-Type": "application/json" };
  const body = JSON.stringify({ code });
  const { token: got } = await answer(await reach("/login", { method: "POST", headers, body }));
  localStorage.setItem(TOKEN, got);
}

const authorization = () => ({ Authorization: `Bearer ${token()}` });

function ask(path, query, signal) {
  const given = Object.entries(query).filter(([, value]) => value != null);
  const search = given.length ? `?${new URLSearchParams(given)}` : "";
  return reach(`/api${path}${search}`, { headers: authorization(), signal });
}

/** The JSON answer of a route of the daemon, such as `/v1/usage`. `signal`: of an AbortController. */
export const get = async (path, query = {}, signal = undefined) => answer(await ask(path, query, signal));

/** The changes of a session since `start`, or since the last `review`. `loading`: an AbortController. */
export const changesSince = (session, since, loading) => get(changesPath(session), { since }, loading.signal);
export const changesPath = (session) => `/changes/${encodeURIComponent(session)}`;

export async function post(path, content) {
  const headers = { ...authorization(), "Content-Type": "application/json" };
  return answer(await reach(`/api${path}`, { method: "POST", headers, body: JSON.stringify(content) }));
}

/** A page of a list of the daemon, the parameter `before` of the next one, and the number of entries after the page. */
export async function page(path, query) {
  const response = await ask(path, query);
  const { headers } = response;
  return { entries: await answer(response), next: headers.get("SM-Next"), left: Number(headers.get("SM-Left") ?? 0) };
}
