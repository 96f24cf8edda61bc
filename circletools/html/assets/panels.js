// --- panels: overview and findings -------------------------------------------------------------------------------

const MOST_ROWS = 200;
const HOT = 12;

function truncated(rows, total, what) {
  return total > rows.length
    ? make('p', { class: 'quiet' }, `the first ${rows.length} of ${counted(total, what)}`)
    : null;
}

// --- overview ---

function overviewPanel() {
  const panel = make('div', { class: 'panel', id: 'overview-panel' });
  const fill = () =>
    panel.replaceChildren(
      ...notes(),
      make(
        'div',
        { class: 'cards' },
        figuresCard(),
        devicesCard(),
        hotCard(),
        findingsCard(),
        codesCard(),
        ...interfaceCards(),
        fileCard(),
        metadataCard(),
      ),
    );
  return { panel, fill };
}

function notes() {
  const note = (...text) => make('p', { class: 'note' }, ...text);
  const { affinity, origins } = doc;
  return [
    affinity && ['stale', 'malformed'].includes(affinity.state)
      ? note(`The affinity is ${affinity.state}: ${shown(affinity.reason)}`)
      : null,
    ['stale', 'malformed'].includes(origins.state)
      ? note(`The origins are ${origins.state}: ${shown(origins.reason)}`)
      : null,
  ].filter(Boolean);
}

function figuresCard() {
  const times = operatorTimes();
  const figure = (value, what) => make('div', {}, make('b', {}, value), make('span', {}, what));
  const known = subgraphs.filter(({ transfers }) => transfers);
  const add = (name) => known.reduce((sum, { transfers }) => sum + transfers[name], 0);
  const found = (severity) => doc.findings.filter((finding) => finding.severity === severity).length;
  const operators = subgraphs.reduce((sum, { count }) => sum + count, 0);
  const section = card(
    'Summary',
    make(
      'div',
      { class: 'figures' },
      figure(operators.toLocaleString('en'), operators === 1 ? 'operator' : 'operators'),
      times
        ? figure(
            duration(times.total_ns / times.executions),
            `each of ${counted(times.executions, 'execution')} (${times.runtime})`,
          )
        : null,
      known.length ? figure(add('launches').toLocaleString('en'), 'partitions to launch') : null,
      known.length ? figure(add('cut_count').toLocaleString('en'), 'tensors cut') : null,
      known.length
        ? figure(bytes(add('copied_bytes')), `in ${counted(add('copies'), 'copy', 'copies')} between devices`)
        : null,
      figure(`${found('error')} / ${found('warning')}`, 'errors / warnings'),
    ),
  );
  section.classList.add('wide');
  return section;
}

function hotCard() {
  const times = operatorTimes();
  if (!times) return null;
  const rows = subgraphs
    .flatMap((subgraph) => Array.from({ length: subgraph.count }, (_, operator) => [subgraph, operator]))
    .filter(([subgraph, operator]) => subgraph.time(operator))
    .sort((a, b) => b[0].time(b[1]) - a[0].time(a[1]))
    .slice(0, HOT);
  return card(
    'Hot spots',
    table(
      [
        ['operator', 'tight'],
        ['output', 'long'],
        ['time', 'number'],
        ['share', 'number'],
        ['', 'tight'],
      ],
      rows.map(([subgraph, operator]) => [
        operatorLink(subgraph.index, operator),
        front(subgraph.output(operator)),
        duration(subgraph.time(operator) / times.executions),
        percent(subgraph.time(operator), times.total_ns),
        bar(subgraph.time(operator), rows[0][0].time(rows[0][1])),
      ]),
      'Hot spots',
    ),
  );
}

function devicesCard() {
  if (!devices.length) return null;
  const times = operatorTimes();
  const rows = sums((subgraph, operator) => subgraph.device(operator));
  const parts = new Map();
  for (const subgraph of subgraphs) {
    for (const { device, partition } of subgraph.layouts[0].groups) {
      if (partition !== null) parts.set(device, (parts.get(device) ?? 0) + 1);
    }
  }
  const all = rows.reduce((sum, [, count]) => sum + count, 0);
  const strip = (value) =>
    make(
      'div',
      { class: 'strip', 'aria-hidden': 'true' },
      rows.map((row) =>
        make('i', {
          width: (100 * value(row)) / (rows.reduce((sum, other) => sum + value(other), 0) || 1),
          background: row[0] === null ? 'var(--none)' : devices[row[0]].color,
          title: deviceName(row[0]),
        }),
      ),
    );
  const columns = [
    ['device', ''],
    ['operators', 'number'],
    ['', 'number'],
    ['partitions', 'number'],
  ];
  if (times) columns.push(['time', 'number'], ['share', 'number']);
  const strips = [
    ['operators', strip(([, count]) => count)],
    ...(times ? [['time', strip(([, , time]) => time)]] : []),
  ].flatMap(([what, one]) => [make('span', { class: 'quiet' }, what), one]);
  return card(
    'Devices',
    make('div', { class: 'labelled' }, strips),
    table(
      columns,
      rows.map(([device, count, time]) => [
        deviceChip(device),
        count.toLocaleString('en'),
        percent(count, all),
        String(parts.get(device) ?? 0),
        ...(times ? [duration(time / times.executions), percent(time, times.total_ns)] : []),
      ]),
      'Devices',
    ),
  );
}

