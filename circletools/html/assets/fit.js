// --- fit: whether the model runs on targets, and if not, why ---------------------------------------------------

const VERDICTS = { resident: 'resident', not_resident: 'not resident', not_known: 'not known' };
const VERDICT_CLASSES = { resident: 'info', not_resident: 'error', not_known: 'warning' };

function verdictOf({ verdict }) {
  return make('span', { class: VERDICT_CLASSES[verdict] }, VERDICTS[verdict]);
}

function targetsCard() {
  const number = (value) => value.toLocaleString('en');
  return card(
    'Targets',
    table(
      [
        ['target', 'name'],
        ['verdict', 'tight'],
        ['operators', 'number'],
        ['refused', 'number'],
        ['not measured', 'number'],
        ['partitions', 'number'],
        ['bytes across', 'number'],
      ],
      doc.fit.map((target) => [
        shown(target.target),
        verdictOf(target),
        number(target.operator_count),
        number(target.refused_count),
        number(target.not_measured_count),
        number(target.partition_count),
        bytes(target.cut_bytes),
      ]),
      'Targets',
    ),
  );
}

/** A source, with a link to its line if that has an address. */
function withLine(name, { file, line, url } = {}) {
  if (!file) return shown(name);
  const place = shown(line ? `${file}:${line}` : file);
  const linked = { href: url, target: '_blank', rel: 'noreferrer' };
  return [shown(name), ' ', url ? make('a', linked, place) : `(${place})`];
}

function originOf({ origin, origin_from: from, origin_details: details = [] }) {
  const names = joined(origin.map((name, at) => withLine(name, details[at])));
  return from === 'tables' ? names : [...names, ' (output)'];
}

function obstaclesCard(target) {
  if (!target.obstacles.length) return null;
  return card(
    `${shown(target.target)}: why the model does not load`,
    table(
      [
        ['where', 'name'],
        ['problem', 'name'],
      ],
      target.obstacles.map(({ location, message }) => [shown(location), shown(message)]),
      'Problems that prevent loading',
    ),
  );
}

function misfitsCard(target) {
  if (!target.findings.length) return null;
  const rows = target.findings.slice(0, MOST_ROWS);
  return card(
    `${shown(target.target)}: operators that are not supported`,
    table(
      [
        ['operator', 'tight'],
        ['reason', 'name'],
        ['change', 'name'],
        ['origin', 'name'],
      ],
      rows.map((finding) => [
        operatorLink(finding.subgraph, finding.operator_index),
        finding.measured ? shown(finding.reason) : `not measured: ${shown(finding.reason)}`,
        shown(finding.remedy),
        originOf(finding),
      ]),
      'Refused operators',
    ),
    truncated(rows, target.refused_count + target.not_measured_count, 'operator'),
  );
}

function blamedCard(target) {
  if (!target.source_count) return null;
  const rows = target.sources.slice(0, MOST_ROWS);
  return card(
    `${shown(target.target)}: change these sources, and nothing is refused`,
    table(
      [
        ['source', 'name'],
        ['refused operators', 'number'],
        ['operators', 'name'],
        ['computed bytes', 'number'],
      ],
      rows.map((source) => [
        withLine(source.source, source),
        source.operator_count.toLocaleString('en'),
        listed(source.operators, ({ subgraph, operator_index: operator }) => operatorLink(subgraph, operator)),
        bytes(source.computed_bytes),
      ]),
      'Sources to change',
    ),
    truncated(rows, target.source_count, 'source'),
  );
}

function fitPanel() {
  return make(
    'div',
    { class: 'panel' },
    targetsCard(),
    doc.fit.map((target) => [obstaclesCard(target), misfitsCard(target), blamedCard(target)]),
  );
}
