// --- colors: the ways to color operators, and their legends -----------------------------------------------------

const PALETTE = ['#9ecae9', '#ffbf79', '#88d27a', '#f2cf5b', '#ff9d98', '#d6a5c9', '#83bcb6', '#d8b5a5'];
const FINE = '#88d27a';

/** The ways to color operators: key, title, a function for the colors (null means by heat), and the legend. */
function colorings() {
  return [
    doc.diff && ['change', 'change', byChange],
    devices.length && ['device', 'device', byDevice],
    operatorTimes() && ['time', 'time', byTime],
    ['code', 'operator code', byCode],
    doc.modules.parent.length && ['module', 'module', byModule],
    ...(doc.fit ?? []).map((one) => [`fit ${one.target}`, `refused by ${tail(one.target, 30)}`, byRefusal(one)]),
    findingsOf.size && ['finding', 'finding', byFinding],
  ].filter(Boolean);
}

function byDevice(subgraph, { none }) {
  const color = (device) => (device === null ? none : devices[device].color);
  return {
    of: (operator) => color(subgraph.device(operator)),
    legend: devices.map(({ name, color: own }) => [own, tail(name, 30)]),
  };
}

function byTime(subgraph, { heat, surface }) {
  return { of: () => null, legend: [[mixed(heat, surface, 0.2), 'fast'], [mixed(heat, surface, 0.6), 'slow']] };
}

/** Colors for the most frequent values of `key`, named by `title`. */
function byKind(subgraph, { none }, key, title) {
  const counts = new Map();
  for (let operator = 0; operator < subgraph.count; operator++) {
    const kind = key(operator);
    if (kind !== null) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  const order = [...counts].sort((a, b) => b[1] - a[1]).map(([kind]) => kind);
  const colors = new Map(order.slice(0, PALETTE.length).map((kind, at) => [kind, PALETTE[at]]));
  return {
    of: (operator) => colors.get(key(operator)) ?? none,
    legend: [...colors].map(([kind, color]) => [color, tail(title(kind), 30)]),
  };
}

function byCode(subgraph, theme) {
  const order = sums((one, operator) => one.code(operator)).map(([code]) => code);
  const color = (code) => PALETTE[order.indexOf(code)] ?? theme.none;
  return {
    of: (operator) => color(subgraph.code(operator)),
    legend: order.slice(0, PALETTE.length).map((code, at) => [PALETTE[at], tail(code, 30)]),
  };
}

function byModule(subgraph, theme) {
  const { group, groups } = subgraph.layouts[subgraph.layouts.length - 1];
  return byKind(subgraph, theme, (operator) => groups[group[operator]].module, pathOf);
}

function byRefusal({ refused_at: refused, not_measured_at: unknown }) {
  return (subgraph, { error, warning }) => {
    const inside = (places) => new Set(places.filter(([index]) => index === subgraph.index).map(([, one]) => one));
    const [bad, open] = [inside(refused), inside(unknown)];
    return {
      of: (operator) => (bad.has(operator) ? error : open.has(operator) ? warning : FINE),
      legend: [[error, 'refused'], [warning, 'not known'], [FINE, 'supported']],
    };
  };
}

function byFinding(subgraph, { error, warning, quiet, none }) {
  const color = (found) =>
    !found
      ? none
      : found.some(({ severity }) => severity === 'error')
        ? error
        : found.some(({ severity }) => severity === 'warning')
          ? warning
          : quiet;
  return {
    of: (operator) => color(findingsOf.get(`${subgraph.index}/${operator}`)),
    legend: [[error, 'error'], [warning, 'warning'], [quiet, 'info']],
  };
}
