// All tables and queries, and what needs attention first.
import { html, useState } from "./vendor/htm-preact.js";
import { Answered, Rows, bytes, count, link, seconds, useAnswer } from "./parts.js";

function State({ query }) {
  const tone = { failed: "bad", running: "good" }[query.state] || "quiet";
  return html`<span class=${tone}>${query.state}</span>`;
}

function Freshness({ value }) {
  const tone = value > 60 ? "bad" : value > 5 ? "warn" : "";
  return html`<span class=${tone}>${seconds(value)}</span>`;
}

function Attention({ notes }) {
  if (!notes.length) return html`<p class="good">Nothing needs attention.</p>`;
  return html`<ul class="notes">${notes.map((each) => html`<li class=${each.rank < 2 ? "first" : ""}>${link(each.kind, each.name)} ${each.text}${each.failure && html`<br /><span class="quiet">${each.failure}</span>`}</li>`)}</ul>`;
}

export function Home() {
  const answer = useAnswer("/api/home");
  const [sought, setSought] = useState("");
  const fits = (each) => each.name.toLowerCase().includes(sought.toLowerCase());
  return html`<h1>Warehouse</h1><${Answered} answer=${answer}>${(found) => html`
    <p class="quiet">${found.warehouse}</p>
    <h2>Attention</h2>
    <${Attention} notes=${found.attention} />
    <div class="row"><label class="beside">Show names with <input type="search" value=${sought} onInput=${(event) => setSought(event.target.value)} /></label></div>
    <h2>Queries</h2>
    <${Rows} caption=${`Queries: ${found.queries.length}`} rows=${found.queries.filter(fits)} columns=${[
      ["query", (each) => link("query", each.name)],
      ["state", (each) => html`<${State} query=${each} />`],
      ["behind", (each) => html`<${Freshness} value=${each.freshness} />`, "number"],
      ["epochs", (each) => count(each.epochs), "number"],
      ["state size", (each) => bytes(each.state_bytes), "number"],
      ["late rows", (each) => count(each.late), "number"],
    ]} />
    <h2>Tables</h2>
    <${Rows} caption=${`Tables: ${found.tables.length}`} rows=${found.tables.filter(fits)} columns=${[
      ["table", (each) => link("table", each.name)],
      ["rows in files", (each) => count(each.rows), "number"],
      ["size", (each) => bytes(each.bytes), "number"],
      ["files", (each) => count(each.files), "number"],
      ["level 0", (each) => html`<span class=${each.level0 > 10 ? "warn" : ""}>${count(each.level0)}</span>`, "number"],
      ["last commit", (each) => seconds(each.age), "number"],
    ]} />`}<//>`;
}
