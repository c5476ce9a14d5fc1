//! What is known of the folders on the way to a path, kept for the next path.
//!
//! Paths are asked for in the order of a walk, so that each leads through most of the folders of the
//! one before. A moved folder is walked under two names at once: two trails are kept.

/// The folders on the way to a path, the root first, with what is known of each.
#[derive(Debug)]
pub struct Trail<T> {
    /// A path that leads through all of them.
    path: Vec<u8>,
    /// For each the length of its path, and what is known of it.
    steps: Vec<(usize, T)>,
}

impl<T> Default for Trail<T> {
    fn default() -> Self {
        Self { path: Vec::new(), steps: Vec::new() }
    }
}

impl<T> Trail<T> {
    /// How many of its folders lead to `path` too.
    fn shared(&self, path: &[u8]) -> usize {
        let same = self.path.iter().zip(path).take_while(|(one, other)| one == other).count();
        self.steps.partition_point(|(end, _)| {
            *end <= same && *end < path.len() && (*end == 0 || path.get(*end) == Some(&b'/'))
        })
    }

    /// The folders, each with the length of its path.
    pub fn steps(&mut self) -> &mut [(usize, T)] {
        &mut self.steps
    }

    /// The length of the innermost folder's path.
    pub fn last(&self) -> Option<usize> {
        self.steps.last().map(|(end, _)| *end)
    }

    /// Adds the next folder, whose path has `end` bytes.
    pub fn push(&mut self, end: usize, known: T) {
        self.steps.push((end, known));
    }
}

/// Two trails.
#[derive(Debug)]
pub struct Trails<T> {
    /// The trails.
    trails: [Trail<T>; 2],
    /// Whether the second was the last one used.
    is_second: bool,
}

impl<T> Default for Trails<T> {
    fn default() -> Self {
        Self { trails: [Trail::default(), Trail::default()], is_second: false }
    }
}

impl<T> Trails<T> {
    /// The trail that suits `path` best, cut to the folders that lead to it.
    pub fn to(&mut self, path: &[u8]) -> &mut Trail<T> {
        let [first, second] = &mut self.trails;
        let shared = (first.shared(path), second.shared(path));
        self.is_second = is_for_second(first, second, shared).unwrap_or(!self.is_second);
        let (trail, shared) = if self.is_second { (second, shared.1) } else { (first, shared.0) };
        trail.steps.truncate(shared);
        path.clone_into(&mut trail.path);
        trail
    }

    /// Whether the second trail was the last one used.
    pub fn is_second(&self) -> bool {
        self.is_second
    }
}

/// Whether the second trail suits a path better, of which each shares so many folders: one that need
/// not be cut, else an unused one, else the one on whose own branch the path lies. `None` where they are
/// alike.
fn is_for_second<T>(first: &Trail<T>, second: &Trail<T>, shared: (usize, usize)) -> Option<bool> {
    let goes_on = |trail: &Trail<T>, shared| shared > 0 && shared == trail.steps.len();
    match (goes_on(first, shared.0), goes_on(second, shared.1)) {
        (true, true) => return Some(shared.1 > shared.0),
        (true, false) => return Some(false),
        (false, true) => return Some(true),
        (false, false) => {}
    }
    if first.steps.is_empty() || second.steps.is_empty() {
        return Some(!first.steps.is_empty());
    }
    let of_both = first.shared(&second.path);
    match (shared.0 > of_both, shared.1 > of_both) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        (false, false) => None,
    }
}

/// Where the folder after one whose path has `end` bytes ends, on the way to `path`; `None` where that
/// is the whole path.
pub fn next_end(path: &[u8], end: Option<usize>) -> Option<usize> {
    let Some(end) = end else { return Some(0) };
    let start = if end == 0 { 0 } else { end + 1 };
    memchr::memchr(b'/', path.get(start..)?).map(|length| start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks to a path; answers the folders that were not known.
    fn walked(trails: &mut Trails<String>, path: &str) -> Vec<String> {
        let trail = trails.to(path.as_bytes());
        let mut new = Vec::new();
        while let Some(end) = next_end(path.as_bytes(), trail.last()) {
            new.push(path[..end].to_owned());
            trail.push(end, path[..end].to_owned());
        }
        let all: Vec<&str> = trail.steps().iter().map(|(_, folder)| folder.as_str()).collect();
        let expected: Vec<&str> =
            std::iter::once("").chain(path.match_indices('/').map(|(at, _)| &path[..at])).collect();
        assert_eq!(all, expected, "{path}");
        new
    }

    #[test]
    fn what_leads_to_the_next_path_too_is_kept() {
        let mut trails = Trails::default();
        assert_eq!(walked(&mut trails, "a/b/c"), ["", "a", "a/b"]);
        assert_eq!(walked(&mut trails, "a/b/d"), [""; 0]);
        assert_eq!(walked(&mut trails, "a/y/c"), ["", "a", "a/y"]);
        assert_eq!(walked(&mut trails, "a/b/d/e"), ["a/b/d"]);
        assert_eq!(walked(&mut trails, "a/y/d/e"), ["a/y/d"]);
        assert_eq!(walked(&mut trails, "a/b/dd/e"), ["a/b/dd"]);
        assert_eq!(walked(&mut trails, "a/b/f/e"), ["a/b/f"]);
        assert_eq!(walked(&mut trails, "a/y/d/f"), [""; 0]);
        assert_eq!(walked(&mut trails, "z/y/d"), ["z", "z/y"]);
        assert_eq!(walked(&mut trails, "a/y/d/g"), [""; 0]);
        assert_eq!(walked(&mut trails, "z"), [""; 0]);
    }
}
