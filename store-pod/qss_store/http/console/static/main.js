// Draws the frame of the console, and chooses the view by the fragment of the address.

import { h, html, render, useEffect, useState } from "./vendor/htm-preact-3.1.1.js";
import { Failure, hasToken, redeemCode, setToken } from "./api.js";
import { startFeed, useFeed } from "./feed.js";
import { TIMES, clock, linkTo, setTimes, timesNow, useTimes } from "./formats.js";
import { Overview } from "./overview.js";
import { Partitions } from "./partitions.js";
import { Ask } from "./ask.js";
import { Live } from "./live.js";

const VIEWS = { overview: ["Overview", Overview], partitions: ["Partitions", Partitions], ask: ["Ask", Ask], live: ["Live", Live] };

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  setTimes(given.get("times"));
  given.delete("times");
  const isKnown = Object.hasOwn(VIEWS, path);
  return { view: isKnown ? path : "overview", given, unknown: isKnown || !path || path.startsWith("code=") ? null : path };
}

function App() {
  const [at, setAt] = useState(place);
  const feed = useFeed();
  useTimes();
  useEffect(() => {
    const moved = () => setAt(place());
    addEventListener("hashchange", moved);
    return () => removeEventListener("hashchange", moved);
  }, []);
  const [title, View] = VIEWS[at.view];
  useEffect(() => {
    document.title = `${title} - ${feed.store ?? "Queryable State"}`;
  }, [title, feed.store]);
  const chooseTimes = (chosen) => {
    setTimes(chosen);
    history.replaceState(null, "", linkTo(at.view, at.given.toString()));
  };
  return html`
    <a class="skip" href="#content" onClick=${skip}>To the content</a>
    <header class="top">
      <strong>${feed.store ?? "Queryable State"}</strong>
      <nav aria-label="Views">
        ${Object.entries(VIEWS).map(([name, [label]]) =>
          html`<a href=${linkTo(name)} aria-current=${name === at.view ? "page" : undefined}>${label}</a>`)}
      </nav>
      <label class="times">Times
        <select value=${timesNow()} onChange=${(event) => chooseTimes(event.target.value)}>
          ${Object.entries(TIMES).map(([name, label]) => html`<option value=${name}>${label}</option>`)}
        </select>
      </label>
    </header>
    <main id="content" tabindex="-1">
      <h1>${title}</h1>
      ${at.unknown && html`<p class="failure" role="alert">The page has no view "${at.unknown.slice(0, 80)}": this is the overview.</p>`}
      <${Trouble} feed=${feed} />
      ${feed.metadata ? html`<div class=${feed.isOld && ["overview", "partitions"].includes(at.view) ? "old" : ""}>${h(View, { given: at.given, feed })}</div>` : !feed.failure && html`<p class="quiet">Asking the pod ...</p>`}
    </main>
    <footer class="quiet">Served by ${location.host}. <a href="/openapi.json">The API</a></footer>`;
}

function skip(event) {
  event.preventDefault();
  document.getElementById("content").focus();
}

// What keeps the page from being up to date: a missing token or right, or a pod that is away.
function Trouble({ feed }) {
  const failure = feed.failure;
  if (!failure && !feed.isOld) return null;
  return html`
    <section class="trouble">
      <p class="failure" role="alert">${failure ? failure.message : `The pod at ${location.host} has not answered for two seconds.`}</p>
      ${feed.answeredAt !== null && html`<p>Its last answer came at <time>${clock(feed.answeredAt)}</time>: the page shows the figures of then, not of now.</p>`}
      ${failure?.status === 401 && html`<${TokenForm} />`}
      ${failure?.status === 0 && html`<${OtherPods} metadata=${feed.metadata} />`}
    </section>`;
}

function TokenForm() {
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    setToken(text);
    setText("");
  };
  return html`
    <form class="token" onSubmit=${submit}>
      <label>Token <input type="password" autocomplete="off" required value=${text} onInput=${(event) => setText(event.target.value)} /></label>
      <button>${hasToken() ? "Use this token instead" : "Use this token"}</button>
      <p class="quiet">The page keeps it in memory until it is closed or loaded anew. For a store on Kubernetes
        <code>qss console --kube NAMESPACE/STORE</code> opens the page with a token of its own.</p>
    </form>`;
}

// On one machine the other pods have this page, too; behind a forwarded port their addresses lead nowhere.
function OtherPods({ metadata }) {
  const others = (metadata?.instances ?? [])
    .map((one) => ({ pod: one.pod, url: new URL(one.query) }))
    .filter(({ url }) => url.hostname === location.hostname && url.host !== location.host);
  if (!others.length) return null;
  return html`<p>The other pods have the console, too:
    ${others.map(({ pod, url }) => html` <a href=${`${url.origin}/console/${location.hash}`}>${pod}</a>`)}</p>`;
}

async function begin() {
  const root = document.getElementById("app");
  root.textContent = "";
  render(html`<${App} />`, root);
  try {
    await redeemCode();
  } catch (error) {
    if (!(error instanceof Failure || error instanceof TypeError)) throw error;
  }
  startFeed();
}

begin();
