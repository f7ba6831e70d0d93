// The chosen colours, before the first paint. A classic script: modules run too late.
"use strict";
(() => {
  const media = { light: "not all", dark: "all", auto: "(prefers-color-scheme: dark)" };
  /** Takes "light", "dark", or "auto", which is as the system has it. */
  window.forebayScheme = (wanted) => {
    const scheme = wanted in media ? wanted : "auto";
    document.documentElement.dataset.scheme = scheme;
    document.getElementById("dark").media = media[scheme];
  };
  let wanted = "auto";
  try {
    wanted = localStorage.getItem("forebay.scheme") ?? "auto";
  } catch {
    // Storage is switched off: the system's choice holds.
  }
  window.forebayScheme(wanted);
})();
