//! Batches: several messages in one list, and their responses in another.
//!
//! Servers must accept them in revision 2025-03-26; the revision before leaves them to JSON-RPC, and later ones have
//! none.

use std::collections::HashSet;

use rmcp::model::{ProtocolVersion, RequestId};

/// Largest number of messages in a batch.
pub const MESSAGES_MAX: usize = 100;
/// Largest list of responses, in bytes: a longer one is sent in several, since clients drop the connection at about 10
/// MB.
const LIST_BYTES_MAX: usize = 4_000_000;

/// Returns true if a revision has batches.
#[must_use]
pub fn has_batches(revision: &ProtocolVersion) -> bool {
    [ProtocolVersion::V_2024_11_05, ProtocolVersion::V_2025_03_26].contains(revision)
}

/// The unanswered batches.
#[derive(Debug, Default)]
pub struct Batches(Vec<Batch>);

/// A batch.
#[derive(Debug)]
struct Batch {
    /// Its unanswered requests.
    waiting: HashSet<RequestId>,
    /// Responses so far, each without a line end.
    answers: Vec<Vec<u8>>,
}

impl Batches {
    /// Adds a batch with its requests and the errors of its other messages; returns the line that answers it if it has
    /// no requests.
    pub fn begin(&mut self, waiting: HashSet<RequestId>, errors: Vec<Vec<u8>>) -> Option<Vec<u8>> {
        let answers = errors.into_iter().map(without_ending).collect();
        self.0.push(Batch { waiting, answers });
        self.taken()
    }

    /// Returns the line to send for the response to a request: the response if the request came alone, the batch's list
    /// once the batch is complete.
    pub fn answered(&mut self, id: &RequestId, line: Vec<u8>) -> Option<Vec<u8>> {
        let Some(batch) = self.of(id) else { return Some(line) };
        let bytes: usize = batch.answers.iter().map(Vec::len).sum();
        let is_full = bytes + line.len() > LIST_BYTES_MAX && !batch.answers.is_empty();
        let part = is_full.then(|| list_of(&std::mem::take(&mut batch.answers)));
        batch.answers.push(without_ending(line));
        match (part, self.taken()) {
            (Some(part), Some(rest)) => Some([part, rest].concat()),
            (part, rest) => part.or(rest),
        }
    }

    /// Does the same for a cancelled request, which gets no response.
    pub fn forget(&mut self, id: &RequestId) -> Option<Vec<u8>> {
        self.of(id)?;
        self.taken()
    }

    /// Returns the batch of a request, and removes the request from it.
    fn of(&mut self, id: &RequestId) -> Option<&mut Batch> {
        self.0.iter_mut().find_map(|batch| batch.waiting.remove(id).then_some(batch))
    }

    /// Returns the line that answers a complete batch, if there is one with responses.
    fn taken(&mut self) -> Option<Vec<u8>> {
        let at = self.0.iter().position(|batch| batch.waiting.is_empty())?;
        let answers = self.0.swap_remove(at).answers;
        (!answers.is_empty()).then(|| list_of(&answers))
    }
}

/// Returns a line without its end.
fn without_ending(mut line: Vec<u8>) -> Vec<u8> {
    line.truncate(line.trim_ascii_end().len());
    line
}

/// Returns responses as a line with a list.
fn list_of(answers: &[Vec<u8>]) -> Vec<u8> {
    [b"[".as_slice(), &answers.join(&b','), b"]\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a number as an id.
    fn id(number: i64) -> RequestId {
        RequestId::Number(number)
    }

    /// Adds a batch that waits for these requests.
    fn waiting(batches: &mut Batches, ids: &[i64]) {
        assert_eq!(batches.begin(ids.iter().copied().map(id).collect(), Vec::new()), None);
    }

    #[test]
    fn a_batch_is_answered_by_one_list() {
        let mut batches = Batches::default();
        waiting(&mut batches, &[1, 2]);
        waiting(&mut batches, &[3, 4]);
        assert_eq!(batches.answered(&id(9), b"alone\n".to_vec()), Some(b"alone\n".to_vec()));
        assert_eq!(batches.answered(&id(2), b"{2}\n".to_vec()), None);
        assert_eq!(batches.answered(&id(1), b"{1}\n".to_vec()), Some(b"[{2},{1}]\n".to_vec()));
        assert_eq!(batches.answered(&id(3), b"{3}\n".to_vec()), None);
        assert_eq!(batches.forget(&id(4)), Some(b"[{3}]\n".to_vec()));
        assert_eq!(batches.begin(HashSet::new(), vec![b"{e}\n".to_vec()]), Some(b"[{e}]\n".to_vec()));
        // A batch of notifications gets no response, nor does one whose requests were all cancelled.
        assert_eq!(batches.begin(HashSet::new(), Vec::new()), None);
        waiting(&mut batches, &[5]);
        assert_eq!(batches.forget(&id(5)), None);
        assert!(batches.0.is_empty());
    }

    #[test]
    fn a_list_that_no_client_would_take_is_sent_in_parts() {
        let mut batches = Batches::default();
        waiting(&mut batches, &[1, 2, 3]);
        let long = vec![b'1'; LIST_BYTES_MAX / 2];
        assert_eq!(batches.answered(&id(1), long.clone()), None);
        assert_eq!(batches.answered(&id(2), long.clone()), None);
        let sent = batches.answered(&id(3), long).unwrap();
        let lines: Vec<usize> = sent.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        assert_eq!(lines, [LIST_BYTES_MAX + 4, LIST_BYTES_MAX / 2 + 3]);
    }
}
