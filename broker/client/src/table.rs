//! A map for ids that grow: newest last, found by binary search, walked without hashing.

/// Values by ids that are handed out in ascending order.
#[derive(Debug)]
pub(crate) struct Table<T>(Vec<(u64, T)>);

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Table<T> {
    /// Adds a value, replacing the one that had the id.
    pub(crate) fn insert(&mut self, id: u64, value: T) {
        match self.0.last() {
            Some((last, _)) if *last >= id => match self.find(id) {
                Ok(at) => self.0[at].1 = value,
                Err(at) => self.0.insert(at, (id, value)),
            },
            _ => self.0.push((id, value)),
        }
    }

    pub(crate) fn get(&self, id: u64) -> Option<&T> {
        self.find(id).ok().map(|at| &self.0[at].1)
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<T> {
        self.find(id).ok().map(|at| self.0.remove(at).1)
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(&mut self.0).into_iter().map(|(_, value)| value)
    }

    fn find(&self, id: u64) -> Result<usize, usize> {
        self.0.binary_search_by_key(&id, |(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_in_whatever_order_they_came() {
        let mut table = Table::default();
        for id in [3, 5, 1, 9, 5] {
            table.insert(id, id * 10);
        }
        assert_eq!(table.get(5), Some(&50));
        assert_eq!(table.get(4), None);
        assert_eq!(table.remove(1), Some(10));
        assert_eq!(table.drain().collect::<Vec<_>>(), [30, 50, 90]);
    }
}
