// A plan as a graph.
import { Graph, layout } from "./vendor/dagre.js";
import { html } from "./vendor/htm-preact.js";
import { bytes, count, share } from "./parts.js";

const WIDTH = 190;
const HEIGHT = 74;

function tone(busy) {
  if (busy === null || busy === undefined) return "";
  return busy > 0.8 ? "busy-3" : busy > 0.4 ? "busy-2" : "busy-1";
}

function laidOut(graph) {
  const drawn = new Graph();
  drawn.setGraph({ rankdir: "TB", nodesep: 24, ranksep: 34, marginx: 12, marginy: 12 });
  drawn.setDefaultEdgeLabel(() => ({}));
  for (const each of graph.nodes) drawn.setNode(String(each.id), { width: WIDTH, height: HEIGHT });
  for (const [from, to] of graph.edges) drawn.setEdge(String(from), String(to));
  layout(drawn);
  return drawn;
}

function short(line) {
  return line.length > 26 ? `${line.slice(0, 25)}…` : line;
}

export function Drawn({ graph }) {
  const drawn = laidOut(graph);
  const { width, height } = drawn.graph();
  const path = (edge) => drawn.edge(edge).points.map(({ x, y }, at) => `${at ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join(" ");
  return html`<div class="graph" tabindex="0" role="region" aria-label="The plan as a graph">
    <svg width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${`${graph.nodes.length} operators; the table below says the same`}>
      <defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" /></marker></defs>
      ${drawn.edges().map((edge) => html`<path d=${path(edge)} marker-end="url(#arrow)" />`)}
      ${graph.nodes.map((each) => {
        const at = drawn.node(String(each.id));
        const lines = [`${each.id} ${each.type}`, each.rows_in === null || each.rows_in === undefined ? "" : `${count(each.rows_in)} → ${count(each.rows_out)} rows`, each.busy === null || each.busy === undefined ? "" : `busy ${share(each.busy)}`, each.state_rows ? `state ${bytes(each.state_bytes)}` : each.states || ""].filter(Boolean);
        if (lines.length === 1 && each.description) lines.push(/\[([^\]]+)\]/.exec(each.description)?.[1] ?? each.description); // of a scan its table
        return html`<g class=${tone(each.busy)} transform=${`translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`}>
          <title>${each.description}</title>
          <rect width=${WIDTH} height=${HEIGHT} rx="6" />
          ${lines.map((line, row) => html`<text x="9" y=${18 + row * 16} class=${row ? "" : "strong"}>${short(line)}</text>`)}
        </g>`;
      })}
    </svg></div>`;
}
