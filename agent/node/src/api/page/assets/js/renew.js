// Loads the page anew where the agent has another one, once; then it asks with a button. A
// classic script and the first of all, as what comes behind it may not be there any more.
"use strict";
(() => {
  const KEY = "forebay.renewed";
  /** So soon behind the last time it did not help. */
  const AGAIN_MS = 60_000;
  const own = document.currentScript.src.split("/").at(-2);
  let asks = false;

  /** Whether the page may load itself: not where it was tried, nor where that cannot be kept. */
  function mayReload() {
    try {
      const last = JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
      const now = Date.now();
      sessionStorage.setItem(KEY, JSON.stringify({ own, at: now }));
      return last.own !== own && !(Math.abs(now - last.at) < AGAIN_MS);
    } catch {
      return false;
    }
  }

  function ask() {
    document.getElementById("renew").hidden = false;
    document.getElementById("renew-now").addEventListener("click", () => location.reload());
  }

  function renew() {
    if (asks) {
      return;
    }
    asks = true;
    if (mayReload()) {
      location.reload();
    } else if (document.readyState === "loading") {
      document.addEventListener("DOMContentLoaded", ask);
    } else {
      ask();
    }
  }

  // A part that is not given out any more: the agent was replaced while the page was loaded.
  addEventListener("error", (event) => event.target instanceof HTMLScriptElement && renew(), true);

  /** Which page this is, and what to do where that is not the agent's. */
  window.forebayPage = { version: own, renew };
})();
