/* The timeline of a report: unpacks the columns of the page, draws the rows that are in sight. */
(() => {
"use strict";
const ROW = 22, OK = 1, FAILED = 2, PENDING = 0, FEW_HOSTS = 12, FEW_GROUPS = 60, PER_GROUP = 50;
const FEW_MATCHES = 400;
const MARKS = ["", "\u2717", "\u2298", "\u25d4"];
const MARK_WORDS = ["", "failed", "host not reached", "not settled"];
const $ = id => document.getElementById(id);
const one = (n, word) => n.toLocaleString("en") + " " + word + (n === 1 ? "" : "s");

let head, cob, step, wait, stepsOf, waitsOf, groups, hosts, switchesOf;
let rows = [], active = 0, view = [0, 1], keep = null, colors = {}, folded = new Map(), asked = false;

function span(ms) {
  if (ms < 60000) return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  if (ms < 3600000) return Math.floor(ms / 60000) + " min " + Math.floor(ms % 60000 / 1000) + " s";
  return Math.floor(ms / 3600000) + " h " + Math.floor(ms % 3600000 / 60000) + " min";
}

async function unpack() {
  const text = atob($("data").textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  const size = new DataView(buffer).getInt32(0, true);
  head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  const parts = {cob: {}, step: {}, wait: {}};
  let at = 4 + size;
  for (const [name, length] of head.columns) {
    const column = new Int32Array(buffer, at, length);
    at += 4 * length;
    if (name.endsWith("+")) for (let i = 1; i < length; i++) column[i] += column[i - 1];
    const [part, key] = name.replace("+", "").split(".");
    parts[part][key] = column;
  }
  ({cob, step, wait} = parts);
  for (let i = 0; i < wait.on.length; i++) wait.on[i] += wait.holder[i];
  stepsOf = offsets(step.cob, cob.host.length);
  waitsOf = offsets(wait.holder, cob.host.length);
}

function offsets(column, count) {
  const first = new Int32Array(count + 1);
  for (let i = 0; i < column.length; i++) first[column[i] + 1]++;
  for (let i = 0; i < count; i++) first[i + 1] += first[i];
  return first;
}

function group() {
  const first = offsets(cob.host, head.hosts.length);
  hosts = head.hosts.map((name, i) => ({
    kind: "host", key: "h" + i, name, from: first[i], to: first[i + 1], open: head.hosts.length <= FEW_HOSTS}));
  switchesOf = hosts.map(() => []);
  for (const [ms, generation, members] of head.switches)
    for (const i of members) switchesOf[i].push([ms, generation]);
  groups = [];
  const size = head.hosts.length > FEW_GROUPS ? PER_GROUP : head.hosts.length;
  for (let i = 0; i < hosts.length; i += size) {
    const part = hosts.slice(i, i + size);
    const name = part[0].name + " \u2026 " + part[part.length - 1].name;
    groups.push({kind: "group", key: "g" + i, name, hosts: part, open: false,
      from: part[0].from, to: part[part.length - 1].to});
  }
}

const nameOf = i => head.hosts[cob.host[i]] + "/" + head.names[cob.name[i]];
const stateOf = i => cob.state[i] < 0 ? "unknown" : head.states[cob.state[i]];

/* --- which rows there are */

function choose() {
  const text = $("filter").value.trim().toLowerCase(), show = $("show").value;
  keep = null;
  if (text || show !== "all") {
    keep = new Uint8Array(cob.host.length);
    for (let i = 0; i < keep.length; i++) keep[i] = fits(i, text, show) ? 1 : 0;
  }
  list();
}

function fits(i, text, show) {
  if (show === "moved" && stepsOf[i] === stepsOf[i + 1]) return false;
  if (show === "failed" && cob.mark[i] !== 1) return false;
  if (show === "waiting" && cob.mark[i] < 2) return false;
  if (show === "critical") {
    let on = false;
    for (let s = stepsOf[i]; s < stepsOf[i + 1]; s++) on = on || step.critical[s] === 1;
    if (!on) return false;
  }
  return !text || nameOf(i).toLowerCase().includes(text) || stateOf(i).toLowerCase() === text;
}

function count(part) {
  let n = 0;
  for (let i = part.from; i < part.to; i++) n += !keep || keep[i];
  return n;
}

function list() {
  const before = rows[active] && rows[active].key;
  const matches = keep ? keep.reduce((sum, it) => sum + it, 0) : 0;
  const all = keep && matches <= FEW_MATCHES;
  rows = [];
  for (const it of groups) {
    if (!count(it)) continue;
    const level = groups.length > 1 ? 1 : 0;
    if (level) rows.push({...it, part: it, level: 0, open: it.open || all});
    if (level && !it.open && !all) continue;
    for (const host of it.hosts) {
      if (!count(host)) continue;
      rows.push({...host, part: host, level, open: host.open || all});
      if (!host.open && !all) continue;
      for (let i = host.from; i < host.to; i++)
        if (!keep || keep[i]) rows.push({kind: "cob", key: "c" + i, cob: i, level: level + 1});
    }
  }
  active = Math.max(0, rows.findIndex(row => row.key === before));
  $("unpacked").textContent = keep ? one(matches, "object") + " of " +
    cob.host.length.toLocaleString("en") + " fit the filter." : "";
  folded.clear();
  size();
}

function size() {
  const most = Math.max(160, Math.floor(innerHeight * 0.65));
  $("rows").style.height = Math.min(rows.length * ROW + 2, most) + "px";
  $("space").style.height = rows.length * ROW + "px";
  redraw();
}

/* --- drawing */

function theme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["fg", "bg", "quiet", "line", "run", "wait", "room", "bad", "crit"])
    colors[name] = style.getPropertyValue("--" + name).trim();
  colors.hatch = hatch(colors.wait);
  colors.cross = hatch(colors.bad, true);
}

function hatch(color, both) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1.4;
  pen.beginPath();
  pen.moveTo(-1, 7); pen.lineTo(7, -1);
  if (both) { pen.moveTo(-1, -1); pen.lineTo(7, 7); }
  pen.stroke();
  return pen.createPattern(tile, "repeat");
}

