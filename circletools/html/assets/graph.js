// --- graph: the position of everything, in pixels at scale 1 -----------------------------------------------------

const BOX = { width: 176, height: 42 };
const PITCH = { x: 200, y: 72 };
const PAD = { x: 16, top: 30, bottom: 14 };
const FOLDED = { width: 220, height: 48 };
const GAP = 44;
const LANE = 10;
const MANY = 20000;

/**
 * The layout of a subgraph: boxes of operators, groups with their frames, edges. Folding a group repeats the layout.
 * A subgraph with a counterpart takes the space that both need, so that pairs are at the same place.
 */
class Picture {
  constructor(subgraph, twin = null) {
    this.subgraph = subgraph;
    this.layout = subgraph.layout;
    const { groups } = this.layout;
    this.framed = groups.length > 1 || groups.some((group) => (group.partition ?? group.module) !== null);
    this.folded = groups.map(() => this.framed && groups.length > 1 && subgraph.count > MANY);
    this.x = new Float32Array(subgraph.count);
    this.y = new Float32Array(subgraph.count);
    this.extents = groups.map(() => ({ left: Infinity, right: -Infinity, levels: 1, lanes: 0 }));
    this.crossLanes = 0;
    for (const one of twin ? [this.layout, twin.layout] : [this.layout]) this.#measure(one);
    this.place();
  }

  /** Compute the width and height of each group. */
  #measure({ group, level, column, edges }) {
    for (let operator = 0; operator < group.length; operator++) {
      const extent = this.extents[group[operator]];
      extent.left = Math.min(extent.left, column[operator]);
      extent.right = Math.max(extent.right, column[operator]);
      extent.levels = Math.max(extent.levels, level[operator] + 1);
    }
    for (let edge = 0; edge < edges.lane.length; edge++) {
      const [from, to] = [group[edges.source[edge]], group[edges.target[edge]]];
      if (from === to) this.extents[from].lanes = Math.max(this.extents[from].lanes, edges.lane[edge] + 1);
      else this.crossLanes = Math.max(this.crossLanes, edges.lane[edge] + 1);
    }
  }

  /** Place the groups row by row, and the operators in them. */
  place() {
    const { group, level, column, groups } = this.layout;
    const sizes = this.extents.map((extent, number) => this.#size(extent, this.folded[number]));
    const rows = [];
    groups.forEach((one, number) => (rows[one.row] ??= []).push(number));
    this.frames = [];
    let y = 0;
    for (const row of rows) {
      const width = row.reduce((sum, number) => sum + sizes[number].width + GAP, -GAP);
      let x = -width / 2;
      for (const number of row) {
        this.frames[number] = { x, y, ...sizes[number], row: groups[number].row };
        x += sizes[number].width + GAP;
      }
      y += row.reduce((most, number) => Math.max(most, sizes[number].height), 0) + GAP;
    }
    for (let operator = 0; operator < group.length; operator++) {
      const [frame, extent] = [this.frames[group[operator]], this.extents[group[operator]]];
      this.x[operator] = frame.x + PAD.x + ((column[operator] - extent.left) / 2) * PITCH.x;
      this.y[operator] = frame.y + PAD.top + level[operator] * PITCH.y;
    }
    this.left = this.frames.reduce((least, frame) => Math.min(least, frame.x), 0) - LANE * (this.crossLanes + 2);
    this.right = this.frames.reduce((most, frame) => Math.max(most, frame.x + frame.width), 0);
    this.height = Math.max(y - GAP, BOX.height);
    this.#route();
  }

  #size(extent, folded) {
    if (folded) return FOLDED;
    const columns = (extent.right - extent.left) / 2;
    const lanes = extent.lanes ? (extent.lanes + 1) * LANE : 0;
    return {
      width: columns * PITCH.x + BOX.width + 2 * PAD.x + lanes,
      height: (extent.levels - 1) * PITCH.y + BOX.height + PAD.top + PAD.bottom,
    };
  }

  /** Give each edge its ends and lane; drop edges inside folded groups, and merge those with the same ends. */
  #route() {
    const { group, edges, groups } = this.layout;
    this.routes = [];
    const drawn = new Set();
    for (let edge = 0; edge < edges.lane.length; edge++) {
      const [source, target] = [edges.source[edge], edges.target[edge]];
      const [from, to] = [group[source], group[target]];
      if (from === to && this.folded[from]) continue;
      if (this.folded[from] || this.folded[to]) {
        const key = `${this.folded[from] ? `g${from}` : source}>${this.folded[to] ? `g${to}` : target}`;
        if (drawn.has(key)) continue;
        drawn.add(key);
      }
      const lane = edges.lane[edge];
      const frame = this.frames[from];
      const inner = frame.x + frame.width - (this.extents[from].lanes - lane) * LANE - PAD.x / 2;
      this.routes.push({
        edge,
        source,
        target,
        cut: from !== to && groups[from].partition !== groups[to].partition,
        x1: this.folded[from] ? frame.x + frame.width / 2 : this.x[source] + BOX.width / 2,
        y1: this.folded[from] ? frame.y + frame.height : this.y[source] + BOX.height,
        x2: this.folded[to] ? this.frames[to].x + this.frames[to].width / 2 : this.x[target] + BOX.width / 2,
        y2: this.folded[to] ? this.frames[to].y : this.y[target],
        lane: lane < 0 ? null : from === to ? inner : this.left + LANE * (1 + lane),
      });
    }
  }

  fold(group, folded = !this.folded[group]) {
    this.folded[group] = folded;
    this.place();
  }

  foldAll(folded) {
    this.folded.fill(folded);
    this.place();
  }

  visible(operator) {
    return !this.folded[this.layout.group[operator]];
  }

  /** The object at a point: {operator}; {group} for a frame's title or a folded group; or null. */
  at(x, y) {
    for (let operator = 0; operator < this.subgraph.count; operator++) {
      const [dx, dy] = [x - this.x[operator], y - this.y[operator]];
      if (dx >= 0 && dx <= BOX.width && dy >= 0 && dy <= BOX.height && this.visible(operator)) return { operator };
    }
    if (!this.framed) return null;
    const group = this.frames.findIndex((frame, number) => {
      const height = this.folded[number] ? frame.height : PAD.top - 4;
      return x >= frame.x && x <= frame.x + frame.width && y >= frame.y && y <= frame.y + height;
    });
    return group < 0 ? null : { group };
  }

  /** The next operator in a direction: readers below, producers above, else the nearest on its level. */
  next(operator, key) {
    const { subgraph } = this;
    if (key === 'ArrowDown' || key === 'ArrowUp') {
      const around = key === 'ArrowDown' ? subgraph.fed(operator) : subgraph.feeders(operator);
      const distance = (other) =>
        Math.abs(this.x[other] - this.x[operator]) + Math.abs(this.y[other] - this.y[operator]);
      return around.length ? around.reduce((a, b) => (distance(b) < distance(a) ? b : a)) : null;
    }
    const sign = key === 'ArrowRight' ? 1 : -1;
    let best = null;
    for (let other = 0; other < subgraph.count; other++) {
      const step = sign * (this.x[other] - this.x[operator]);
      if (this.y[other] !== this.y[operator] || step <= 0 || !this.visible(other)) continue;
      if (best === null || step < sign * (this.x[best] - this.x[operator])) best = other;
    }
    return best;
  }
}
