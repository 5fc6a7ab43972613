// The overview: is the store well, what is it, how far are its sources, who writes, which batches arrive.

import { html, useEffect, useMemo, useRef } from "./vendor/htm-preact-3.1.1.js";
import { Conditions } from "./conditions.js";
import { partitionsOf } from "./feed.js";
import { Bar, Told, bytes, clock, count, duration, plural, time, useTimes } from "./formats.js";

const SHOWN_MS = 15 * 60 * 1000;
const BUCKET_MS = 5000;
const DARK = matchMedia("(prefers-color-scheme: dark)");

export function Overview({ feed }) {
  const partitions = partitionsOf(feed);
  return html`
    <div class="cards">
      <${Checks} feed=${feed} partitions=${partitions} />
      <${Conditions} feed=${feed} />
      <${Facts} feed=${feed} partitions=${partitions} />
      <${Batches} feed=${feed} />
      <${Writers} feed=${feed} />
      <${Positions} partitions=${partitions} />
      <${Progress} feed=${feed} />
    </div>`;
}

// --- Is the store well?

function checksOf({ pods, silent }, partitions) {
  const list = (numbers) => numbers.join(", ");
  const without = partitions.filter((one) => one.active?.state !== "serving").map((one) => one.number);
  const thin = partitions.filter((one) => one.configuration.inSync.length < one.configuration.replicas.length ||
    one.replicas.length < one.configuration.replicas.length).map((one) => one.number);
  const late = partitions.filter((one) => one.replicas.some((replica) => replica.role === "standby" && (replica.lagSeconds === null || replica.lagSeconds > 10)));
  const failed = partitions.flatMap((one) => one.replicas.filter((replica) => replica.error).map((replica) => `partition ${one.number} on ${replica.pod}: ${replica.error}`));
  const full = Object.entries(pods).filter(([, pod]) => pod.fullVolume).map(([name]) => name);
  const away = Object.entries(silent).map(([, why]) => why);
  return [
    ["Serving", !without.length, without.length ? `no active answers for ${without.length === 1 ? "partition" : "partitions"} ${list(without)}` : `all ${plural(partitions.length, "partition")} have an active that serves`],
    ["Replicated", !thin.length, thin.length ? `a replica is missing or catches up in ${list(thin)}` : "every replica of the assignment is in sync"],
    ["Level", !late.length, late.length ? `standbys are behind in ${list(late.map((one) => one.number))}` : "no standby is more than 10 s behind"],
    ["Pods", !away.length, away.length ? away.join("; ") : `${plural(Object.keys(pods).length, "pod")} answer${Object.keys(pods).length === 1 ? "s" : ""}`],
    ["Replicas", !failed.length, failed.length ? failed.join("; ") : "none has failed"],
    ["Volumes", !full.length, full.length ? `full on ${full.join(", ")}` : "all have free space"],
  ];
}

function Checks({ feed, partitions }) {
  const checks = checksOf(feed, partitions);
  const serving = checks[0][1];
  const word = feed.isOld ? `Not known${feed.answeredAt === null ? "" : ` since ${clock(feed.answeredAt)}`}` : !serving ? "Not serving" : checks.every(([, holds]) => holds) ? "Serving" : "Serving, with findings";
  return html`
    <section class="card" aria-labelledby="checks">
      <h2 id="checks">Status: <span class=${serving && !feed.isOld ? "good" : "bad"}>${word}</span></h2>
      <ul class="checks">${checks.map(([name, holds, why]) => html`
        <li><span class=${feed.isOld ? "quiet" : holds ? "good" : "bad"} aria-hidden="true">${feed.isOld ? "?" : holds ? "✓" : "✗"}</span>
          <b>${name}</b> <span class="sr">${feed.isOld ? "" : holds ? "holds:" : "does not hold:"}</span> ${feed.isOld && "was: "}${why}</li>`)}</ul>
    </section>`;
}

// --- What is it?

