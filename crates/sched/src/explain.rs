//! Shows a graph to people: as text, and in the language of Graphviz.

mod turns;

use crate::{AccessSet, Edge, Graph, RelationId, Target, TxIndex};
use turns::list;
pub use turns::{SharedRow, Turns};

/// The facts that showing a graph needs.
pub struct Explained<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The access sets it was built from.
    pub sets: &'a [AccessSet],
    /// Names a relation.
    pub relation_name: &'a dyn Fn(RelationId) -> String,
    /// The EFFECTS transactions that follow each other.
    pub turns: &'a [Turns],
}

impl Explained<'_> {
    /// The components with their stages. Then the turns of EFFECTS transactions, with the rows and
    /// reasons. Then who waits for whom, in which way and where. Ends with a new line. A part
    /// beyond `bytes_max` is left out, line by line, and how much that is stands at the end.
    ///
    /// Cost: for each edge shown, a comparison of the places of both transactions.
    pub fn text(&self, bytes_max: usize) -> String {
        let graph = self.graph;
        let path = graph.critical_path();
        let mut out = Bounded::new(bytes_max);
        out.add(|| {
            format!(
                "transactions: {}, edges: {}, components: {}, critical path: {}{}\n",
                graph.transactions(),
                graph.edges(),
                graph.components(),
                path.len(),
                if path.len() > 1 { format!(" ({})", list(&path)) } else { String::new() },
            )
        });
        for component in 0..graph.components() {
            out.add(|| {
                let stages: Vec<String> = graph.stages(component).iter().map(|stage| list(stage)).collect();
                format!("component {component}: {}\n", stages.join(" | "))
            });
        }
        for line in self.turns.iter().flat_map(Turns::lines) {
            out.add(|| line + "\n");
        }
        for (tx, edge) in self.edges() {
            out.add(|| format!("t{tx} waits for t{}: {}\n", edge.earlier, self.why(tx, edge)));
        }
        out.end("", "")
    }

    /// The same as a directed graph, an arrow from the earlier to the later transaction.
    pub fn dot(&self, bytes_max: usize) -> String {
        let graph = self.graph;
        let mut out = Bounded::new(bytes_max);
        out.text.push_str("digraph block {\n  rankdir=LR;\n  node [shape=box];\n");
        for component in 0..graph.components() {
            out.add(|| {
                let stages = graph.stages(component);
                let stages = (0..).zip(&stages).map(|(number, stage): (usize, _)| {
                    let nodes: String = stage.iter().map(|tx| format!(" t{tx};")).collect();
                    format!("    {{ rank=same;{nodes} }} // stage {number}\n")
                });
                let stages: String = stages.collect();
                format!("  subgraph cluster_{component} {{\n    label=\"component {component}\";\n{stages}  }}\n")
            });
        }
        let mut rows = 0;
        for turns in self.turns {
            for line in turns.dot_lines(rows) {
                out.add(|| line + "\n");
            }
            rows += turns.rows.len();
        }
        for (tx, edge) in self.edges() {
            out.add(|| {
                let label = self.why(tx, edge).replace('\\', "\\\\").replace('"', "\\\"");
                format!("  t{} -> t{tx} [label=\"{label}\"];\n", edge.earlier)
            });
        }
        out.end("  // ", "}\n")
    }

    fn edges(&self) -> impl Iterator<Item = (TxIndex, &Edge)> {
        let graph = self.graph;
        (0..graph.transactions()).flat_map(|tx| graph.waits_for(tx).iter().map(move |edge| (tx, edge)))
    }

    /// Names the ways and the targets.
    fn why(&self, tx: TxIndex, edge: &Edge) -> String {
        if edge.kinds.is_empty() {
            return String::from("the rest of the block is serial");
        }
        let (later, earlier) = (&self.sets[tx as usize], &self.sets[edge.earlier as usize]);
        if later.is_everything() || earlier.is_everything() {
            return format!("{} of everything", edge.kinds);
        }
        let (_, targets) = later.dependencies_on(earlier);
        let names: Vec<String> = targets.iter().map(|target| self.target_name(*target)).collect();
        format!("{} of {}", edge.kinds, names.join(", "))
    }

    fn target_name(&self, target: Target) -> String {
        let relation = (self.relation_name)(target.relation());
        match target {
            Target::Rows(_) => relation,
            Target::Keys(_, key) => format!("key {key} of {relation}"),
        }
    }
}

/// A text of so many bytes at most, and what follows at its end.
struct Bounded {
    text: String,
    bytes_max: usize,
    left_out: usize,
}

impl Bounded {
    fn new(bytes_max: usize) -> Self {
        Bounded { text: String::new(), bytes_max, left_out: 0 }
    }

    /// Adds a piece whole, or leaves it out, and all after it.
    fn add(&mut self, piece: impl FnOnce() -> String) {
        if self.left_out == 0 {
            let piece = piece();
            if self.text.len() + piece.len() <= self.bytes_max {
                return self.text.push_str(&piece);
            }
        }
        self.left_out += 1;
    }

    /// Says, as a `comment`, how many pieces were left out; then the `last` line.
    fn end(mut self, comment: &str, last: &str) -> String {
        if self.left_out > 0 {
            self.text.push_str(&format!("{comment}{} more are left out\n", self.left_out));
        }
        self.text + last
    }
}
