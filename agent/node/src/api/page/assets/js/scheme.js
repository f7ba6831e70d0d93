// The chosen colours, before the first paint. A classic script: modules run too late.
"use strict";
(() => {
  let wanted = "auto";
  try {
    wanted = localStorage.getItem("forebay.scheme") ?? "auto";
  } catch {
    // Storage is switched off: the system's choice holds.
  }
  if (wanted === "light" || wanted === "dark") {
    document.documentElement.dataset.scheme = wanted;
  }
})();