function Facts({ feed, partitions }) {
  const { definition, instances } = feed.metadata;
  const replicas = partitions.flatMap((one) => one.replicas);
  const most = (member) => replicas.reduce((found, one) => Math.max(found, one[member] ?? -1), -1);
  const length = definition.windowSizeMs ?? definition.sessionGapMs;
  const facts = [
    ["Type", definition.customName ? `${definition.type} (${definition.customName})` : definition.type],
    ["Format", definition.format],
    ["Key", definition.keySerde], ["Value", definition.valueSerde],
    length && [definition.windowSizeMs ? "Window" : "Session gap", duration(length)],
    definition.retentionMs && ["Retention", duration(definition.retentionMs)],
    definition.historyRetentionMs && ["History", duration(definition.historyRetentionMs)],
    ["Partitions", `${definition.partitions}, ${definition.partitioner}`],
    ["Pods", instances.length],
    ["Isolation", definition.isolation],
    ["Sequence", count(most("sequence"))],
    most("streamTime") >= 0 && ["Stream time", time(most("streamTime"))],
    ["Data", `${bytes(replicas.reduce((sum, one) => sum + one.dataBytes, 0))} in ${plural(replicas.length, "replica")}`],
  ];
  return html`
    <section class="card" aria-labelledby="facts">
      <h2 id="facts">Store</h2>
      <dl>${facts.filter(Boolean).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
    </section>`;
}

// --- Batches as they arrive

// Times, rows/s, and the largest latency of each bucket. The line of latencies goes over a bucket without batches
// (undefined), and breaks off at one whose batches have none (null): the log tells them.
export function seriesOf(batches, now) {
  const first = Math.floor((now - SHOWN_MS) / BUCKET_MS) + 1;
  const buckets = Math.floor(now / BUCKET_MS) - first + 1;
  const rows = new Array(buckets).fill(0);
  const latency = new Array(buckets).fill(undefined);
  for (const one of batches) {
    const at = Math.floor(one.committedAtMs / BUCKET_MS) - first;
    if (at < 0 || at >= buckets) continue;
    rows[at] += one.rows / (BUCKET_MS / 1000);
    latency[at] = one.latencyMs === undefined ? (latency[at] ?? null) : Math.max(latency[at] ?? 0, one.latencyMs);
  }
  const times = rows.map((_, at) => ((first + at) * BUCKET_MS) / 1000);
  return [times, rows, latency];
}

function Batches({ feed }) {
  const { batches, at, batchFailure } = feed;
  const recent = batches.filter((one) => one.committedAtMs > at - 60000);
  const perSecond = recent.reduce((sum, one) => sum + one.rows, 0) / 60;
  const latencies = recent.map((one) => one.latencyMs).filter((ms) => ms !== undefined).sort((a, b) => a - b);
  const unknown = batches.filter((one) => one.latencyMs === undefined).length;
  const middle = latencies.length ? latencies[latencies.length >> 1] : null;
  return html`
    <section class="card wide" aria-labelledby="batches">
      <h2 id="batches">Batches</h2>
      <${Told} failure=${batchFailure} />
      <p><b class="figure">${count(Math.round(perSecond))}</b> rows/s and <b class="figure">${duration(middle)}</b> commit latency (median) in the last minute</p>
      <${Curve} batches=${batches} now=${at} />
      ${batches.length === 0 && html`<p class="quiet">No batch within 15 minutes.</p>`}
      ${unknown > 0 && html`<p class="quiet">The latency of ${plural(unknown, "batch", "batches")} is not known: they came before the coordinator began, and its log has no latencies.</p>`}
      <div class="scroll" tabindex="0" role="region" aria-label="The newest batches"><table>
        <thead><tr><th class="num">Sequence</th><th>Writer</th><th class="num">Batch</th><th class="num">Rows</th><th class="num">Latency</th><th>Committed</th></tr></thead>
        <tbody>${batches.slice(-8).reverse().map((one) => html`<tr key=${one.sequence} class="arrives">
          <td class="num">${count(one.sequence)}</td><td>${one.writer}</td><td class="num">${one.batch}</td>
          <td class="num">${count(one.rows)}</td><td class="num">${duration(one.latencyMs)}</td><td>${time(one.committedAtMs)}</td></tr>`)}</tbody>
      </table></div>
    </section>`;
}

