// Rows with times as bars on an axis: windows, sessions and versions, a lane for each key.

import { html } from "./vendor/htm-preact-3.1.1.js";
import { toJson } from "./api.js";
import { time } from "./formats.js";

const LANE = 26;
const LANES_MAX = 40;
const LEFT = 130;
const WIDTH = 1000;

export function spansOf(rows) {
  const spans = [];
  for (const row of rows) {
    const start = row.windowStart ?? row.sessionStart ?? row.validFrom;
    const end = row.windowEnd ?? row.sessionEnd ?? row.validTo ?? null;
    if (typeof start !== "number" || (end !== null && typeof end !== "number")) continue;
    spans.push({ key: typeof row.key === "string" ? row.key : toJson(row.key), start, end, text: typeof row.value === "string" ? row.value : toJson(row.value) });
  }
  return spans;
}

export function Timeline({ rows }) {
  const spans = spansOf(rows);
  if (!spans.length) return null;
  const first = Math.min(...spans.map((one) => one.start));
  const known = Math.max(...spans.map((one) => one.end ?? one.start));
  const last = known > first ? known + (spans.some((one) => one.end === null) ? (known - first) * 0.1 : 0) : first + 1;
  const keys = [...new Set(spans.map((one) => one.key))].slice(0, LANES_MAX);
  const x = (ms) => LEFT + ((ms - first) / (last - first)) * (WIDTH - LEFT - 10);
  const height = keys.length * LANE + 28;
  const ticks = [0, 1, 2, 3].map((n) => first + ((last - first) * n) / 3);
  return html`
    <figure class="timeline">
      <div class="scroll" tabindex="0" role="region" aria-label="Rows on a time axis">
      <svg viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${`${spans.length} rows of ${keys.length} keys from ${time(first)} to ${time(known)}; the table has them all`}>
        ${ticks.map((ms, n) => html`<g key=${n} class="tick"><line x1=${x(ms)} x2=${x(ms)} y1="0" y2=${height - 22} />
          <text x=${x(ms)} y=${height - 6} text-anchor=${n === 0 ? "start" : n === 3 ? "end" : "middle"}>${time(Math.round(ms))}</text></g>`)}
        ${keys.map((key, lane) => html`<g key=${key}><text class="lane" x="4" y=${lane * LANE + 17}>${key.length > 17 ? `${key.slice(0, 16)}…` : key}</text>
          ${spans.filter((one) => one.key === key).map((one) => {
            const width = Math.max(3, x(one.end ?? last) - x(one.start) - 1);
            return html`<g key=${`${one.start}-${one.end}`} class=${one.end === null ? "span open" : "span"}>
              <rect x=${x(one.start)} y=${lane * LANE + 3} width=${width} height=${LANE - 6} rx="3"><title>${`${time(one.start)} to ${one.end === null ? "now" : time(one.end)}: ${one.text}`}</title></rect>
              ${width > 40 && html`<text x=${x(one.start) + 4} y=${lane * LANE + 17}>${one.text.slice(0, Math.floor(width / 7))}</text>`}</g>`;
          })}</g>`)}
      </svg></div>
      ${new Set(spans.map((one) => one.key)).size > LANES_MAX && html`<figcaption class="quiet">The first ${LANES_MAX} keys of this page; the table has all rows.</figcaption>`}
    </figure>`;
}
