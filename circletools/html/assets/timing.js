// --- time: by device, code and source, by layer and phase --------------------------------------------------------

function timePanel() {
  const panel = make('div', { class: 'panel' });
  const fill = () =>
    panel.replaceChildren(
      make(
        'div',
        { class: 'cards' },
        ...(operatorTimes()
          ? [
              doc.modules.parent.length ? new FlameGraph(operatorTimes()).card() : null,
              ...[runCard(operatorTimes()), backendsCard(), sourcesCard(), addedCard(operatorTimes())],
            ]
          : []),
        ...doc.traces.flatMap(layerCards),
      ),
    );
  return { panel, fill };
}

function runCard(times) {
  const facts = [
    ['trace', shown(times.name)],
    ['runtime', times.runtime],
    ['executions', times.executions.toLocaleString('en') + (times.averaged ? ', averages only' : '')],
    ['each', duration(times.total_ns / times.executions)],
    ['all', duration(times.total_ns)],
    ['incomplete', times.incomplete_events ? counted(times.incomplete_events, 'event') : ''],
    [
      'unchecked',
      times.unchecked_operators
        ? `${counted(times.unchecked_operators, 'operator')} whose names do not identify the code`
        : '',
    ],
    ['left out', times.ignored_marks.slice(0, 20).map(shown).join(', ')],
  ];
  return card(
    'Operator times',
    terms(facts),
    link('operators, longest first', () => {
      openTab('operators');
      operatorTable.sort('time', true);
    }),
  );
}

/** A table of total times by the device that ran operators, and by the device requested for them. */
function backendsCard() {
  const times = operatorTimes();
  const asked = devices.length > 0;
  const key = (subgraph, operator) => {
    const columns = times.subgraphs[subgraph.index];
    const ran =
      columns.total_ns[operator] === null ? 'not in the trace' : times.backends[columns.backend[operator]] || '–';
    return JSON.stringify([asked ? subgraph.device(operator) : null, ran]);
  };
  const columns = [
    ...(asked ? [['requested', '']] : []),
    ['ran on', 'name'],
    ['operators', 'number'],
    ['time', 'number'],
    ['share', 'number'],
  ];
  return card(
    'By device',
    table(
      columns,
      sums(key).map(([text, count, time]) => {
        const [device, ran] = JSON.parse(text);
        return [
          ...(asked ? [deviceChip(device)] : []),
          shown(ran),
          count.toLocaleString('en'),
          duration(time / times.executions),
          percent(time, times.total_ns),
        ];
      }),
      'Time by device',
    ),
  );
}

function sourcesCard() {
  const times = operatorTimes();
  const rows = times.sources_ns
    .map((time, row) => [row, time])
    .filter(([, time]) => time)
    .sort((a, b) => b[1] - a[1]);
  const some = rows.slice(0, 25);
  return card(
    doc.origins.from === 'tables' ? 'By source' : 'By name',
    table(
      [
        ['source', 'long'],
        ['time', 'number'],
        ['share', 'number'],
        ['', 'tight'],
      ],
      some.map(([row, time]) => [
        sourceLink(row, true),
        duration(time / times.executions),
        percent(time, times.total_ns),
        bar(time, some[0][1]),
      ]),
      'Time by source',
    ),
    truncated(some, rows.length, 'source'),
  );
}

const ADDED = { inserted: 'inserted by the runtime', delegate: 'run by a delegate', inside: 'part of another row' };

function addedCard(times) {
  if (!times.added.length) return null;
  const rows = [...times.added].sort((a, b) => b.total_ns - a.total_ns).slice(0, MOST_ROWS);
  return card(
    'Not in the model',
    table(
      [
        ['what', 'tight'],
        ['name', 'name'],
        ['ran on', 'name'],
        ['time', 'number'],
        ['share', 'number'],
      ],
      rows.map((row) => [
        ADDED[row.kind],
        shown(row.name),
        row.backends.map(shown).join(' '),
        duration(row.total_ns / times.executions),
        row.kind === 'inside' ? '' : percent(row.total_ns, times.total_ns),
      ]),
      'Time outside the model',
    ),
    truncated(rows, times.added.length, 'row'),
  );
}

const LAYERS = { LA: 'application', LR: 'runtime', LI: 'IPC', LD: 'driver', LC: 'CPU' };
const PHASES = {
  PO: 'overall',
  PWU: 'warm-up',
  PBM: 'benchmark',
  PI: 'initialisation',
  PP: 'preparation',
  PC: 'compilation',
  PE: 'execution',
  PIO: '· inputs, outputs',
  PTR: '· transformation',
  PCO: '· computation',
  PR: '· results',
  PT: 'termination',
};

