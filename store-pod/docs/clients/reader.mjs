// Reads a store with Node 18 or newer. It needs no packages.
// node reader.mjs URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

const [url, store, question, text] = process.argv.slice(2);
const { QSS_POSITION, QSS_TOKEN_FILE, QSS_DEADLINE_S = 30, QSS_LIMIT: limit = 1000 } = process.env;
// A partition is on its way to another pod, or no pod answers.
const PASSING = ["NOT_PRESENT", "NOT_ACTIVE", "STALE_EPOCH", "UNREACHABLE"];

/** Prints the row of a key, or null where the store has none. */
async function get(key) {
  const { rows, headers } = await ask(`/${encodeURIComponent(key)}`, {}, Date.now());
  console.log(rows[0] ?? null);
  console.error(`QSS_POSITION=${headers.get("Queryable-State-Position")}`);
}
/** Prints all rows of `{prefix}` or of `{from, to}`, page by page. */
async function scan(parameters) {
  for (let more = {}, started = Date.now(); more; ) {
    const { rows, ends } = await ask("", { ...parameters, limit, ...more }, started);
    for (const row of rows) console.log(row);
    const failed = ends.find((one) => one.failure);
    if (!failed || rows.length) started = Date.now();
    if (failed) await wait(failed.failure, started); // The cursor asks for it again.
    more = ends.at(-1).cursor && { cursor: ends.at(-1).cursor }; // That of the last partition.
  }
}
/** The lines of an answer. A row stays a text: numbers of JavaScript lose digits beyond 2^53. */
function linesOf(text) {
  const ofKind = (isRow) => text.trim().split("\n").filter((line) => line.startsWith('{"key":') === isRow);
  return { rows: ofKind(true), ends: ofKind(false).map((line) => JSON.parse(line)) };
}
async function ask(path, parameters, started) {
  const query = new URLSearchParams({ ...parameters, ...(QSS_POSITION && { positionBound: QSS_POSITION }) });
  for (;;) {
    const headers = { Accept: "application/x-ndjson, */*;q=0.5" };
    if (QSS_TOKEN_FILE) headers.Authorization = `Bearer ${(await readFile(QSS_TOKEN_FILE, "utf8")).trim()}`;
    const signal = AbortSignal.timeout(Math.max(1000, started + 1000 * QSS_DEADLINE_S - Date.now()));
    const found = await fetch(`${url}/state/stores/${store}${path}?${query}`, { headers, signal })
      .then(async (one) => ({ ...linesOf(await one.text()), headers: one.headers }))
      .catch((error) => ({ ends: [{ code: "UNREACHABLE", detail: `${error.cause ?? error}` }] }));
    const [failure] = found.ends;
    if (!failure?.code || failure.code === "KEY_NOT_FOUND") return found;
    await wait(failure, started);
  }
}
/** Waits before the next try, longer each time. Throws if the failure lasts or the deadline is near. */
async function wait({ code, reason = code, detail, message = detail, retryAfterMs }, started) {
  const waited = Date.now() - started;
  const least = retryAfterMs ?? (PASSING.includes(reason) ? 100 : Infinity);
  const longer = Math.max(least, Math.min(waited, 1000));
  if (waited + longer > 1000 * QSS_DEADLINE_S) throw new Error(`${reason}: ${message}`);
  if (waited > 1000) console.warn(`waiting for store ${store}: ${reason}: ${message}`);
  await pause(longer);
}

await (question === "get" ? get(text) : scan({ prefix: text })).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