function Curve({ batches, now }) {
  const box = useRef(null);
  const plot = useRef(null);
  const times = useTimes();
  const data = useMemo(() => seriesOf(batches, now), [batches, Math.floor(now / BUCKET_MS)]);
  const shown = useRef(data);
  shown.current = data;
  useEffect(() => {
    const resize = () => plot.current?.setSize({ width: box.current.clientWidth, height: 170 });
    // A canvas keeps the colours that it was drawn with.
    const recolour = () => {
      plot.current?.destroy();
      plot.current = plot.current && made(box.current, shown.current);
    };
    addEventListener("resize", resize);
    DARK.addEventListener("change", recolour);
    return () => {
      removeEventListener("resize", resize);
      DARK.removeEventListener("change", recolour);
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => {
    if (plot.current) plot.current.setData(data);
    else if (window.uPlot && box.current.clientWidth) plot.current = made(box.current, data);
  }, [data, now, times]);
  const rows = batches.reduce((sum, one) => sum + one.rows, 0);
  return html`<div ref=${box} class="curve" role="img" aria-label=${`The last 15 minutes: ${plural(batches.length, "batch", "batches")}, ${count(rows)} rows`}></div>`;
}

function made(box, data) {
  const style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--quiet");
  const line = style.getPropertyValue("--line");
  const axis = { stroke: ink, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "11px system-ui" };
  return new window.uPlot({
    width: box.clientWidth, height: 170, legend: { show: false }, cursor: { show: false },
    scales: { x: { time: true } },
    axes: [
      { ...axis, incrs: [60, 120, 300, 600, 900], values: (_, at) => at.map((s) => clock(s * 1000, 5)) },
      { ...axis, label: "rows/s", labelSize: 16, labelFont: "11px system-ui", size: 56, values: (_, at) => at.map((n) => (n >= 1000 ? `${n / 1000}k` : n)) },
      { ...axis, scale: "ms", side: 1, label: "latency ms", labelSize: 16, labelFont: "11px system-ui", grid: { show: false }, size: 56 },
    ],
    series: [
      {},
      { stroke: style.getPropertyValue("--active"), fill: style.getPropertyValue("--active-faint"), width: 1.5, points: { show: false }, paths: window.uPlot.paths.stepped({ align: 1 }) },
      { scale: "ms", stroke: style.getPropertyValue("--standby"), width: 1.5, points: { show: true, size: 4 } },
    ],
  }, data, box);
}

// --- Writers, positions, work under way

function Writers({ feed }) {
  return html`
    <section class="card" aria-labelledby="writers">
      <h2 id="writers">Writers</h2>
      ${feed.writers.length === 0 ? html`<p class="quiet">None has opened yet.</p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-label="Table of writers"><table class="wraps">
        <thead><tr><th>Name</th><th>State</th><th class="num">Last batch</th><th>Opened</th></tr></thead>
        <tbody>${feed.writers.map((one) => html`<tr key=${one.name}><td>${one.name}</td>
          <td>${one.silentS === null ? "closed" : `open, silent for ${duration(one.silentS * 1000)}`}</td>
          <td class="num">${one.lastBatch ?? "-"}</td><td class="when">${time(one.openedAtMs)}</td></tr>`)}</tbody>
      </table></div>`}
    </section>`;
}

function Positions({ partitions }) {
  const topics = new Map();
  for (const { active } of partitions) {
    for (const [topic, offsets] of Object.entries(active?.position ?? {})) {
      const merged = topics.get(topic) ?? {};
      for (const [number, offset] of Object.entries(offsets)) merged[number] = Math.max(merged[number] ?? 0, Number(offset));
      topics.set(topic, merged);
    }
  }
  return html`
    <section class="card" aria-labelledby="positions">
      <h2 id="positions">Position of each source</h2>
      ${topics.size === 0 ? html`<p class="quiet">No batch has a position yet.</p>` : html`
      <div class="scroll" tabindex="0" role="region" aria-label="Table of positions"><table class="wraps">
        <thead><tr><th>Source</th><th>Offset of each partition</th></tr></thead>
        <tbody>${[...topics].sort().map(([topic, offsets]) => html`<tr key=${topic}><td>${topic}</td>
          <td>${Object.entries(offsets).map(([number, offset]) => html`<span class="offset">${number}: ${count(offset)}</span> `)}</td></tr>`)}</tbody>
      </table></div>`}
    </section>`;
}

function Progress({ feed }) {
  const work = Object.entries(feed.pods).flatMap(([pod, { replicas, copies }]) => [
    ...copies.map((one) => ({ label: `${pod} copies partition ${one.partition}`, done: one.doneBytes, total: one.totalBytes, unit: bytes })),
    ...Object.entries(replicas).flatMap(([number, { migration, index }]) => [
      migration && { label: `${pod}, partition ${number}: to the format ${feed.metadata.definition.format}${migration.error ? `, ${migration.error}` : ""}`, done: migration.rowsMoved, total: migration.rowsMoved + migration.rowsLeft },
      index && { label: `${pod}, partition ${number}: index rows`, done: index.rowsDone, total: index.rowsDone + index.rowsLeft },
    ].filter(Boolean)),
  ]);
  return html`
    <section class="card" aria-labelledby="work">
      <h2 id="work">Migration, rebuild and move</h2>
      ${work.length ? work.map((one) => html`<${Bar} key=${one.label} ...${one} />`) : html`<p class="quiet">Nothing is under way.</p>`}
    </section>`;
}
