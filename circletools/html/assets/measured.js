// --- measured: what plans took -----------------------------------------------------------------------------------

const micros = (value) => (value === null ? '' : value.toLocaleString('en', { maximumFractionDigits: 1 }));

function plansCard() {
  return card(
    'Plans',
    table(
      [
        ['plan', 'name'],
        ['parts', 'number'],
        ['measured µs', 'number'],
        ['', 'name'],
      ],
      doc.measured.map((plan) => [
        shown(plan.name),
        plan.part_count.toLocaleString('en'),
        micros(plan.measured_us),
        shown(plan.failure),
      ]),
      'Plans',
    ),
  );
}

function partsCard(plan) {
  if (plan.part_count < 2) return null;
  const rows = plan.parts.slice(0, MOST_ROWS);
  return card(
    `${shown(plan.name)}: parts`,
    table(
      [
        ['device', 'name'],
        ['operators', 'name'],
        ['measured µs', 'number'],
      ],
      rows.map((part) => [
        shown(part.device),
        listed(part.operators, (operator) => operatorLink(0, operator)),
        micros(part.measured_us),
      ]),
      'Parts',
    ),
    truncated(rows, plan.part_count, 'part'),
  );
}

function measuredPanel() {
  return make('div', { class: 'panel' }, plansCard(), doc.measured.map(partsCard));
}
