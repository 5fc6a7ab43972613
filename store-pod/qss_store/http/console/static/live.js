// Follows a key or a prefix: asks for a key by its ETag, and for other rows once a batch has committed.

import { html, useEffect, useRef, useState } from "./vendor/htm-preact-3.1.1.js";
import { Failure, ask, segment, toJson } from "./api.js";
import { Table } from "./answers.js";
import { refusalOf, requestOf } from "./questions.js";
import { Marked, Told, Waiting, clock, linkTo, plural, time, useTimes } from "./formats.js";
import { Timeline } from "./timeline.js";

const EVERY_MS = 1000;
const ROWS_EVERY_MS = 2000;
const ROWS_MAX = 100;
const CHANGES_MAX = 100;
const SHOWN_MAX = 200; // Characters of a key, and of a value, in a sentence: the page keeps 100 of them.
const TIMED = { Window: "windowsOf", Session: "sessionsOf", Versioned: "versions" }; // The kind of question about a key.

const identity = (row) => toJson([row.key, row.windowStart ?? row.sessionStart ?? row.validFrom ?? null, row.sessionEnd ?? null, row.sequence ?? null]);

// The question, and whether its answers have an ETag. A key that no address can have is asked in a body, without one.
function questionOf(mode, text, partition, definition) {
  const { name, type } = definition;
  if (mode === "prefix") return { path: `/state/stores/${segment(name)}?${text && `prefix=${segment(text)}&`}limit=${ROWS_MAX}`, hasTag: false };
  if (type in TIMED) return { ...requestOf(TIMED[type], { key: text, partition, order: "DESCENDING", limit: String(ROWS_MAX) }, definition), hasTag: false };
  const request = requestOf("get", { key: text, partition }, definition);
  return { ...request, hasTag: request.method === "GET" };
}

export function Live({ given, feed }) {
  const { definition } = feed.metadata;
  const mayPrefix = !(definition.type in TIMED);
  const mode = mayPrefix && given.get("mode") === "prefix" ? "prefix" : "key";
  const followed = given.get("of");
  const refusal = definition.type === "Versioned" ? refusalOf(followed) : null;
  const [text, setText] = useState(followed ?? "");
  const [chosen, setChosen] = useState(mode);
  const partition = mode === "key" ? given.get("partition") ?? "" : "";
  const [number, setNumber] = useState(partition);
  useEffect(() => {
    setText(followed ?? "");
    setChosen(mode);
    setNumber(partition);
  }, [followed, mode, partition]);
  const submit = (event) => {
    event.preventDefault();
    location.hash = linkTo("live", `mode=${chosen}&of=${segment(text)}${number && chosen === "key" ? `&partition=${number}` : ""}`);
  };
  return html`
    <form class="card row" onSubmit=${submit} aria-label="What to follow">
      <label class="field">Follow <select name="mode" value=${chosen} onChange=${(event) => setChosen(event.target.value)}>
        <option value="key">a key</option>${mayPrefix && html`<option value="prefix">a prefix</option>`}</select></label>
      <label class="field wide">${chosen === "prefix" ? "Prefix" : "Key"} <input name="of" required=${chosen === "key"} placeholder=${chosen === "prefix" ? "empty: the first rows of the store" : ""} value=${text} autocomplete="off" spellcheck="false" onInput=${(event) => setText(event.target.value)} /></label>
      ${definition.partitioner === "Explicit" && chosen === "key" && html`<label class="field">Partition <input name="partition" type="number" min="0" required value=${number} onInput=${(event) => setNumber(event.target.value)} /></label>`}
      <button class="primary">Follow</button>
    </form>
    ${refusal && html`<p class="failure" role="alert">${refusal}</p>`}
    ${followed !== null && !refusal && html`<${Followed} key=${`${mode}:${partition}:${followed}`} mode=${mode} text=${followed} partition=${partition} definition=${definition} state=${stateOf(feed)} />`}`;
}

