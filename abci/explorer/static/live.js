// Keeps the network page as it is now. Without this script the page stays as it was when it was loaded.
"use strict";
(() => {
  const pause = document.getElementById("pause");
  if (!pause) return;
  const every = 2000, limit = 8000;
  let tag = "", paused = false;

  // What the reader is at stays: focus, how far tables were moved, and text that is being selected.
  function put(html) {
    const next = new DOMParser().parseFromString(html, "text/html");
    const health = document.getElementById("health"), live = document.getElementById("live");
    const newHealth = next.getElementById("health"), newLive = next.getElementById("live");
    if (!newHealth || !newLive) return;
    if (health.innerHTML !== newHealth.innerHTML) {
      health.className = newHealth.className;
      health.replaceChildren(...newHealth.childNodes);
    }
    const places = (root) => [...root.querySelectorAll("a, [tabindex]")];
    const focused = places(live).indexOf(document.activeElement);
    const name = focused >= 0 ? document.activeElement.getAttribute("href") : null;
    const moved = [...live.querySelectorAll(".wide")].map((e) => e.scrollLeft);
    live.replaceChildren(...newLive.childNodes);
    live.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = moved[i] || 0; });
    if (focused >= 0) {
      const all = places(live);
      const same = name && all.find((e) => e.getAttribute("href") === name);
      (same || all[focused])?.focus({ preventScroll: true });
    }
  }

  function say(answered) {
    const stale = document.getElementById("stale");
    const text = answered ? "" : "The node does not answer. What is shown may be old.";
    if (stale.textContent !== text) stale.textContent = text;
  }

  function busy() {
    const selected = document.getSelection();
    return paused || document.hidden || (selected && !selected.isCollapsed);
  }

  async function look() {
    if (!busy()) {
      try {
        const answer = await fetch("/live", { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store", signal: AbortSignal.timeout(limit) });
        if (answer.status === 200) {
          const html = await answer.text();
          if (!busy()) {
            put(html);
            tag = answer.headers.get("ETag") || "";
          }
        }
        say(answer.ok || answer.status === 304);
      } catch {
        say(false);
      }
    }
    setTimeout(look, every);
  }

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
  });
  setTimeout(look, every);
})();
