// The processes that serve the warehouse.
import { html } from "./vendor/htm-preact.js";
import { Answered, Rows, bytes, seconds, text, useAnswer } from "./parts.js";

const USES = ["process", "rows", "flushed", "lookups", "queries"];

export function Cluster() {
  const answer = useAnswer("/api/cluster");
  return html`<h1>Cluster</h1><${Answered} answer=${answer}>${(found) => html`
    <p>${found.kind === "ray" ? "The tables are served on Ray." : "This process serves the tables itself."}</p>
    <h2>Memory</h2>
    <${Rows} caption="Memory of processes by use" rows=${Object.entries(found.memory)} columns=${[["process", (each) => each[0]], ...USES.map((use) => [use, (each) => bytes(each[1][use]), "number"])]} />
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
