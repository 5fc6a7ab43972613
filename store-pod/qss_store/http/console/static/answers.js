// Shows an answer: rows as a table, on a time axis or as JSON; each partition's state; how it was answered.

import { html, useMemo, useState } from "./vendor/htm-preact-3.1.1.js";
import { toJson } from "./api.js";
import { Timeline, spansOf } from "./timeline.js";
import { Marked, count, duration, isTimeColumn, plural, time } from "./formats.js";

const COLUMNS_MAX = 24;
const JSON_SHOWN = 100000;
const ROWS_SHOWN = 1000; // The page draws them anew each second; with 10 000 it hangs.

// The answer of any request in one form: {rows, partitions: [[number, part]], cursor, scalar}.
export function normalized(answer) {
  const { data, headers } = answer;
  const partitions = Object.entries(data.partitions ?? data.partitionResults ?? {});
  if (data.partitionResults) return { rows: partitions.flatMap(([number, part]) => rowsOf(number, part)), partitions, cursor: data.cursor ?? null };
  if (data.rows) return { rows: data.rows, partitions, cursor: data.cursor };
  if (data.results) return { rows: data.results, partitions, cursor: null };
  if ("count" in data) return { rows: [{ count: data.count, exact: data.exact }], partitions, cursor: null };
  const { executionInfo, ...row } = data;
  const part = {
    servedBy: headers.get("Queryable-State-Served-By"), sequence: headers.get("Queryable-State-Sequence"), token: headers.get("Queryable-State-Position"), executionInfo,
  };
  return { rows: [row], partitions: [[headers.get("Queryable-State-Partition"), part]], cursor: null };
}

function rowsOf(number, { result, failure }) {
  if (failure || result === undefined || result === null) return [];
  if (Array.isArray(result)) return result;
  return [typeof result === "object" ? { partition: Number(number), ...result } : { partition: Number(number), result }];
}

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);

// The columns of rows; members of values that are JSON objects become columns of their own, in the place of the value.
function columnsOf(rows) {
  const names = new Set(rows.flatMap((row) => Object.keys(row)));
  const members = new Set(rows.flatMap((row) => (isObject(row.value) ? Object.keys(row.value) : [])));
  const hasOther = rows.some((row) => "value" in row && !isObject(row.value));
  return [...names].flatMap((name) => {
    if (name !== "value") return [[name, (row) => row[name]]];
    const own = hasOther ? [[name, (row) => (isObject(row.value) ? undefined : row.value)]] : [];
    return [...own, ...[...members].map((member) => [`value.${member}`, (row) => (isObject(row.value) ? row.value[member] : undefined)])];
  });
}

export function cell(name, value) {
  if (value === undefined) return "";
  if (value === null) return isTimeColumn(name) ? "-" : "null";
  if (isTimeColumn(name)) return time(value);
  return typeof value === "string" ? value : toJson(value);
}

const TABS = { table: "Table", time: "On a time axis", json: "JSON", parts: "Partitions", how: "How it was answered" };

export function Answer({ answer }) {
  const [wanted, setTab] = useState("table");
  const found = normalized(answer);
  const shown = found.rows.slice(0, ROWS_SHOWN);
  const hasTimes = spansOf(shown).length > 0;
  const hasHow = found.partitions.some(([, part]) => part.executionInfo);
  const tabs = Object.keys(TABS).filter((name) => (name !== "time" || hasTimes) && (name !== "how" || hasHow) && (name !== "parts" || found.partitions.length));
  const tab = tabs.includes(wanted) ? wanted : "table";
  const failed = found.partitions.filter(([, part]) => part.failure);
  const absent = answer.data.results?.filter((one) => one.status === "ABSENT").length ?? 0;
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length];
    setTab(next);
    document.getElementById(`tab-${next}`)?.focus();
  };
  return html`
    <p role="status">${plural(found.rows.length - absent, "row")} from ${plural(found.partitions.length || 1, "partition")}${absent ? `, ${plural(absent, "key")} absent,` : ""} in ${duration(answer.ms)}</p>
    ${failed.map(([number, { failure }]) => html`<p class="failure" role="alert">Partition ${number} did not answer: ${failure.message} (${failure.reason}).</p>`)}
    <div class="tabs" role="tablist" onKeyDown=${move}>${tabs.map((name) => html`
      <button role="tab" id=${`tab-${name}`} aria-selected=${name === tab ? "true" : "false"} aria-controls="answer-panel" tabindex=${name === tab ? 0 : -1} onClick=${() => setTab(name)}>${TABS[name]}</button>`)}</div>
    <div role="tabpanel" id="answer-panel" aria-labelledby=${`tab-${tab}`}>
      ${["table", "time"].includes(tab) && found.rows.length > ROWS_SHOWN && html`<p class="quiet">The first ${count(ROWS_SHOWN)} of ${count(found.rows.length)} rows; JSON has all of them.</p>`}
      ${tab === "table" && html`<${Table} rows=${shown} />`}
      ${tab === "time" && html`<${Timeline} rows=${shown} />`}
      ${tab === "json" && html`<${Json} key=${answer.ms} data=${answer.data} />`}
      ${tab === "parts" && html`<${Parts} partitions=${found.partitions} />`}
      ${tab === "how" && found.partitions.map(([number, part]) => part.executionInfo && html`<${Waterfall} key=${number} number=${number} part=${part} />`)}
    </div>`;
}