function redraw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => { asked = false; draw(); });
}

const labelWidth = width => Math.min(260, Math.max(150, Math.round(width * 0.3)));

function canvas(element, width, height) {
  const scale = devicePixelRatio || 1;
  if (element.width !== Math.round(width * scale) || element.height !== Math.round(height * scale)) {
    element.width = Math.round(width * scale);
    element.height = Math.round(height * scale);
    element.style.width = width + "px";
    element.style.height = height + "px";
    folded.clear();
  }
  const pen = element.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function draw() {
  const box = $("rows"), width = box.clientWidth, height = box.clientHeight;
  if (!width) return;
  const left = labelWidth(width), place = {left, width: width - left};
  axis(width, place);
  const pen = canvas($("tracks"), width, height);
  const first = Math.floor(box.scrollTop / ROW);
  const last = Math.min(rows.length, first + Math.ceil(height / ROW) + 1);
  pen.save();
  pen.beginPath();
  pen.rect(left, 0, place.width, height);
  pen.clip();
  for (let i = first; i < last; i++) {
    const y = i * ROW - box.scrollTop;
    pen.fillStyle = colors.line;
    pen.fillRect(left, y + ROW - 1, place.width, 1);
    if (rows[i].kind === "cob") drawCob(pen, rows[i].cob, y, place);
    else drawFold(pen, rows[i], y, place);
    if (rows[i].kind === "host") drawSwitches(pen, cob.host[rows[i].from], y, place);
  }
  pen.restore();
  labels(first, last, left);
  document.documentElement.dataset.ready = "yes";
}

const xOf = (ms, place) => place.left + (ms - view[0]) / (view[1] - view[0]) * place.width;

function axis(width, place) {
  const pen = canvas($("axis"), width, 24);
  const wanted = (view[1] - view[0]) / Math.max(2, place.width / 90);
  let unit = Math.pow(10, Math.floor(Math.log10(Math.max(wanted, 1))));
  if (unit >= 10000) unit = [10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 86400]
    .map(s => s * 1000).find(ms => ms >= wanted) || Math.ceil(wanted / 86400000) * 86400000;
  else unit *= [1, 2, 5, 10].find(n => n * unit >= wanted);
  pen.fillStyle = colors.quiet;
  pen.font = "11px system-ui,sans-serif";
  for (let ms = Math.ceil(view[0] / unit) * unit; ms <= view[1]; ms += unit) {
    const x = xOf(ms, place);
    pen.fillRect(x, 17, 1, 7);
    if (x < width - 40) pen.fillText(ms < 60000 ? +(ms / 1000).toFixed(3) + " s" : span(ms), x + 3, 14);
  }
}

function bar(pen, kind, x, y, width) {
  if (kind === "wait") {
    pen.fillStyle = colors.hatch;
    pen.fillRect(x, y + 14, width, 6);
  } else if (kind === "room") {
    pen.strokeStyle = colors.room;
    pen.setLineDash([2, 2]);
    pen.beginPath();
    pen.moveTo(x, y + 9.5);
    pen.lineTo(x + width, y + 9.5);
    pen.stroke();
    pen.setLineDash([]);
  } else if (kind === "bad") {
    pen.fillStyle = colors.cross;
    pen.fillRect(x, y + 4, width, 10);
    pen.strokeStyle = colors.bad;
    pen.strokeRect(x + .5, y + 4.5, Math.max(1, width - 1), 9);
    pen.fillStyle = colors.bad;
    pen.font = "bold 13px system-ui,sans-serif";
    pen.fillText("\u2717", x + width + 2, y + 14);
  } else {
    pen.fillStyle = colors.run;
    pen.fillRect(x, y + 4, width, 10);
    if (kind === "open") {
      pen.fillStyle = colors.fg;
      pen.fillText("\u2026", x + width + 2, y + 12);
    }
  }
}

function drawCob(pen, i, y, place) {
  const right = place.left + place.width;
  for (let w = waitsOf[i]; w < waitsOf[i + 1]; w++) {
    const end = wait.heard[w] === PENDING ? head.last : wait.asked[w] + wait.took[w];
    const x = xOf(wait.asked[w], place), far = xOf(end, place);
    if (end > wait.asked[w] && far >= place.left && x <= right) bar(pen, "wait", x, y, Math.max(1, far - x));
  }
  for (let s = stepsOf[i]; s < stepsOf[i + 1]; s++) {
    const start = step.start[s], end = step.took[s] < 0 ? head.last : start + step.took[s];
    const x = xOf(start, place), far = xOf(end, place);
    if (step.ready[s] > 0) {
      const from = xOf(start - step.ready[s], place);
      if (x >= place.left && from <= right && x - from > 2) bar(pen, "room", from, y, x - from);
    }
    if (far < place.left || x > right) continue;
    const width = Math.max(2, far - x);
    const kind = step.result[s] === FAILED ? "bad" : step.result[s] === OK ? "run" : "open";
    bar(pen, kind, x, y, width);
    if (step.critical[s]) {
      pen.fillStyle = colors.crit;
      pen.fillRect(x, y + 1, width, 2.5);
    }
    words(pen, s, kind, Math.max(x, place.left), y, far);
  }
}

function drawSwitches(pen, host, y, place) {
  for (const [ms] of switchesOf[host]) diamond(pen, xOf(ms, place), y);
}

function diamond(pen, x, y) {
  pen.fillStyle = colors.fg;
  pen.strokeStyle = colors.bg;
  pen.beginPath();
  pen.moveTo(x, y + 3); pen.lineTo(x + 7, y + 10); pen.lineTo(x, y + 17); pen.lineTo(x - 7, y + 10);
  pen.closePath();
  pen.fill();
  pen.stroke();
}

function words(pen, s, kind, x, y, far) {
  if (kind === "bad") return;
  pen.font = "10px system-ui,sans-serif";
  const text = head.states[step.source[s]] + " \u2192 " + head.states[step.dest[s]];
  if (pen.measureText(text).width + 6 > far - x) return;
  pen.fillStyle = colors.bg;
  pen.fillText(text, x + 3, y + 12.5);
}

function drawFold(pen, row, y, place) {
  const bins = fold(row, place);
  for (const [values, most, style, base, high] of [
    [bins.late, bins.mostLate, colors.hatch, 10, 9], [bins.run, bins.mostRun, colors.run, ROW - 2, 9]]) {
    pen.fillStyle = style;
    for (let x = 0; x < values.length; x++) {
      const tall = values[x] && Math.max(1.5, values[x] / most * high);
      if (tall) pen.fillRect(place.left + x, y + base - tall, 1, tall);
    }
  }
  pen.fillStyle = colors.bad;
  pen.font = "bold 12px system-ui,sans-serif";
  let last = -99;
  for (const x of bins.failed) {
    if (x - last > 7) { pen.fillText("\u2717", place.left + x - 4, y + 12); last = x; }
  }
}

function fold(row, place) {
  const known = folded.get(row.key);
  if (known) return known;
  const width = Math.ceil(place.width), run = new Float64Array(width + 1), late = new Float64Array(width + 1);
  const failed = [];
  const add = (bins, from, to) => {
    const a = Math.max(0, Math.floor(xOf(from, place) - place.left));
    const b = Math.min(width, Math.ceil(xOf(to, place) - place.left));
    if (a < width && b > 0 && b > a) { bins[a]++; bins[b]--; }
  };
  for (let i = row.from; i < row.to; i++) {
    if (keep && !keep[i]) continue;
    for (let s = stepsOf[i]; s < stepsOf[i + 1]; s++) {
      const start = step.start[s], end = step.took[s] < 0 ? head.last : start + step.took[s];
      add(run, start, end);
      if (step.asked[s] > 0) add(late, start - step.asked[s], start);
      const x = Math.round(xOf(end, place) - place.left);
      if (step.result[s] === FAILED && x >= 0 && x <= width) failed.push(x);
    }
    for (let w = waitsOf[i]; w < waitsOf[i + 1]; w++)
      if (wait.heard[w] === PENDING) { add(late, wait.asked[w], head.last); break; }
  }
  let mostRun = 1, mostLate = 1;
  for (let x = 1; x <= width; x++) { run[x] += run[x - 1]; late[x] += late[x - 1]; }
  for (let x = 0; x <= width; x++) {
    mostRun = Math.max(mostRun, run[x]);
    mostLate = Math.max(mostLate, late[x]);
  }
  failed.sort((a, b) => a - b);
  const bins = {run, late, failed, mostRun, mostLate};
  folded.set(row.key, bins);
  return bins;
}

function labels(first, last, left) {
  const box = $("labels"), parts = [];
  for (let i = first; i < last; i++) {
    const row = rows[i], element = document.createElement("div");
    element.className = "row l" + row.level + (i === active ? " active" : "");
    element.id = "row-" + row.key;
    element.setAttribute("role", "row");
    element.setAttribute("aria-level", row.level + 1);
    element.style.top = i * ROW + "px";
    element.style.width = left - 2 + "px";
    element.dataset.row = i;
    const cell = document.createElement("span");
    cell.setAttribute("role", "gridcell");
    cell.className = "name";
    if (row.kind === "cob") {
      cell.textContent = (rows.length && head.names[cob.name[row.cob]]) + " \u00b7 " + stateOf(row.cob);
      element.title = nameOf(row.cob) + " is " + stateOf(row.cob);
      element.append(cell, badge(row.cob));
    } else {
      const sign = document.createElement("span");
      sign.className = "fold";
      sign.textContent = row.open ? "\u25be" : "\u25b8";
      sign.setAttribute("aria-hidden", "true");
      element.setAttribute("aria-expanded", row.open ? "true" : "false");
      cell.textContent = row.name;
      element.title = row.name;
      element.append(sign, cell, ...sums(row));
    }
    parts.push(element);
  }
  box.replaceChildren(...parts);
  if (rows[active]) $("rows").setAttribute("aria-activedescendant", "row-" + rows[active].key);
}

function badge(i) {
  const element = document.createElement("span");
  const mark = cob.mark[i];
  element.className = "badge " + ["", "bad", "bad", "late"][mark];
  element.textContent = MARKS[mark];
  if (mark) element.setAttribute("aria-label", MARK_WORDS[mark]);
  return element;
}

function sums(row) {
  const totals = [0, 0, 0, 0];
  for (let i = row.from; i < row.to; i++) totals[cob.mark[i]]++;
  return [1, 2, 3].filter(mark => totals[mark]).map(mark => {
    const element = document.createElement("span");
    element.className = "badge " + (mark < 3 ? "bad" : "late");
    element.textContent = MARKS[mark] + totals[mark];
    element.title = totals[mark] + " " + MARK_WORDS[mark];
    return element;
  });
}

function legend() {
  const kinds = [["run", "transition"], ["bad", "failed transition"], ["wait", "waits for a lock"],
    ["room", "has its locks, waits for room"], ["crit", "on the critical path"],
    ...head.switches.length ? [["switch", "its host switches to another generation"]] : []];
  $("legend").replaceChildren(...kinds.map(([kind, text]) => {
    const element = document.createElement("span"), picture = document.createElement("canvas");
    const pen = canvas(picture, 34, ROW);
    if (kind === "crit") {
      bar(pen, "run", 2, 0, 28);
      pen.fillStyle = colors.crit;
      pen.fillRect(2, 1, 28, 2.5);
    } else if (kind === "switch") diamond(pen, 17, 0);
    else bar(pen, kind, 2, kind === "wait" ? -6 : 0, kind === "bad" ? 18 : 28);
    element.append(picture, text);
    return element;
  }), "\u2298 host not reached, \u25d4 not settled. Folded rows show how many at once: above those that wait, below those at work.");
}

/* --- one row in words */

function tell(row) {
  const box = $("more");
  if (!row) { box.replaceChildren(); return; }
  const title = document.createElement("h3");
  if (row.kind !== "cob") {
    let moved = 0;
    for (let i = row.from; i < row.to; i++) moved += stepsOf[i + 1] - stepsOf[i];
    const switched = row.kind === "host" ? switchesOf[cob.host[row.from]] : [];
    title.textContent = [row.name + ": " + one(row.to - row.from, "object"), one(moved, "transition"),
      ...switched.map(([ms, generation]) => "switched to generation " + generation + " at " + span(ms))].join(", ");
    box.replaceChildren(title);
    return;
  }
  const i = row.cob;
  title.textContent = nameOf(i) + " is " + stateOf(i) + (cob.mark[i] ? ", " + MARK_WORDS[cob.mark[i]] : "");
  const lines = document.createElement("ol");
  lines.append(...story(i));
  box.replaceChildren(title, ...reasons(i), lines);
}

function reasons(i) {
  const parts = [];
  if (cob.cause[i] >= 0) {
    const text = document.createElement("p");
    text.textContent = "The cause: " + head.causes[cob.cause[i]];
    parts.push(text);
  }
  const failure = head.failures[nameOf(i)];
  if (failure !== undefined && $("failure-" + failure)) {
    const link = document.createElement("a");
    link.href = "#failure-" + failure;
    link.textContent = "what it said";
    parts.push(link);
  }
  return parts;
}

function story(i) {
  const found = [];
  for (let w = waitsOf[i]; w < waitsOf[i + 1]; w++) {
    const told = wait.heard[w] === PENDING ? ", in vain" :
      (wait.heard[w] === 1 ? ", granted after " : ", no longer wanted after ") + span(wait.took[w]);
    found.push([wait.asked[w], 0, "asks for ", wait.on[w], " to be " + head.states[wait.state[w]] + told]);
  }
  for (let s = stepsOf[i]; s < stepsOf[i + 1]; s++) {
    const words = ["goes on when the events stop", "took " + span(step.took[s]), "failed after " + span(step.took[s]),
      "was stopped before it began"];
    const room = step.ready[s] > 0 ? ", had waited " + span(step.ready[s]) + " for room" : "";
    const more = (step.attempt[s] > 1 ? ", attempt " + step.attempt[s] : "") +
      (step.critical[s] ? ", on the critical path" : "");
    found.push([step.start[s], 1, head.states[step.source[s]] + " \u2192 " + head.states[step.dest[s]] + " " +
      words[step.result[s]] + room + more, -1, ""]);
  }
  found.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  return found.map(([ms, , before, other, after]) => {
    const line = document.createElement("li");
    line.append(span(ms) + ": " + before);
    if (other >= 0) {
      const button = document.createElement("button");
      button.textContent = nameOf(other);
      button.addEventListener("click", () => go(other));
      line.append(button);
    }
    line.append(after);
    return line;
  });
}

function go(i) {
  if (keep && !keep[i]) { $("filter").value = ""; $("show").value = "all"; keep = null; }
  const host = hosts[cob.host[i]];
  host.open = true;
  groups.find(it => it.hosts.includes(host)).open = true;
  choose();
  select(rows.findIndex(row => row.cob === i), true);
}

/* --- moving about */

function select(i, told) {
  active = Math.max(0, Math.min(rows.length - 1, i));
  const box = $("rows"), top = active * ROW;
  if (top < box.scrollTop) box.scrollTop = top;
  if (top + ROW > box.scrollTop + box.clientHeight) box.scrollTop = top + ROW - box.clientHeight;
  if (told) tell(rows[active]);
  redraw();
}

function toggle(row, open) {
  if (!row.part || row.open === open) return;
  row.part.open = open;
  list();
}

function zoom(factor, middle) {
  const [from, to] = view, at = middle === undefined ? (from + to) / 2 : middle;
  const least = Math.min(head.last, 10), length = Math.min(head.last, Math.max(least, (to - from) * factor));
  look(at - (at - from) / (to - from) * length, length);
}

function look(from, length) {
  const start = Math.max(0, Math.min(head.last - length, from));
  view = [start, start + length];
  folded.clear();
  redraw();
}

const pan = part => look(view[0] + (view[1] - view[0]) * part, view[1] - view[0]);
const whole = () => look(0, head.last);

function foldAll(open) {
  if (open && cob.host.length > 20000) for (const it of groups) it.open = true;
  else for (const it of [...groups, ...hosts]) it.open = open;
  list();
}

function parent(i) {
  for (let j = i - 1; j >= 0; j--) if (rows[j].level < rows[i].level) return j;
  return i;
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const row = rows[active] || {}, page = Math.floor($("rows").clientHeight / ROW);
  const does = {
    ArrowDown: () => select(active + 1, true), ArrowUp: () => select(active - 1, true),
    PageDown: () => select(active + page, true), PageUp: () => select(active - page, true),
    Home: () => select(0, true), End: () => select(rows.length - 1, true),
    ArrowRight: () => row.part && !row.open ? toggle(row, true) : select(active + 1, true),
    ArrowLeft: () => row.part && row.open ? toggle(row, false) : select(parent(active), true),
    Enter: () => { toggle(row, !row.open); tell(rows[active]); }, " ": () => toggle(row, !row.open),
    "+": () => zoom(.5), "=": () => zoom(.5), "-": () => zoom(2), "0": whole,
    "[": () => pan(-.25), "]": () => pan(.25)}[event.key];
  if (!does) return;
  event.preventDefault();
  does();
}

function mouse() {
  const box = $("rows");
  let held = null;
  const timeAt = event => {
    const rect = box.getBoundingClientRect(), left = labelWidth(box.clientWidth);
    return view[0] + (event.clientX - rect.left - left) / (box.clientWidth - left) * (view[1] - view[0]);
  };
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : .8, timeAt(event));
  }, {passive: false});
  box.addEventListener("pointerdown", event => {
    if (event.button === 0 && event.pointerType === "mouse") held = {x: event.clientX, from: view[0], moved: false};
  });
  addEventListener("pointermove", event => {
    if (!held) return;
    const length = view[1] - view[0], by = (event.clientX - held.x) / (box.clientWidth - labelWidth(box.clientWidth));
    if (Math.abs(event.clientX - held.x) > 4) held.moved = true;
    if (held.moved) look(held.from - by * length, length);
  });
  addEventListener("pointerup", () => { setTimeout(() => { held = null; }); });
  box.addEventListener("click", event => {
    if (held && held.moved) return;
    const y = event.clientY - box.getBoundingClientRect().top + box.scrollTop;
    const i = Math.floor(y / ROW);
    if (!rows[i]) return;
    active = i;
    if (rows[i].part && event.target.closest(".row")) toggle(rows[i], !rows[i].open);
    select(i, true);
  });
}

