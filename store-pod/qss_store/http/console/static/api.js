// Sends requests to the pod that the page came from, and says failures as sentences.
// The token is kept in this module alone: it is in no address, no cookie and no storage.

let token = "";
// Where other programs find the store. Behind a program that forwards a port this is not the page's own address.
let place = { origin: location.origin, kubectl: [], asksToken: null };
const listeners = new Set();
const TIMEOUT_MS = 15000;
const POLLED = "It may be starting again; the page keeps asking.";

export class Failure extends Error {
  constructor(sentence, { status = 0, code = "", detail = "" } = {}) {
    super(sentence);
    this.status = status;
    this.code = code;
    this.detail = detail;
  }
}

export const hasToken = () => token !== "";
// Whether other programs need a token. The session of a program that forwards a port is none.
export const asksToken = () => place.asksToken ?? hasToken();
export const placeOfStore = () => place;

export function setToken(text) {
  token = text.trim().replace(/^Bearer\s+/i, "");
  for (const listener of listeners) listener();
}

export function onToken(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

// A program that forwards a port gives the page a code in the fragment. The page exchanges it once for the
// session of that program, and takes it out of the address at once.
export async function redeemCode() {
  const code = /^#code=([A-Za-z0-9_-]+)$/.exec(location.hash)?.[1];
  if (!code) return;
  history.replaceState(null, "", location.pathname + "#/overview");
  const answer = await fetch("session", { method: "POST", body: code });
  if (!answer.ok) return;
  const { session, pod, kubectl, token: asks } = await answer.json();
  place = { origin: pod ?? location.origin, kubectl: kubectl ?? [], asksToken: asks ?? null };
  setToken(session);
}

export async function ask(path, { method = "GET", body, headers = {}, accept = "application/json", timeoutMs = TIMEOUT_MS, advice = POLLED } = {}) {
  const sent = { Accept: accept, ...headers };
  if (token) sent.Authorization = `Bearer ${token}`;
  if (body !== undefined) sent["Content-Type"] = "application/json";
  const started = performance.now();
  let answer, text;
  try {
    answer = await fetch(path, {
      method, body, headers: sent, cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(timeoutMs),
    });
    text = await answer.text();
  } catch (error) {
    const why = error.name === "TimeoutError" ? `did not answer within ${timeoutMs / 1000} s` : "does not answer";
    throw new Failure(`The pod at ${location.host} ${why}. ${advice}`);
  }
  const ms = performance.now() - started;
  if (answer.status === 304) return { status: 304, headers: answer.headers, ms };
  const data = parsed(text);
  if (!answer.ok) throw refusal(answer.status, data);
  return { status: answer.status, headers: answer.headers, data, text, ms };
}

const SENTENCES = {
  401: (detail) => (token ? `The store does not accept this token: ${detail}.` : `This store asks for a token: ${detail}.`),
  403: (detail) => `This caller may not ask that: ${detail}.`,
};
const OF_CODES = {
  MALFORMED_CURSOR: (detail) => `The page can go on no further, the cursor is not valid any more: ${detail}. Ask again from the first page.`,
  KEY_NOT_FOUND: (detail) => `The key is not in the store: ${detail}.`,
};

function refusal(status, problem) {
  const code = problem?.code ?? "";
  const detail = String(problem?.detail ?? `status ${status}`).replace(/\.$/, "");
  const told = OF_CODES[code] ?? SENTENCES[status];
  const sentence = told ? told(detail) : `${detail[0].toUpperCase()}${detail.slice(1)}${code ? ` (${code})` : ""}.`;
  return new Failure(sentence, { status, code, detail });
}

function parsed(text) {
  try {
    return parseJson(text);
  } catch {
    return null;
  }
}

// Whole numbers beyond 2^53 stay exact where the browser tells their source.
export const parseJson = (text) =>
  JSON.parse(text, (_, value, context) =>
    typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value);

export const toJson = (value, indent) =>
  JSON.stringify(value, (_, one) => (typeof one === "bigint" ? (JSON.rawJSON?.(one.toString()) ?? Number(one)) : one), indent);

export const segment = (text) => encodeURIComponent(text);
