//! Many short lists in two allocations.

/// Lists by number, filled one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lists<T> {
    /// Where list i begins in `items`; one more than there are lists.
    starts: Vec<u32>,
    items: Vec<T>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { starts: vec![0], items: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// The next list.
    pub fn push(&mut self, list: impl IntoIterator<Item = T>) {
        self.items.extend(list);
        self.starts.push(u32::try_from(self.items.len()).expect("a graph has fewer than 2^32 edges, see STEPS_MAX"));
    }

    /// List `i`, which must exist.
    pub fn get(&self, i: u32) -> &[T] {
        let i = i as usize;
        &self.items[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    /// How many lists there are.
    pub fn len(&self) -> u32 {
        self.starts.len() as u32 - 1 // at most 2^32 - 1 transactions, each with one list
    }

    /// The items of all lists.
    pub fn items(&self) -> &[T] {
        &self.items
    }
}

impl<T: Copy + Default> Lists<T> {
    /// `count` lists from pairs of list and item; the items of a list keep the order of the pairs.
    pub fn group(count: u32, pairs: impl Iterator<Item = (u32, T)> + Clone) -> Self {
        let mut starts = vec![0u32; count as usize + 1];
        pairs.clone().for_each(|(list, _)| starts[list as usize + 1] += 1);
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut items = vec![T::default(); starts[count as usize] as usize];
        for (list, item) in pairs {
            let at = &mut next[list as usize];
            items[*at as usize] = item;
            *at += 1;
        }
        Self { starts, items }
    }
}
