//! Lists of mostly one element, which then needs no allocation.

/// A list.
#[derive(Clone, Debug)]
pub(crate) enum Few<T> {
    One(T),
    /// Any number of them.
    Many(Vec<T>),
}

impl<T> Few<T> {
    /// Puts `item` in front of the one at `at`, or at the end.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn insert(&mut self, at: usize, item: T) {
        match std::mem::take(self) {
            Self::Many(items) if items.is_empty() && at == 0 => *self = Self::One(item),
            Self::Many(mut items) => {
                items.insert(at, item);
                *self = Self::Many(items);
            }
            Self::One(only) => {
                let mut items = vec![only];
                items.insert(at, item);
                *self = Self::Many(items);
            }
        }
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl<T> std::ops::Deref for Few<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        match self {
            Self::One(item) => std::slice::from_ref(item),
            Self::Many(items) => items,
        }
    }
}

impl<T> std::ops::DerefMut for Few<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        match self {
            Self::One(item) => std::slice::from_mut(item),
            Self::Many(items) => items,
        }
    }
}

impl<T: PartialEq> PartialEq for Few<T> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Few<T> {}

impl<T: Ord> PartialOrd for Few<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Ord> Ord for Few<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

#[cfg(test)]
mod tests {
    use super::Few;

    #[test]
    fn items_go_where_a_vector_puts_them() {
        for (first, second, third) in [(0, 0, 0), (0, 1, 1), (0, 0, 2)] {
            let (mut few, mut all) = (Few::default(), Vec::new());
            for (item, at) in [first, second, third].into_iter().enumerate() {
                few.insert(at, item);
                all.insert(at, item);
                assert_eq!(*few, *all);
            }
        }
        assert!(Few::One(3) == Few::Many(vec![3]) && Few::One(3) < Few::Many(vec![3, 1]));
    }
}
