// Polls the status of the store once a second, while the page is visible.

import { useEffect, useState } from "./vendor/htm-preact-3.1.1.js";
import { ask, onToken } from "./api.js";

const EVERY_MS = 1000;
// The pod waits up to 2 s for the other pods; while one of them is silent the page waits a moment longer.
const TIMEOUT_MS = 3000;
const OLD_MS = 2000;
const OLD_WITH_SILENT_MS = 2500;
const METADATA_EVERY = 10;
const KEPT_MS = 15 * 60 * 1000;
const EVENTS_MAX = 50;

const state = {
  store: null, metadata: null, document: null, pods: {}, silent: {}, conditions: null, writers: [], batches: [], events: [], failure: null, batchFailure: null, at: 0,
  answeredAt: null, isOld: false, // When the pod last told its status, and whether that is long ago.
};
const listeners = new Set();
let rounds = 0;
let timer = null;
let isAsking = false;
let nextEvent = 0;

export function useFeed() {
  const [, redraw] = useState(0);
  useEffect(() => {
    const listener = () => redraw((n) => n + 1);
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, []);
  return state;
}

export function startFeed() {
  document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : round()));
  onToken(() => round());
  round();
}

async function round() {
  if (isAsking) return;
  isAsking = true;
  clearTimeout(timer);
  const late = setTimeout(grow, Object.keys(state.silent).length ? OLD_WITH_SILENT_MS : OLD_MS);
  try {
    await look(() => clearTimeout(late));
    state.failure = null;
  } catch (failure) {
    state.failure = failure;
    state.isOld = true;
  } finally {
    isAsking = false;
    clearTimeout(late);
  }
  state.at = Date.now();
  rounds += 1;
  tell();
  if (!document.hidden) timer = setTimeout(round, EVERY_MS);
}

const tell = () => listeners.forEach((listener) => listener());

function grow() {
  state.isOld = true;
  tell();
}

const poll = (path) => ask(path, { timeoutMs: TIMEOUT_MS });

async function look(answered) {
  if (state.store === null) state.store = (await poll("/state/stores")).data.stores[0].name;
  const name = encodeURIComponent(state.store);
  if (state.metadata === null || rounds % METADATA_EVERY === 0 || state.failure) {
    state.metadata = (await poll(`/state/instances/${name}`)).data;
  }
  const { pods, silent, conditions } = (await poll(`/state/status/${name}`)).data;
  note(state.pods, pods);
  state.pods = pods;
  state.silent = silent;
  state.conditions = conditions ?? null;
  state.answeredAt = Date.now();
  state.isOld = false;
  answered();
  tell();
  await lookAtBatches(name);
}

async function lookAtBatches(name) {
  const newest = state.batches.at(-1)?.sequence ?? 0;
  const held = hasBegunAnew(newest) ? [] : state.batches;
  try {
    const found = (await ask(`/state/batches/${name}?after=${held.length ? newest : 0}`, { timeoutMs: OLD_MS })).data;
    state.writers = found.writers;
    state.batches = merged(found.earlier ?? [], held, found.batches);
    state.batchFailure = null;
  } catch (failure) {
    state.batchFailure = failure;
  }
}

// Whether every active is behind a batch that was shown: the store was made anew, or has lost batches. Pods that open
// their replicas tell no sequence, and what was drawn stays meanwhile.
const hasBegunAnew = (newest) =>
  partitionsOf(state).every(({ active }) => active?.state === "serving" && (active.sequence ?? 0) < newest);

// The batches of the last 15 minutes in order. A later list wins: what the log tells of a batch has no latency.
export function merged(...lists) {
  const since = Date.now() - KEPT_MS;
  const bySequence = new Map(lists.flat().map((one) => [one.sequence, one]));
  return [...bySequence.values()].filter((one) => one.committedAtMs > since).sort((a, b) => a.sequence - b.sequence);
}

// The last replica that each pod told of each partition, also while the pod is away.
const known = new Map();

// Sentences about what has changed between two looks, for the partition map and for screen readers.
function note(before, after) {
  const isFirst = known.size === 0;
  const told = [];
  for (const pod of Object.keys(before)) if (!(pod in after)) told.push(`pod ${pod} does not answer`);
  for (const [pod, { replicas }] of Object.entries(after)) {
    if (!(pod in before)) told.push(`pod ${pod} answers`);
    for (const [number, replica] of Object.entries(replicas)) {
      const name = `${pod}/${number}`;
      const words = changeOf(known.get(name), replica);
      if (words) told.push(`partition ${number}: ${pod} ${words}`);
      known.set(name, replica);
    }
  }
  if (isFirst) return;
  const at = Date.now();
  state.events = [...told.map((text) => ({ id: nextEvent++, at, text })), ...state.events].slice(0, EVENTS_MAX);
}

function changeOf(was, { role, epoch, state: now }) {
  if (was?.role !== role) return `is ${role} now${role === "active" ? ` (epoch ${epoch})` : ""}`;
  if (role === "active" && was.epoch !== epoch) return `is active in epoch ${epoch}`;
  return was.state === now ? null : `is ${now}`;
}

export async function openApi() {
  state.document ??= (await ask("/openapi.json")).data;
  return state.document;
}

// The partitions with their replicas: [{number, active, replicas: [{pod, ...}]}].
export function partitionsOf({ metadata, pods }) {
  if (!metadata) return [];
  const names = new Map(metadata.instances.map((one) => [one.ordinal, one.pod]));
  return metadata.assignment.map((configuration) => {
    const replicas = Object.entries(pods)
      .filter(([, pod]) => configuration.partition in pod.replicas)
      .map(([pod, { replicas }]) => ({ pod, ...replicas[configuration.partition] }));
    const actives = replicas.filter((one) => one.role === "active").sort((a, b) => b.epoch - a.epoch);
    return { number: configuration.partition, configuration, names, replicas, active: actives[0] ?? null };
  });
}
