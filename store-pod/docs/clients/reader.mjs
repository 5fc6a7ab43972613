// Reads a store with Node 18 or newer. It needs no packages.
// node reader.mjs URL STORE get KEY, or scan PREFIX; QSS_POSITION is the position to begin with.
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

const MOVING = ["NOT_PRESENT", "NOT_ACTIVE", "STALE_EPOCH"]; // A partition is on its way to another pod.

export class StoreReader {
  /** `position` is the one of the last row: the next answer is at least as new. */
  constructor(url, store, { tokenFile, position, deadlineMs = 30_000 } = {}) {
    Object.assign(this, { url, store, tokenFile, position, deadlineMs });
  }
  /** The row of a key, or null where the store has none. */
  async get(key) {
    const { answer, position } = await this.#ask(`/${encodeURIComponent(key)}`, {}, Date.now());
    this.position = position;
    return answer.code === "KEY_NOT_FOUND" ? null : answer;
  }
  /** All rows of `{prefix}` or of `{from, to}`, page by page. */
  async *scan(parameters, limit = 1000) {
    let more = {}; // The cursor of the page before.
    for (let started = Date.now(); more; ) {
      const { answer } = await this.#ask("", { ...parameters, limit, ...more }, started);
      yield* answer.rows;
      const failed = Object.values(answer.partitions).find((one) => one.failure);
      if (!failed || answer.rows.length) started = Date.now();
      if (failed) await this.#wait(failed.failure, started); // The cursor asks for it again.
      more = answer.cursor && { cursor: answer.cursor };
    }
  }
  async #ask(path, parameters, started) {
    const query = new URLSearchParams(parameters);
    if (this.position) query.set("positionBound", this.position);
    const address = `${this.url}/state/stores/${this.store}${path}?${query}`;
    for (;;) {
      const token = this.tokenFile && (await readFile(this.tokenFile, "utf8")).trim();
      const headers = token ? { Authorization: `Bearer ${token}` } : {};
      const signal = AbortSignal.timeout(Math.max(1000, started + this.deadlineMs - Date.now()));
      const found = await fetch(address, { headers, signal })
        .then(async (one) => ({
          answer: await one.json(),
          position: one.headers.get("Queryable-State-Position"),
        }))
        .catch((error) => ({
          answer: { code: "UNREACHABLE", detail: `${error.cause ?? error}`, retryAfterMs: 100 },
        }));
      if (!found.answer.code || found.answer.code === "KEY_NOT_FOUND") return found;
      await this.#wait(found.answer, started);
    }
  }
  /** Waits before the next try. Throws if the failure lasts or the deadline is near. */
  async #wait({ code, reason = code, detail, message = detail, retryAfterMs }, started) {
    const waited = Date.now() - started;
    const longer = Math.max(retryAfterMs ?? 100, Math.min(waited, 1000)); // Pauses grow up to a second.
    const passes = retryAfterMs !== undefined || MOVING.includes(reason);
    if (!passes || waited + longer > this.deadlineMs)
      throw Object.assign(new Error(`${reason}: ${message}`), { code: reason });
    if (waited > 1000) console.warn(`waiting for store ${this.store}: ${reason}: ${message}`);
    await pause(longer);
  }
}

const [, program, url, store, what, text] = process.argv;
if (program?.endsWith("reader.mjs")) {
  const { QSS_POSITION: position, QSS_TOKEN_FILE: tokenFile, QSS_DEADLINE_S = 30, QSS_LIMIT = 1000 } = process.env;
  const reader = new StoreReader(url, store, { position, tokenFile, deadlineMs: 1000 * QSS_DEADLINE_S });
  try {
    if (what === "get") console.log(JSON.stringify(await reader.get(text)));
    else for await (const row of reader.scan({ prefix: text }, QSS_LIMIT)) console.log(JSON.stringify(row));
    if (what === "get") console.error(`QSS_POSITION=${reader.position}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
