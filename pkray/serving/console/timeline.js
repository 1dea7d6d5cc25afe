// The snapshots of a table by their time, with its tags and branches: these leave the table's line where they began.
import { html } from "./vendor/htm-preact.js";
import { count } from "./parts.js";

const WIDTH = 1000, EDGE = 16, LANE = 34, LABEL = 15;
const LETTER = 7; // width of one, about
const ROWS = 4; // of labels of tags, one above the other; of others the table below tells

// Milliseconds since 1970 of a time as system tables write it.
export function moment(written) {
  return Date.parse(written.replace(" ", "T"));
}

// Puts each label into the first row in which there is room for it.
function rowed(labels) {
  const ends = [];
  for (const each of labels.sort((one, other) => one.x - other.x)) {
    const width = each.name.length * LETTER;
    each.left = Math.min(each.x, WIDTH - EDGE - width);
    each.row = ends.findIndex((end) => end < each.left);
    if (each.row < 0) each.row = ends.length;
    if (each.row < ROWS) ends[each.row] = each.left + width + LETTER;
  }
  return labels.filter((each) => each.row < ROWS);
}

function several(snapshots) {
  return `${count(snapshots)} snapshot${snapshots === 1 ? "" : "s"}`;
}

// Compactions are below what they follow at once.
function Dots({ at, snapshots, y, of }) {
  const compacts = (each) => each.kind === "COMPACT";
  return [...snapshots.filter(compacts), ...snapshots.filter((each) => !compacts(each))].map((each) => html`<circle class=${compacts(each) ? "quiet" : ""} cx=${at(each.time)} cy=${y} r=${compacts(each) ? 3 : 4}><title>${`${of}snapshot ${each.id}, ${each.kind}, ${each.time}: ${count(each.rows)} rows`}</title></circle>`);
}

function Branch({ branch, at, y, main }) {
  const own = branch.snapshots;
  const first = branch.began ? at(branch.began.time) : at(own[0].time);
  const last = own.length ? at(own.at(-1).time) : first;
  const bend = Math.min(first + LANE / 2, last);
  const label = `${branch.branch_name}: ${own.length ? several(own.length) : "as it began"}`;
  const right = first + label.length * LETTER > WIDTH - EDGE;
  return html`<g class="branch">
    ${branch.began && html`<path d=${`M${first} ${main}C${first} ${y} ${first} ${y} ${bend} ${y}L${last} ${y}`} />`}
    ${!branch.began && html`<path d=${`M${first} ${y}L${last} ${y}`} />`}
    ${!own.length && html`<circle class="quiet" cx=${first} cy=${y} r="4" />`}
    <${Dots} at=${at} snapshots=${own} y=${y} of=${`${branch.branch_name}: `} />
    <text x=${right ? first - 6 : first + 6} y=${y - 8} text-anchor=${right ? "end" : "start"}>${label}</text>
  </g>`;
}

// Nothing where there are neither tags nor branches: the chart of rows and the table say all then.
export function TimeLine({ table }) {
  const branches = table.branches.filter((each) => each.began || each.snapshots?.length);
  if (!branches.length && !table.tags.length) return null;
  const times = [
    ...table.snapshots.map((each) => each.time),
    ...table.tags.map((each) => each.commit_time),
    ...branches.flatMap((each) => [...each.snapshots.map((own) => own.time), ...(each.began ? [each.began.time] : [])]),
  ].map(moment);
  const least = Math.min(...times), most = Math.max(...times);
  const at = (time) => Math.round(EDGE + ((WIDTH - 2 * EDGE) * (moment(time) - least)) / Math.max(most - least, 1));
  const tags = rowed(table.tags.map((each) => ({ name: each.tag_name, x: at(each.commit_time) })));
  const above = Math.max(...tags.map((each) => each.row + 1), 0);
  const main = EDGE + above * LABEL;
  const height = main + branches.length * LANE + EDGE;
  const said = [...table.tags.map((each) => `tag ${each.tag_name} at snapshot ${each.snapshot_id}`), ...branches.map((each) => `branch ${each.branch_name} ${each.began ? `from snapshot ${each.began.id}` : ""} with ${several(each.snapshots.length)} of its own`)];
  return html`<div class="graph timeline" tabindex="0" role="region" aria-label="Time line of snapshots, tags and branches">
    <svg width=${WIDTH} height=${height} viewBox=${`0 0 ${WIDTH} ${height}`} role="img" aria-label=${said.join("; ")}>
      <path d=${`M${EDGE} ${main}L${WIDTH - EDGE} ${main}`} />
      ${tags.map((each) => html`<g class="tag"><path d=${`M${each.x} ${main}L${each.x} ${EDGE + each.row * LABEL}`} /><text x=${each.left + 3} y=${EDGE + each.row * LABEL + 4}>${each.name}</text></g>`)}
      ${branches.map((each, lane) => html`<${Branch} branch=${each} at=${at} y=${main + (lane + 1) * LANE} main=${main} />`)}
      <${Dots} at=${at} snapshots=${table.snapshots} y=${main} of="" />
    </svg></div>
    <p class="quiet">From ${new Date(least).toISOString()} to ${new Date(most).toISOString()}; compactions are dim.</p>`;
}