/** A table with a column for each layer and a row for each phase; cells have self time and inclusive time. */
function matrix(buckets) {
  const at = new Map(buckets.map((bucket) => [`${bucket.layer} ${bucket.phase}`, bucket]));
  const layers = Object.keys(LAYERS).filter((layer) => buckets.some((bucket) => bucket.layer === layer));
  const phases = Object.keys(PHASES).filter((phase) => buckets.some((bucket) => bucket.phase === phase));
  const all = buckets.reduce((sum, { self_ns: own }) => sum + own, 0);
  const sum = (chosen) => buckets.filter(chosen).reduce((total, { self_ns: own }) => total + own, 0);
  const cell = (bucket) =>
    bucket
      ? [
          duration(bucket.self_ns),
          make('span', { class: 'quiet' }, ` / ${duration(bucket.inclusive_ns)}`),
          bar(bucket.self_ns, all),
        ]
      : '';
  const rows = phases.map((phase) => [
    `${PHASES[phase]}`,
    ...layers.map((layer) => make('div', {}, cell(at.get(`${layer} ${phase}`)))),
    duration(sum((bucket) => bucket.phase === phase)),
  ]);
  rows.push(['sum', ...layers.map((layer) => duration(sum((bucket) => bucket.layer === layer))), duration(all)]);
  return make(
    'div',
    { class: 'matrix' },
    table(
      [['phase', 'tight'], ...layers.map((layer) => [LAYERS[layer], 'number']), ['sum', 'number']],
      rows,
      'Time by layer and phase',
    ),
  );
}

function layerCards(trace) {
  const box = make('div', {}, matrix(trace.buckets));
  const chooser = make(
    'select',
    {
      'aria-label': 'Run',
      onchange: () => {
        const run = trace.runs[chooser.value];
        box.replaceChildren(matrix(run ? run.parts[0].buckets : trace.buckets));
      },
    },
    make('option', { value: '' }, `all ${counted(trace.run_count, 'run')}`),
    trace.runs.map((run, at) =>
      make('option', { value: at }, run.index < 0 ? 'outside runs' : `run ${run.index} ${shown(run.name)}`),
    ),
  );
  const layers = card(
    `Layers and phases: ${shown(trace.name)}`,
    trace.run_count > 1 ? chooser : null,
    make('p', { class: 'quiet' }, 'self time / inclusive time'),
    box,
  );
  layers.classList.add('wide');
  const some = trace.functions.slice(0, 25);
  const functions = card(
    'Functions',
    table(
      [
        ['layer', 'tight'],
        ['phase', 'tight'],
        ['mark', 'long'],
        ['calls', 'number'],
        ['self', 'number'],
        ['inclusive', 'number'],
      ],
      some.map((one) => [
        LAYERS[one.layer] ?? one.layer,
        PHASES[one.phase] ?? one.phase,
        front(one.name),
        one.calls.toLocaleString('en'),
        duration(one.self_ns),
        duration(one.inclusive_ns),
      ]),
      'Functions',
    ),
    truncated(some, trace.function_count, 'function'),
  );
  functions.classList.add('wide');
  return [
    layers,
    executionsCard(trace),
    functions,
    trace.diagnostics.length
      ? card(
          'Diagnostics',
          table(
            [
              ['severity', 'tight'],
              ['code', 'tight'],
              ['place', 'name'],
              ['what', 'name'],
            ],
            trace.diagnostics.map((one) => [
              make('span', { class: one.severity }, one.severity),
              one.code,
              shown(one.location),
              `${shown(one.message)}${one.count > 1 ? ` (${one.count} times)` : ''}; ${one.hint}`,
            ]),
            'Diagnostics',
          ),
        )
      : null,
  ];
}

function executionsCard(trace) {
  const rows = trace.runs
    .filter((run) => run.parts[0].executions.count)
    .map((run) => [run.index < 0 ? 'outside runs' : `run ${run.index}`, run.parts[0].executions]);
  rows.push(...trace.driver_executions.map((one) => [`driver, ${one.by}`, one]));
  return card(
    'Executions',
    table(
      [
        ['', 'tight'],
        ['number', 'number'],
        ['first', 'number'],
        ['median', 'number'],
        ['p90', 'number'],
        ['longest', 'number'],
        ['at once', 'number'],
      ],
      rows.map(([title, one]) => [
        title,
        one.count.toLocaleString('en'),
        duration(one.first_ns),
        duration(one.median_ns),
        duration(one.p90_ns),
        duration(one.max_ns),
        String(one.most_at_once ?? '–'),
      ]),
      'Executions',
    ),
    truncated(trace.runs, trace.run_count, 'run'),
  );
}
