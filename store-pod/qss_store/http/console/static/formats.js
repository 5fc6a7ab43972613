// Shows numbers, sizes and times as texts. Links keep the way of times.

import { html, useEffect, useState } from "./vendor/htm-preact-3.1.1.js";

export const TIMES = { utc: "UTC", local: "local time", millis: "milliseconds" };
let times = "utc";
const listeners = new Set();
const TIME_COLUMNS = new Set(["timestamp", "windowStart", "windowEnd", "sessionStart", "sessionEnd", "validFrom", "validTo"]);

export function setTimes(chosen) {
  times = Object.hasOwn(TIMES, chosen) ? chosen : "utc";
  for (const listener of listeners) listener();
}

export const timesNow = () => times;

// The fragment of a view with its parameters, and with the way of times where it is not UTC.
export function linkTo(view, parameters = "") {
  const all = [parameters, times === "utc" ? "" : `times=${times}`].filter(Boolean).join("&");
  return `#/${view}${all ? `?${all}` : ""}`;
}

export function useTimes() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return times;
}

export const isTimeColumn = (name) => TIME_COLUMNS.has(name);

export function time(ms) {
  if (ms === null || ms === undefined) return "-";
  if (typeof ms !== "number" || times === "millis" || Math.abs(ms) > 8.64e15) return String(ms);
  const date = new Date(ms);
  if (times === "utc") return date.toISOString().replace(".000Z", "Z");
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  const rest = ms % 1000 ? `.${pad(date.getMilliseconds(), 3)}` : "";
  return `${pad(date.getFullYear(), 4)}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ` +
    `${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}${rest}`;
}

// The time of day: local, or of UTC and then with Z. Milliseconds have none of their own, so they get that of UTC.
export const clock = (ms, length = 8) =>
  times === "local" ? new Date(ms).toLocaleTimeString("en-GB").slice(0, length) : `${new Date(ms).toISOString().slice(11, 11 + length)}Z`;

export const count = (n) => (n === null || n === undefined ? "-" : Number(n).toLocaleString("en-US").replaceAll(",", "\u202f"));

export function bytes(n) {
  if (n === null || n === undefined) return "-";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 1024 && at < units.length - 1) {
    n /= 1024;
    at += 1;
  }
  return `${at === 0 ? n : n.toFixed(n < 10 ? 1 : 0)} ${units[at]}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return "-";
  if (ms < 1) return `${Math.round(ms * 1000)} us`;
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 120) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  if (s < 7200) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} days`;
}

export const plural = (n, one, many = `${one}s`) => `${n} ${n === 1 ? one : many}`;

export const Told = ({ failure }) => failure && html`<p class="failure" role="alert">${failure.message}</p>`;

// Says after two seconds that an answer is awaited.
export function Waiting() {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => setSeconds((n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  return seconds >= 2 && html`<p class="waiting" role="status">Waiting for the answer for ${seconds} s ...</p>`;
}

const UNSEEN = /(\r\n|[\n\r\t]|^ +| +$| {2,})/;
const SHOWN_MAX = 1000;

// A text of one line, whose line ends, tabs and spaces at an edge or in a row are marked.
export function Marked({ text }) {
  const cut = text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)} …` : text;
  const marked = (one) => one.replaceAll(" ", "␣").replaceAll("\t", "⇥").replace(/[\r\n]+/g, "↵");
  return cut.split(UNSEEN).map((one, n) => (n % 2 ? html`<span class="mark">${marked(one)}</span>` : one));
}

export const Bar = ({ label, done, total, unit = count }) => {
  const share = total > 0 ? done / total : 0;
  return html`<label class="progress"><span>${label}</span>
    <progress max="1" value=${share}></progress><span class="num">${unit(done)} of ${unit(total)}</span></label>`;
};
