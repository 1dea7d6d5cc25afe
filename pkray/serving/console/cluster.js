// The processes that serve the warehouse.
import { html, useState } from "./vendor/htm-preact.js";
import { Answered, Failure, Rows, ask, bytes, seconds, text, useAnswer } from "./parts.js";

const USES = ["process", "rows", "flushed", "lookups", "queries"];

function Logs() {
  const [answer, setAnswer] = useState({ found: null, error: null });
  async function read() {
    try {
      setAnswer({ found: (await ask("/api/logs")).logs, error: null });
    } catch (error) {
      setAnswer({ found: null, error: error.message });
    }
  }
  const found = answer.found && Object.entries(answer.found);
  return html`<h2>Logs</h2>
    <button onClick=${read}>${found ? "Read again" : "Show their ends"}</button>
    <${Failure} error=${answer.error} />
    ${found && !found.length && html`<p class="quiet">There are none: what this process writes is on its own terminal.</p>`}
    ${found && found.map(([process, said]) => html`<details open><summary>${process}</summary><pre tabindex="0" role="region" aria-label=${`The log of ${process}`}>${said || "It says nothing, or does not answer."}</pre></details>`)}`;
}

export function Cluster() {
  const answer = useAnswer("/api/cluster");
  return html`<h1>Cluster</h1><${Answered} answer=${answer}>${(found) => html`
    <p>${found.kind === "ray" ? "The tables are served on Ray." : "This process serves the tables itself."}
      ${/^https?:/.test(found.dashboard || "") && html` <a href=${found.dashboard} rel="noreferrer">Ray's dashboard</a>`}</p>
    <h2>Memory</h2>
    <${Rows} caption="Memory of processes by use" rows=${Object.entries(found.memory)} columns=${[["process", (each) => each[0]], ...USES.map((use) => [use, (each) => bytes(each[1][use]), "number"])]} />
    <${Logs} />
    ${found.placed.length > 0 && html`<h2>What runs where</h2>
    <${Rows} caption="Processes, parts of tables, queries" rows=${found.placed} columns=${[
      ["kind", (each) => each.kind],
      ["name", (each) => each.name],
      ["state", (each) => html`<span class=${["lost", "silent", "failed"].includes(each.state) ? "bad" : ""}>${each.state}</span>`],
      ["worker", (each) => text(each.worker), "number"],
      ["host", (each) => text(each.host)],
      ["process", (each) => text(each.pid), "number"],
      ["memory", (each) => bytes(each.memory), "number"],
      ["age", (each) => seconds(each.age), "number"],
    ]} />`}`}<//>`;
}
