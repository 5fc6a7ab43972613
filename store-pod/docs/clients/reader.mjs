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
  const { answer, headers } = await ask(`/${encodeURIComponent(key)}`, {}, Date.now());
  console.log(JSON.stringify(answer.code ? null : answer));
  console.error(`QSS_POSITION=${headers.get("Queryable-State-Position")}`);
}
/** Prints all rows of `{prefix}` or of `{from, to}`, page by page. */
async function scan(parameters) {
  for (let more = {}, started = Date.now(); more; ) {
    const { answer } = await ask("", { ...parameters, limit, ...more }, started);
    for (const row of answer.rows) console.log(JSON.stringify(row));
    const failed = Object.values(answer.partitions).find((one) => one.failure);
    if (!failed || answer.rows.length) started = Date.now();
    if (failed) await wait(failed.failure, started); // The cursor asks for it again.
    more = answer.cursor && { cursor: answer.cursor };
  }
}
async function ask(path, parameters, started) {
  const query = new URLSearchParams(parameters);
  if (QSS_POSITION) query.set("positionBound", QSS_POSITION);
  for (;;) {
    const token = QSS_TOKEN_FILE && (await readFile(QSS_TOKEN_FILE, "utf8")).trim();
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const signal = AbortSignal.timeout(Math.max(1000, started + 1000 * QSS_DEADLINE_S - Date.now()));
    const found = await fetch(`${url}/state/stores/${store}${path}?${query}`, { headers, signal })
      .then(async (one) => ({ answer: await one.json(), headers: one.headers }))
      .catch((error) => ({ answer: { code: "UNREACHABLE", detail: `${error.cause ?? error}` } }));
    if (!found.answer.code || found.answer.code === "KEY_NOT_FOUND") return found;
    await wait(found.answer, started);
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
