//! Shows a graph to people: as text, and in the language of Graphviz.

use std::fmt::Write;

use crate::{AccessSet, Edge, Graph, RelationId, Target, TxIndex};

/// What is needed to show a graph.
pub struct Explained<'a> {
    /// The graph.
    pub graph: &'a Graph,
    /// The access sets it was built from.
    pub sets: &'a [AccessSet],
    /// Names a relation.
    pub relation_name: &'a dyn Fn(RelationId) -> String,
}

impl Explained<'_> {
    /// The components with their stages, then who waits for whom, in which way and where. Ends with a new line.
    ///
    /// Cost: for each edge, a comparison of the places of both transactions.
    pub fn text(&self) -> String {
        let graph = self.graph;
        let path = graph.critical_path();
        let mut out = format!(
            "transactions: {}, edges: {}, components: {}, critical path: {}{}\n",
            graph.transactions(),
            graph.edges(),
            graph.components(),
            path.len(),
            if path.len() > 1 { format!(" ({})", list(&path)) } else { String::new() },
        );
        for component in 0..graph.components() {
            let stages: Vec<String> = graph.stages(component).iter().map(|stage| list(stage)).collect();
            line(&mut out, format_args!("component {component}: {}", stages.join(" | ")));
        }
        for (tx, edge) in self.edges() {
            line(&mut out, format_args!("t{tx} waits for t{}: {}", edge.earlier, self.why(tx, edge)));
        }
        out
    }

    /// The same as a directed graph, an arrow from the earlier to the later transaction. Ends with a new line.
    pub fn dot(&self) -> String {
        let graph = self.graph;
        let mut out = String::from("digraph block {\n  rankdir=LR;\n  node [shape=box];\n");
        for component in 0..graph.components() {
            line(&mut out, format_args!("  subgraph cluster_{component} {{\n    label=\"component {component}\";"));
            for (number, stage) in graph.stages(component).iter().enumerate() {
                let nodes: String = stage.iter().map(|tx| format!(" t{tx};")).collect();
                line(&mut out, format_args!("    {{ rank=same;{nodes} }} // stage {number}"));
            }
            out.push_str("  }\n");
        }
        for (tx, edge) in self.edges() {
            let label = self.why(tx, edge).replace('\\', "\\\\").replace('"', "\\\"");
            line(&mut out, format_args!("  t{} -> t{tx} [label=\"{label}\"];", edge.earlier));
        }
        out.push_str("}\n");
        out
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

fn list(transactions: &[TxIndex]) -> String {
    let names: Vec<String> = transactions.iter().map(|tx| format!("t{tx}")).collect();
    names.join(" ")
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    writeln!(out, "{text}").expect("a String takes all that is written to it");
}
