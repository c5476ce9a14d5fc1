//! Many paths in few bytes: what lies in one folder stands in braces behind it.

use super::items::PathStatus;
use crate::text::escaped;

/// What stands between two entries in braces; a list of lines holds commas without a blank.
const SEPARATOR: &str = ", ";

/// The entries by folder, such as `src/a/{x.rs:1-10, y.rs +1 -1}`; in the order of the items, which is
/// that of their paths. A name with a brace or a comma in it would be misread: then each is named whole.
#[must_use]
pub fn entries(items: &[&PathStatus]) -> Vec<String> {
    if items.iter().any(|item| item.path.contains(['{', '}', ',']) || item.path.contains(escaped::is_active))
    {
        return items.iter().map(ToString::to_string).collect();
    }
    let parts: Vec<Parts<'_>> =
        items.iter().map(|item| (item.path.split('/').collect(), item.suffix())).collect();
    let parts: Vec<&Parts<'_>> = parts.iter().collect();
    level(&parts, 0)
}

/// The components of a path, and what is said of it.
type Parts<'a> = (Vec<&'a str>, String);

/// The entries of paths that share their first `depth` components, without these.
fn level(paths: &[&Parts<'_>], depth: usize) -> Vec<String> {
    let is_below = |path: &Parts<'_>| path.0.len() > depth + 1;
    paths
        .chunk_by(|one, other| is_below(one) && is_below(other) && one.0.get(depth) == other.0.get(depth))
        .map(|group| {
            let Some((first, rest)) = group.split_first() else {
                return String::new();
            };
            if rest.is_empty() {
                return first.0.get(depth..).unwrap_or_default().join("/") + &first.1;
            }
            let inside = level(group, depth + 1);
            let folder = first.0.get(depth).copied().unwrap_or_default();
            match inside.as_slice() {
                [only] => format!("{folder}/{only}"),
                _ => format!("{folder}/{{{}}}", inside.join(SEPARATOR)),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::items::ReadState;
    use super::*;

    /// Items of these paths, with lines after a colon.
    fn grouped(paths: &[&str]) -> Vec<String> {
        let item = |entry: &&str| {
            let (path, lines) =
                entry.split_once(':').map_or((*entry, None), |(path, lines)| (path, Some(lines)));
            PathStatus {
                path: path.into(),
                is_utf8: true,
                state: ReadState::Fresh,
                lines: lines.map(Into::into),
                change: None,
            }
        };
        let items: Vec<PathStatus> = paths.iter().map(item).collect();
        entries(&items.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_folder_is_named_once() {
        for (paths, wanted) in [
            (&["a.rs", "b.rs:1-2"][..], &["a.rs", "b.rs:1-2"][..]),
            (&["src/a.rs", "src/b.rs:1,3-4"], &["src/{a.rs, b.rs:1,3-4}"]),
            (&["src/x/y/a.rs"], &["src/x/y/a.rs"]),
            (&["src/x/y/a.rs", "src/x/y/b.rs", "src/z.rs"], &["src/{x/y/{a.rs, b.rs}, z.rs}"]),
            (&["src/x/a.rs", "src/x/b.rs", "t/a"], &["src/x/{a.rs, b.rs}", "t/a"]),
            (&["../a", "../b/c"], &["../{a, b/c}"]),
            (&["s/a,b", "s/c"], &["s/a,b", "s/c"]),
            (&["s/{a}", "s/c"], &["s/{a}", "s/c"]),
            (&[], &[]),
        ] {
            assert_eq!(grouped(paths), wanted, "{paths:?}");
        }
    }
}
