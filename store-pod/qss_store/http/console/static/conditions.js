// The conditions of the resource, as the operator told them to the pods: those that need a look come first.

import { html } from "./vendor/htm-preact-3.1.1.js";
import { duration, time } from "./formats.js";

const TROUBLES = new Set(["Degraded", "ScaleDownBlocked"]); // True is trouble.
const WORK = new Set(["Progressing", "Rebalancing", "StorageResizing", "FormatMigrating"]); // True is work under way.
const RANKS = ["bad", "unknown", "busy", "good"];
const MARKS = { bad: "✗", unknown: "?", busy: "…", good: "✓" };
const WORDS = { bad: "needs a look:", unknown: "not known:", busy: "under way:", good: "as it should be:" };
const SILENT_S = 30; // The operator asks each pod every few seconds.

function rankOf({ type, status }) {
  if (status === "Unknown") return "unknown";
  if (type === "Ready") return status === "True" ? "good" : "bad";
  if (status !== "True") return "good";
  return TROUBLES.has(type) ? "bad" : WORK.has(type) ? "busy" : "good";
}

export function Conditions({ feed }) {
  const told = feed.conditions;
  return html`
    <section class="card" aria-labelledby="conditions">
      <h2 id="conditions">Conditions</h2>
      ${told ? html`<${List} told=${told} passedMs=${feed.isOld ? Date.now() - feed.answeredAt : 0} />` : html`
        <p class="quiet">The operator has told these pods none since they started, or one of them is of a version without. <code>qss status</code> has them.</p>`}
    </section>`;
}

function List({ told, passedMs }) {
  const ranked = told.conditions.map((one) => ({ ...one, rank: rankOf(one) }));
  ranked.sort((a, b) => RANKS.indexOf(a.rank) - RANKS.indexOf(b.rank));
  const agoMs = told.toldAgoS * 1000 + passedMs;
  const age = agoMs < 2000 ? "a moment" : duration(agoMs);
  return html`
    <ul class="conditions">${ranked.map((one) => html`<${Condition} key=${one.type} ...${one} />`)}</ul>
    ${told.operatorSilentS > SILENT_S
      ? html`<p class="bad">As the operator said ${age} ago. It has not asked these pods for ${duration(told.operatorSilentS * 1000 + passedMs)}: it may be away, and the store may be otherwise by now.</p>`
      : html`<p class="quiet">As the operator said ${age} ago; it says so when they change.</p>`}`;
}

function Condition({ type, status, reason, message, lastTransitionTime, rank }) {
  const since = Date.parse(lastTransitionTime);
  return html`
    <li><details open=${rank === "bad" || rank === "unknown"}>
      <summary><span class=${rank} aria-hidden="true">${MARKS[rank]}</span> <span class="sr">${WORDS[rank]}</span>
        <b>${type}</b> ${status} <span class="quiet">${reason}</span></summary>
      <p>${message}</p>
      <p class="quiet">${status} since ${Number.isNaN(since) ? lastTransitionTime : time(since)}</p>
    </details></li>`;
}