function codesCard() {
  const times = operatorTimes();
  const rows = sums((subgraph, operator) => subgraph.code(operator));
  const columns = [
    ['code', 'name'],
    ['operators', 'number'],
  ];
  if (times) columns.push(['time', 'number'], ['share', 'number']);
  return card(
    'Operator codes',
    table(
      columns,
      rows
        .slice(0, MOST_ROWS)
        .map(([code, count, time]) => [
          link(shown(code), () => showOperators(code)),
          count.toLocaleString('en'),
          ...(times ? [duration(time / times.executions), percent(time, times.total_ns)] : []),
        ]),
      'Operator codes',
    ),
    truncated(rows.slice(0, MOST_ROWS), rows.length, 'code'),
  );
}

function showOperators(text) {
  openTab('operators');
  operatorTable.filter.value = text;
  operatorTable.refresh();
}

function interfaceCards() {
  return subgraphs.slice(0, 12).map((subgraph) => {
    const rows = ['inputs', 'outputs'].flatMap((direction) =>
      subgraph.facts[direction]
        .slice(0, MOST_ROWS)
        .map((entry, slot) => [
          `${direction.slice(0, -1)} ${slot}`,
          entry.tensor in subgraph.tensors.name
            ? link(shown(entry.name) || '(noname)', () =>
                select({ kind: 'tensor', subgraph: subgraph.index, tensor: entry.tensor }, 'link'),
              )
            : shown(entry.name),
          `${entry.type}[${entry.shape.join(', ')}]`,
        ]),
    );
    const name = subgraph.facts.name ? ` ${shown(subgraph.facts.name)}` : '';
    return card(
      doc.subgraphs.length > 1 ? `Inputs and outputs of subgraph ${subgraph.index}${name}` : 'Inputs and outputs',
      table(
        [
          ['', 'tight'],
          ['tensor', 'name'],
          ['type', 'tight'],
        ],
        rows,
        'Inputs and outputs',
      ),
    );
  });
}

function fileCard() {
  const { model } = doc;
  const names = (entries) => entries.map(({ name }) => shown(name)).join(', ');
  const facts = [
    ['format', `${model.format}, schema version ${model.version}`],
    ['description', shown(model.description)],
    ['size', `${bytes(model.file_bytes)}, flatbuffer ${bytes(model.flatbuffer_bytes)}`],
    [
      'buffers',
      `${model.buffers.count.toLocaleString('en')}, ${bytes(model.buffers.inside_bytes)} in the flatbuffer`,
    ],
    ...model.external.map(({ kind, count, bytes: size }) => ['external', `${count} × ${kind}, ${bytes(size)}`]),
    [
      'trailing data',
      model.trailing_bytes
        ? `${bytes(model.trailing_bytes)} ${model.associated_files.slice(0, 20).map(shown).join(', ')}`
        : '',
    ],
    ['subgraphs', String(subgraphs.length)],
    ...model.signatures
      .slice(0, MOST_ROWS)
      .map(({ key, subgraph, inputs, outputs }) => [
        'signature',
        `${shown(key)} (subgraph ${subgraph}): ${names(inputs)} → ${names(outputs)}`,
      ]),
    ['report', doc.circletools && `circletools ${doc.circletools}`],
  ];
  return card('File', terms(facts));
}

function metadataCard() {
  const { metadata } = doc.model;
  if (!metadata.length) return null;
  const rows = metadata.slice(0, MOST_ROWS);
  return card(
    'Metadata',
    table(
      [
        ['entry', 'name'],
        ['size', 'number'],
      ],
      rows.map((entry) => [shown(entry.name), entry.bytes === null ? '–' : bytes(entry.bytes)]),
      'Metadata',
    ),
    truncated(rows, metadata.length, 'entry'),
  );
}

// --- findings ---

function findingRow({ code, severity, location, message }) {
  const place = placeOf(location);
  const go = () => {
    if (place.operator !== undefined) selectOperator(place.subgraph, place.operator, 'link');
    else if (place.tensor !== undefined) select({ kind: 'tensor', ...place }, 'link');
    else views[0].show(place.subgraph);
    openTab('graph');
  };
  return [
    make('span', { class: severity }, severity),
    make('span', {}, code),
    place ? link(shown(location), go) : named(location),
    shown(message),
  ];
}

const FINDING_COLUMNS = [
  ['severity', 'tight'],
  ['code', 'tight'],
  ['place', 'name'],
  ['what', 'name'],
];
const bySeverity = [...doc.findings].sort(
  (a, b) => ['error', 'warning', 'info'].indexOf(a.severity) - ['error', 'warning', 'info'].indexOf(b.severity),
);

function findingsCard() {
  if (!doc.findings.length) return null;
  const rows = bySeverity.slice(0, 6);
  return card(
    'Findings',
    table(FINDING_COLUMNS, rows.map(findingRow), 'Findings'),
    doc.findings.length > rows.length ? link(`all ${doc.findings.length}`, () => openTab('findings')) : null,
  );
}

function findingsPanel() {
  const rows = bySeverity.slice(0, 2000);
  const contents = rows.length
    ? table(FINDING_COLUMNS, rows.map(findingRow), 'Findings')
    : make('p', { class: 'quiet' }, 'None: structure, indices, outputs, origins and affinity are valid.');
  return make(
    'div',
    { class: 'panel' },
    card('Findings of check', contents, truncated(rows, doc.findings.length, 'finding')),
  );
}
