// A chart of `seconds` seconds up to `moment` in the zone of the browser, as the page makes
// it: what its axis, its cursor and its table say of times, and what they should.
async (moment, seconds) => {
  const part = (name) => import(new URL(name, document.querySelector("script[type=module]").src));
  const [{ Chart }, { RANGES }] = await Promise.all([part("chart.js"), part("series.js")]);
  const now = Date.parse(moment) * 1000;
  const host = document.querySelector("#chart-list");
  const channel = { device: "boiler", channel: "temperature", unit: "degC", period_us: seconds * 1e4, newestUs: now, value: 1 };
  let late = 0;
  // A clock that goes on between two looks at it.
  const chart = new Chart(host, channel, () => now + 1000 * late++);
  const range = RANGES.find((one) => one.seconds === seconds);
  chart.begin({ range, window: "60s" });
  const times = Array.from({ length: 100 }, (_, at) => now - (99 - at) * seconds * 1e4);
  chart.takeReadings({ times, values: times.map((_, at) => at) });
  const starts = Array.from({ length: 40 }, (_, at) => now - (40 - at) * range.band * 1e6);
  const same = (value) => starts.map(() => value);
  chart.takeRollups({ starts, ends: starts.map((at) => at + range.band * 1e6), count: same(1), mean: same(1), min: same(0), max: same(2), preliminary: same(false) });
  chart.draw();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  const { u } = chart.plot;
  chart.tableBox.open = true;
  chart.table();
  const format = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const faults = [];
  const unique = (what, all) => {
    const twice = all.filter((one, at) => all.indexOf(one) !== at);
    if (twice.length > 0) faults.push(`${what} twice: ${twice}`);
  };
  const span = u.scales.x.max - u.scales.x.min;
  if (Math.abs(span - seconds) > 1e-6) faults.push(`${span} s are shown`);
  const axis = u.axes[0];
  const shown = axis._splits.map((at, nth) => [at, axis._values[nth]]).filter(([, label]) => label !== null);
  if (shown.length < 3) faults.push(`labels ${shown}`);
  shown.forEach(([at, label], nth) => {
    if (nth > 0 && at <= shown[nth - 1][0]) faults.push(`${label} goes back`);
    if (at < u.scales.x.min || at > u.scales.x.max) faults.push(`${label} is outside`);
    const [date, time] = format.format(at * 1000).split(" ");
    const says = label.includes(time.slice(0, 5)) || (time === "00:00:00" && label === date.slice(5));
    if (!says) faults.push(`${label} at ${date} ${time}`);
  });
  unique("labels", shown.map(([, label]) => label));
  const read = [];
  for (let at = 0; at < 100; at += 1) {
    chart.plot.point(at);
    const said = chart.readout.textContent.split(",")[0];
    read.push(said);
    const [date, time] = format.format(times[at] / 1000).split(" ");
    const today = format.format(now / 1000).startsWith(date);
    if (!said.startsWith(today ? time : `${date} ${time}`)) faults.push(`${said} at ${date} ${time}`);
  }
  unique("readouts", read);
  unique("rows", [...chart.tableBox.querySelectorAll("tbody th")].map((cell) => cell.textContent));
  const labels = shown.map(([, label]) => label);
  window.chartOfZones?.destroy();
  window.chartOfZones = chart;
  return { faults, labels, read: [read[0], read[99]] };
}
