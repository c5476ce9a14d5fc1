//! What is different after a command, as its answer lists it.

use super::answer::Changed;
use crate::search::page::json_bytes;
use crate::text::answer_size::{AnswerRoom, TextSize};

/// Files that an answer lists.
pub const LISTED_MAX: usize = 200;

/// What is different after a command.
#[derive(Default)]
pub struct Difference {
    /// The files, as many as are listed; `None` where nobody knows.
    pub list: Option<Vec<Changed>>,
    /// How many there are.
    pub total: Option<usize>,
}

impl Difference {
    /// Nothing is different.
    pub const fn none() -> Self {
        Self { list: Some(Vec::new()), total: Some(0) }
    }

    /// Leaves as many of them as have room, and one at least.
    pub fn shorten(&mut self, room: AnswerRoom) {
        let mut size = TextSize::default();
        let mut has_room = |changed: &Changed| {
            let is_first = size == TextSize::default();
            size = size.and(TextSize::plain(usize::try_from(json_bytes(changed)).unwrap_or(usize::MAX)));
            is_first || room.holds(size)
        };
        if let Some(list) = &mut self.list {
            let fitting = list.iter().take_while(|changed| has_room(changed)).count();
            list.truncate(fitting);
        }
    }

    /// How many are listed.
    pub fn listed(&self) -> usize {
        self.list.as_ref().map_or(0, Vec::len)
    }
}
