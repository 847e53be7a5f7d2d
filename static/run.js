// The Run page: the feed moves the figure, the table, the progress, the log and the newest episode.
import { make, readJSON, setText } from "./dom.js";
import { Figure } from "./charts.js";
import { follow } from "./live.js";
import { Windows } from "./windows.js";
import { Talk } from "./talk.js";

const logLines = 300;
const terminal = ["stopped", "completed", "failed"];

export function startRun() {
  const live = readJSON("live");
  if (!live) return;
  const figure = new Figure(readJSON("figure"), document.getElementById("figure2"));
  const windows = new Windows(live.windows ?? []);
  const talk = new Talk(document.getElementById("talk"));
  for (const event of live.events ?? []) talk.add(event);
  for (const button of document.querySelectorAll("[data-zoom]")) button.addEventListener("click", () => figure.zoom(button.dataset.zoom));
  const log = document.getElementById("log");
  log.scrollTop = log.scrollHeight;

  const handle = {
    step({ step, data }) {
      figure.add(step, data.metrics);
      windows.add(step, data.metrics);
      showSteps(step + 1, live.steps);
    },
    rewind: () => location.reload(), // history is another now: ask for it anew
    phase({ step, data }) {
      const bar = document.getElementById("phase-bar");
      bar.max = Math.max(data.total, 1);
      bar.value = data.done;
      setText(document.getElementById("phase-name"), `step ${step}: ${data.name}`);
      setText(document.getElementById("phase-count"), `${data.done} of ${data.total}`);
    },
    status: ({ data }) => {
      showStatus(data);
      learn(live.run);
    },
    log: ({ data, time }) => addLog(log, data, time),
    candidate: (event) => talk.add(event),
    judgement: (event) => talk.add(event),
    rollout: (event) => talk.add(event),
    dispute: (event) => talk.add(event),
  };
  follow(live.run, live.after, (event) => handle[event.kind]?.(event), showConnection);
}

function showSteps(done, steps) {
  const bar = document.getElementById("steps-bar");
  bar.value = done;
  setText(document.getElementById("steps-done"), `${done} of ${steps} steps`);
}

function showStatus({ status, error }) {
  for (const node of document.querySelectorAll("#status")) {
    node.dataset.status = status;
    setText(node, status);
  }
  const note = document.getElementById("status-note");
  setText(note, error ?? "");
  note.hidden = !error;
  const ended = terminal.includes(status);
  document.getElementById("stop").hidden = ended || status === "stopping";
  document.getElementById("resume").hidden = status !== "stopped" && status !== "failed";
  document.getElementById("phase").hidden = ended;
}

// learn fills in what is known only once the trainer has opened the model and the corpus.
async function learn(run) {
  try {
    const answer = await fetch(`/api/v1/runs/${run}`);
    if (!answer.ok) return;
    const { model, corpus } = await answer.json();
    if (model) setText(document.querySelector('[data-fact="model"]'), model);
    if (corpus) setText(document.querySelector('[data-fact="images"]'), corpus);
  } catch { /* the connection's state says so already */ }
}

const connection = {
  connecting: "connecting…",
  live: "live",
  lost: "connection lost, trying again",
};

function showConnection(state) {
  const node = document.getElementById("connection");
  node.dataset.state = state;
  setText(node, connection[state]);
}

function addLog(list, { level, message }, time) {
  const below = list.scrollHeight - list.scrollTop - list.clientHeight < 24; // follow only where the reader is at the end
  const item = make("li");
  item.dataset.level = level;
  const at = make("time", "", time.slice(11, 19));
  at.dateTime = time;
  item.append(at, make("span", "", message));
  list.append(item);
  while (list.children.length > logLines) list.firstChild.remove();
  list.hidden = false;
  document.getElementById("no-log").hidden = true;
  if (below) list.scrollTop = list.scrollHeight;
}