function connect() {
  $("rows").addEventListener("scroll", redraw, {passive: true});
  $("rows").addEventListener("keydown", key);
  $("filter").addEventListener("input", choose);
  $("show").addEventListener("input", choose);
  $("in").addEventListener("click", () => zoom(.5));
  $("out").addEventListener("click", () => zoom(2));
  $("all").addEventListener("click", whole);
  $("unfold").addEventListener("click", () => foldAll(true));
  $("fold").addEventListener("click", () => foldAll(false));
  mouse();
  addEventListener("resize", size);
  addEventListener("keydown", event => {
    if (event.key !== "/" || /INPUT|SELECT/.test(event.target.tagName)) return;
    event.preventDefault();
    $("filter").focus();
  });
  addEventListener("beforeprint", () => { for (const it of document.querySelectorAll("#failures details")) it.open = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { theme(); legend(); redraw(); });
}

async function start() {
  await unpack();
  if (!cob.host.length) { $("unpacked").textContent = "The run has no events of objects."; return; }
  head.last = Math.max(1, head.last);
  view = [0, head.last];
  group();
  theme();
  $("chart").hidden = false;
  legend();
  connect();
  choose();
  draw();
}

start().catch(error => {
  $("unpacked").textContent = "The timeline cannot be shown in this browser (" + error.message + "); all else is here.";
});
})();
