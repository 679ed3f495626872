"use strict";
// Keeps the page as fresh as the exporter: asks for it again, takes over what differs, and runs its clocks.
// It makes no HTML of its own: what the server has escaped is parsed as a document and moved over.

const REFRESH = 2000; // milliseconds
const REQUEST_TIMEOUT = 4000;
const UNITS = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
const MOST_UNITS = 3;
const page = document.getElementById("main");
const lost = document.getElementById("lost");
let serverTime = 0; // what the server's clock said in its last answer ...
let answeredAt = 0; // ... and when that was, by a clock that never jumps
let busy = false;

// The same words as in wording.py.
function length(seconds) {
  let rest = Math.trunc(seconds);
  const parts = [];
  let told = 0;
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || parts.length) parts.push(`${count}${unit}`);
    if (count && parts.length <= MOST_UNITS) told = parts.length;
  }
  return parts.slice(0, told).join(" ") || "0s";
}

function countdown(seconds) {
  if (Math.abs(seconds) < 1) return "due now";
  return seconds > 0 ? `in ${length(seconds)}` : "may begin at any moment";
}

function ago(seconds) {
  return `${length(Math.max(0, seconds))} ago`;
}

function now() {
  return serverTime + (performance.now() - answeredAt) / 1000;
}

function setText(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

function updateTimes(root) {
  for (const time of root.querySelectorAll("[data-until]")) {
    const seconds = time.dataset.until - now();
    const unknown = seconds <= -1 && document.body.classList.contains("stale");
    setText(time, unknown ? `NotBefore passed ${ago(-seconds)}; whether it began is unknown` : countdown(seconds));
    time.toggleAttribute("data-overdue", seconds <= -1);
  }
  for (const time of root.querySelectorAll("[data-since]")) setText(time, ago(now() - time.dataset.since));
}

// Makes `old` equal to `fresh` and leaves alone what is equal already, with its focus and the text marked in it.
function renew(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType !== Node.ELEMENT_NODE) {
    old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const name of old.getAttributeNames()) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  let at = old.firstChild;
  for (const child of [...fresh.childNodes]) {
    const same = child.id ? [...old.children].find((one) => one.id === child.id) : at;
    if (same && same.nodeName === child.nodeName && same.id === child.id) {
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      renew(same, child);
    } else {
      old.insertBefore(child, at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function readServerTime(main) {
  serverTime = Number(main.dataset.now);
  answeredAt = performance.now();
}

function showAnswer(fresh) {
  const main = fresh.getElementById("main");
  readServerTime(main);
  updateTimes(main);
  updateTimes(page);
  const announcement = main.dataset.announcement;
  if (announcement !== page.dataset.announcement || !lost.hidden) setText(document.getElementById("announcement"), announcement);
  renew(page, main);
  document.title = fresh.title;
  document.body.classList.remove("stale");
  lost.hidden = true;
}

function showFailure(reason) {
  if (!lost.hidden) return;
  document.getElementById("server-time").dataset.since = serverTime;
  document.body.classList.add("stale");
  // Without what it said before: "No events" is not known any more.
  document.title = `Exporter not reached - ${document.querySelector("h1").textContent}`;
  lost.hidden = false;
  lost.querySelector("[role=alert]").textContent =
    `The exporter cannot be reached (${reason}). Nobody knows what IMDS says now.`;
  updateTimes(document);
}

async function refresh() {
  if (busy) return;
  busy = true;
  try {
    const patience = AbortSignal.timeout(REQUEST_TIMEOUT);
    // By origin: a page that was opened with user and password in its address may not fetch an address that has them.
    const answer = await fetch(location.origin + location.pathname, { cache: "no-store", redirect: "error", signal: patience });
    if (!answer.ok) throw new Error(`it answered ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (!fresh.getElementById("main")?.dataset.now) throw new Error("something else answered");
    if (fresh.documentElement.dataset.version !== document.documentElement.dataset.version) location.reload();
    else showAnswer(fresh);
  } catch (error) {
    if (error.name === "TimeoutError") showFailure("no answer in time");
    else showFailure(error instanceof TypeError ? "no connection" : error.message);
  } finally {
    busy = false;
  }
}

readServerTime(page);
setInterval(() => updateTimes(document), 1000);
setInterval(refresh, REFRESH);
document.addEventListener("visibilitychange", () => document.hidden || refresh());