// The sequences of all partitions: equal ones are equal rows. READ_UNCOMMITTED shows rows before their sequence.
function stateOf({ metadata, pods }) {
  if (metadata.definition.isolation !== "READ_COMMITTED") return null;
  const newest = {};
  for (const { replicas } of Object.values(pods)) for (const [number, one] of Object.entries(replicas)) newest[number] = Math.max(newest[number] ?? 0, one.sequence ?? 0);
  return toJson(newest);
}

function Followed({ mode, text, partition, definition, state }) {
  const [shown, setShown] = useState({ rows: null, hasMore: false, changes: [], failure: null, asked: 0, unchanged: 0, isAsking: false });
  const held = useRef({ etag: null, state: null, body: null, rows: new Map(), hasMore: false, changed: new Map() });
  const [isOn, setOn] = useState(true);
  const newest = useRef(state);
  newest.current = state;

  useEffect(() => {
    if (!isOn) return undefined;
    let timer = null;
    let isOver = false;
    const round = async () => {
      const question = questionOf(mode, text, partition, definition);
      setShown((old) => ({ ...old, isAsking: true }));
      const result = await look(question, newest.current, held.current);
      if (isOver) return;
      setShown((old) => ({
        isAsking: false, rows: result.rows ?? old.rows, hasMore: result.hasMore ?? old.hasMore, failure: result.failure ?? null, asked: old.asked + (result.isIdle ? 0 : 1), unchanged: old.unchanged + (result.isSame ? 1 : 0),
        changes: [...(result.changes ?? []), ...old.changes].slice(0, CHANGES_MAX),
      }));
      if (!document.hidden) timer = setTimeout(round, question.hasTag ? EVERY_MS : ROWS_EVERY_MS);
    };
    const wake = () => {
      clearTimeout(timer);
      if (!document.hidden) round();
    };
    document.addEventListener("visibilitychange", wake);
    round();
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", wake);
    };
  }, [isOn]);

  const { rows, changes, failure } = shown;
  return html`
    <section class="card" aria-label="The followed rows">
      <p><b>${text === "" ? (mode === "prefix" ? "The first rows of the store" : "The empty key") : html`<${Marked} text=${text} />`}</b> <button onClick=${() => setOn(!isOn)} aria-pressed=${isOn ? "false" : "true"}>${isOn ? "Pause" : "Go on"}</button>
        <span class="quiet"> asked ${plural(shown.asked, "time")}, ${shown.unchanged} without a new state</span></p>
      <${Told} failure=${failure} />
      ${isOn && shown.isAsking && html`<${Waiting} />`}
      ${shown.hasMore && html`<p class="quiet">The ${isNewestFirst(definition) ? "newest" : "first"} ${rows.length} rows; more are there, which the page does not follow.</p>`}
      ${rows?.length > 0 && isNewestFirst(definition) && html`<${Newest} row=${rows[0]} /><${Timeline} rows=${rows} />`}
      ${rows && (rows.length ? html`<${Table} rows=${rows} changed=${(row) => held.current.changed.get(identity(row)) ?? ""} />` : html`<p class="quiet">Nothing is there now.</p>`)}
    </section>
    <section class="card" aria-labelledby="changes"><h2 id="changes">Changes</h2>
      <ol class="events" aria-live="polite">${changes.map((one) => html`<li key=${one.id}><time>${clock(one.at)}</time> <${Marked} text=${one.text} /></li>`)}</ol>
      ${changes.length === 0 && html`<p class="quiet">None since the page follows.</p>`}
    </section>`;
}

const isNewestFirst = ({ type }) => type in TIMED;

// The newest window, session or version in a line of its own; an ended version is no value of now.
function Newest({ row }) {
  useTimes();
  const value = html`<b class="figure"><${Marked} text=${typeof row.value === "string" ? row.value : toJson(row.value)} /></b>`;
  if (row.validFrom === undefined) return html`<p>The newest: ${value} from ${time(row.windowStart ?? row.sessionStart)} to ${time(row.windowEnd ?? row.sessionEnd)}</p>`;
  if (row.validTo === null) return html`<p>Now: ${value} since ${time(row.validFrom)}</p>`;
  return html`<p>No value now; the last one: ${value} from ${time(row.validFrom)} until ${time(row.validTo)}</p>`;
}

let nextChange = 0;