function Json({ data }) {
  const [isWhole, setWhole] = useState(false);
  const text = useMemo(() => toJson(data, 2), [data]);
  const isCut = !isWhole && text.length > JSON_SHOWN;
  return html`
    ${isCut && html`<p>The first ${count(JSON_SHOWN)} of ${count(text.length)} characters. <button onClick=${() => setWhole(true)}>Show all</button></p>`}
    <pre class="scroll" tabindex="0">${isCut ? text.slice(0, JSON_SHOWN) : text}</pre>`;
}

export function Table({ rows, changed = () => "" }) {
  if (!rows.length) return html`<p class="quiet">No rows.</p>`;
  const all = columnsOf(rows);
  const columns = all.slice(0, COLUMNS_MAX);
  const isNumber = (name, get) => !isTimeColumn(name) && rows.every((row) => ["number", "bigint", "undefined"].includes(typeof get(row)));
  return html`
    ${all.length > COLUMNS_MAX && html`<p class="quiet">The first ${COLUMNS_MAX} of ${all.length} columns.</p>`}
    <div class="scroll" tabindex="0" role="region" aria-label="Rows"><table>
      <thead><tr>${columns.map(([name, get]) => html`<th class=${isNumber(name, get) ? "num" : ""}>${name.replace(/^value\./, "")}</th>`)}</tr></thead>
      <tbody>${rows.map((row) => html`<tr class=${changed(row)}>${columns.map(([name, get]) => html`<td class=${isNumber(name, get) ? "num" : ""}><${Marked} text=${cell(name, get(row))} /></td>`)}</tr>`)}</tbody>
    </table></div>`;
}

const shownPosition = (position) => Object.entries(position ?? {}).map(([topic, offsets]) => `${topic} ${Object.entries(offsets).map(([n, offset]) => `${n}:${offset}`).join(" ")}`).join("; ");

function Parts({ partitions }) {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Partitions of the answer"><table>
      <thead><tr><th class="num">Partition</th><th>Served by</th><th>Role</th><th class="num">Epoch</th><th class="num">Sequence</th><th>Whole</th><th>Position</th></tr></thead>
      <tbody>${partitions.map(([number, part]) => html`<tr key=${number}><td class="num">${number}</td><td>${part.servedBy ?? "-"}</td><td>${part.role ?? "-"}</td>
        <td class="num">${part.epoch ?? "-"}</td><td class="num">${part.sequence === null ? "-" : count(part.sequence)}</td>
        <td>${part.failure ? `no: ${part.failure.reason}` : part.end === false ? "rows are left" : "yes"}</td><td class="long">${part.token ?? shownPosition(part.position)}</td></tr>`)}</tbody>
    </table></div>`;
}

const LAYER = /^(.+?): (\d+) ns(?:, (.*))?$/;

// The layers of one partition's answer, one after the other. A request to another pod contains that pod's layers.
function Waterfall({ number, part }) {
  const layers = part.executionInfo.map((line) => LAYER.exec(line)).filter(Boolean).map(([, name, ns, what]) => ({ name, ns: Number(ns), what: what ?? "" }));
  const peers = layers.filter((one) => one.name.startsWith("peer "));
  const inner = layers.filter((one) => !one.name.startsWith("peer "));
  const total = Math.max(peers.reduce((sum, one) => sum + one.ns, 0), inner.reduce((sum, one) => sum + one.ns, 0), 1);
  let at = 0;
  const bars = [
    ...peers.map((one) => ({ ...one, from: 0 })),
    ...inner.map((one) => {
      const bar = { ...one, from: at };
      at += one.ns;
      return bar;
    }),
  ];
  return html`
    <figure class="waterfall"><figcaption>Partition ${number}${part.servedBy ? ` on ${part.servedBy}` : ""}: ${duration(total / 1e6)}</figcaption>
      <ol>${bars.map((one, n) => html`<li key=${n}><span class="layer">${one.name}</span>
        <svg class="bar" viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true"><rect x=${(one.from / total) * 1000} width=${Math.max(2, (one.ns / total) * 1000)} height="14" rx="3" /></svg>
        <span class="num">${duration(one.ns / 1e6)}${one.what && `, ${one.what}`}</span></li>`)}</ol>
    </figure>`;
}
