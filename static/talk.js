// The newest episode as it is spoken: candidates, screening, rollouts, evaluation. Everything said is shown as text.
import { make, setText } from "./dom.js";

export class Talk {
  constructor(root) {
    this.root = root;
    this.step = -1;
    this.slots = new Map(); // slot -> episode of the step
    this.slot = null; // the one shown
    this.pending = false;
  }

  add(event) {
    const { kind, data, step } = event;
    if (step < this.step) return;
    if (step > this.step) {
      this.step = step;
      this.slots.clear();
      this.slot = null;
    }
    const episode = this.episode(data);
    if (kind === "candidate") episode.candidates.set(data.g, data);
    if (kind === "rollout") episode.rollouts.set(data.k, data);
    if (kind === "judgement") episode.judgements.set(`${data.judge} ${data.target} ${data.attempt}`, data);
    if (kind === "dispute") episode.dispute = data;
    this.choose(data.slot, kind);
    this.draw();
  }

  episode(data) {
    if (!this.slots.has(data.slot)) this.slots.set(data.slot, { image: data.image, candidates: new Map(), rollouts: new Map(), judgements: new Map(), dispute: null });
    return this.slots.get(data.slot);
  }

  // choose stays with the first image of the step, and leaves it once for one that reached the Solver where it did not.
  choose(slot, kind) {
    if (this.slot === null) this.slot = slot;
    if (kind === "rollout" && this.slots.get(this.slot).rollouts.size === 0) this.slot = slot;
  }

  draw() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.render();
    });
  }

  render() {
    const episode = this.slots.get(this.slot);
    if (!episode) return;
    this.root.hidden = false;
    document.getElementById("no-talk").hidden = true;
    setText(document.getElementById("talk-place"), `step ${this.step}, image ${this.slot + 1}`);
    const image = this.root.querySelector("img");
    const source = `/api/v1/images/${episode.image}`;
    if (/^[0-9a-f]{64}$/.test(episode.image) && image.getAttribute("src") !== source) image.src = source;

    const turns = [];
    const heard = (judge, target) => [...episode.judgements.values()].filter((j) => j.judge === judge && j.target === target);
    for (const candidate of sorted(episode.candidates, "g")) {
      turns.push(candidateTurn(candidate));
      for (const judgement of heard("screening", candidate.g)) turns.push(judgementTurn(judgement));
    }
    for (const rollout of sorted(episode.rollouts, "k")) {
      turns.push(rolloutTurn(rollout));
      for (const judge of ["equivalence", "reasoning"]) for (const judgement of heard(judge, rollout.k)) turns.push(judgementTurn(judgement));
    }
    if (episode.dispute) turns.push(disputeTurn(episode.dispute));
    this.place(turns);
  }

  // place replaces only the turns that changed, so that a selection of text and the scroll position stay.
  place(turns) {
    const list = this.root.querySelector(".turns");
    turns.forEach((turn, i) => {
      const old = list.children[i];
      if (!old) list.append(turn);
      else if (!old.isEqualNode(turn)) old.replaceWith(turn);
    });
    while (list.children.length > turns.length) list.lastChild.remove();
  }
}

function sorted(map, key) {
  return [...map.values()].sort((a, b) => a[key] - b[key]);
}

function turn(who, what, ...notes) {
  const node = make("div", "turn");
  const role = make("div", "role");
  role.append(make("b", "", who));
  if (what) role.append(make("span", "", what));
  for (const note of notes) if (note) role.append(note);
  node.append(role);
  return node;
}

function verdict(name, is) {
  const node = make("span", "verdict", name);
  node.dataset.is = is === undefined ? "none" : is ? "yes" : "no";
  return node;
}

function candidateTurn(c) {
  const node = turn("Questioner", `candidate ${c.g + 1}`, c.selected && make("span", "tag on", "selected"), !c.format_ok && make("span", "tag warn", "malformed"));
  if (c.selected) node.classList.add("selected");
  node.append(make("p", "said", c.format_ok ? `${c.question}  ${c.answer}` : c.text));
  return node;
}

function judgementTurn(j) {
  const notes = [];
  const f = j.fields ?? {};
  if (!j.format_ok) notes.push(make("span", "tag warn", "no verdict could be read"));
  else if (j.judge === "screening") notes.push(verdict("grounded", f.fact_q === 1), verdict("answer right", f.corr_a === 1), make("span", "", `difficulty ${f.difficulty ?? "–"}`));
  else if (j.judge === "reasoning") notes.push(make("span", "", `reasoning ${f.reasoning_score ?? "–"}`));
  else if (j.judge === "equivalence") notes.push(verdict("same answer", f.match === 1));
  else notes.push(make("span", "", f.majority === 1 ? "sides with the Solvers" : "keeps the reference"));
  const node = turn("Verifier", j.judge, ...notes);
  node.classList.add("indent");
  node.append(make("p", "said small", j.justification || j.text));
  return node;
}

function rolloutTurn(r) {
  const node = turn("Solver", `rollout ${r.k + 1}`, !r.format_ok && make("span", "tag warn", r.truncated ? "cut off" : "malformed"), r.final && r.format_ok && verdict("correct", r.correct === 1));
  const said = make("p", "said");
  if (r.format_ok) {
    said.append(make("span", "faint", `${r.think}  `), make("b", "", r.answer));
  } else said.textContent = r.text;
  node.append(said);
  return node;
}

function disputeTurn(d) {
  const node = turn("Dispute", `${d.count} of ${d.formatted} answered “${d.majority}” against “${d.reference}”`, make("span", `tag${d.overturned ? " warn" : ""}`, d.overturned ? "overturned" : "reference kept"));
  if (d.justification) node.append(make("p", "said small", d.justification));
  return node;
}