async function look({ path, method, body, hasTag }, state, held) {
  if (!hasTag && state !== null && state === held.state) return { isIdle: true };
  let answer;
  try {
    answer = await ask(path, { method, body, headers: hasTag && held.etag ? { "If-None-Match": held.etag } : {} });
  } catch (failure) {
    if (failure.code !== "KEY_NOT_FOUND") return { failure };
    return compared([], false, held);
  }
  if (answer.status === 304) return { isSame: true };
  // Rows of a partition that gave no answer are not gone: the page keeps what it has, and asks again.
  const partitions = Object.entries(answer.data.partitions ?? {});
  const failed = partitions.filter(([, part]) => part.failure);
  if (failed.length) {
    const told = failed.map(([number, { failure }]) => `Partition ${number} did not answer: ${failure.message} (${failure.reason}).`);
    return { failure: new Failure(`${told.join(" ")} The rows are those of before; the page keeps asking.`) };
  }
  held.etag = answer.headers.get("ETag");
  // A standby may lack batches that the status has told: the page asks again, also where no batch follows.
  const isBehind = state !== null && partitions.some(([number, part]) => part.sequence < JSON.parse(state)[number]);
  held.state = isBehind ? null : state;
  return compared(rowsOf(answer.data), Boolean(answer.data.cursor), held);
}

// A question in a body has a result for each key, with where it was looked up.
function rowsOf(data) {
  if (!data.results) return data.rows ?? [data];
  return data.results.filter((one) => one.status === "FOUND").map(({ partition, status, ...row }) => row);
}

// The rows, and a sentence for each that is new, changed or gone since the last look.
function compared(rows, hasMore, held) {
  const before = held.rows;
  const isFirst = held.body === null;
  const body = toJson([rows, hasMore]);
  if (body === held.body) return { isSame: true };
  const after = new Map(rows.map((row) => [identity(row), row]));
  const hasCome = held.hasMore ? withLater(after, before) : () => true;
  const isGone = hasMore ? withLater(before, after) : () => true;
  const flashed = held.changed;
  Object.assign(held, { body, rows: after, hasMore, changed: new Map([...flashed].filter(([id]) => after.has(id))) });
  const changes = [];
  const say = (row, words) => changes.push({ id: nextChange++, at: Date.now(), text: `${nameOf(row)}: ${words}` });
  for (const [id, row] of after) {
    const was = before.get(id);
    if (!was && !isFirst) say(row, `${hasCome(id) ? "new" : "among the first rows now"}, ${short(toJson(row.value))}`);
    else if (was && toJson(was) !== toJson(row)) say(row, changeOf(was, row));
    else continue;
    held.changed.set(id, flashed.get(id) === "flash1" ? "flash0" : "flash1");
  }
  for (const [id, row] of before) if (!after.has(id)) say(row, isGone(id) ? "gone" : `behind the first ${rows.length} rows now`);
  return { rows, hasMore, changes };
}

// A page has the first rows in their order. Where another page has a later row of this one, it would have an earlier one, too.
function withLater(page, other) {
  const ids = [...page.keys()];
  const last = ids.findLastIndex((id) => other.has(id));
  const sure = new Set(ids.slice(0, last + 1));
  return (id) => sure.has(id);
}

function changeOf(was, row) {
  if (toJson(was.value) !== toJson(row.value)) return `${short(toJson(was.value))} → ${short(toJson(row.value))}`;
  return was.validTo === row.validTo ? "written again" : `valid until ${row.validTo === null ? "now" : time(row.validTo)}`;
}

const short = (text) => (text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text);

// The key with its time. A session that has grown has its old start; where a store keeps duplicates their sequences tell them apart.
function nameOf(row) {
  const start = row.windowStart ?? row.sessionStart ?? row.validFrom;
  const key = short(typeof row.key === "string" ? row.key : toJson(row.key));
  if (start === undefined) return key;
  const end = row.sessionEnd === undefined ? "" : ` to ${time(row.sessionEnd)}`;
  return `${key} at ${time(start)}${end}${row.sequence === undefined ? "" : `, sequence ${row.sequence}`}`;
}
