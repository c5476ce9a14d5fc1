//! A number with its noun.

use std::fmt::Display;

/// Returns a count with its noun, given in the singular: `1 file`, `2 files`, `0 entries`.
///
/// The last word takes the plural by the regular rules of English.
pub fn plural<N: Copy + Display + PartialEq + From<u8>>(count: N, singular: &str) -> String {
    if count == N::from(1) {
        return format!("{count} {singular}");
    }
    let plural = match singular.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if singular.ends_with("ch") || singular.ends_with("sh") || singular.ends_with(['s', 'x']) => {
            format!("{singular}es")
        }
        _ => format!("{singular}s"),
    };
    format!("{count} {plural}")
}

/// Returns the first names of a list, for a message.
pub fn some_of(names: &[String]) -> String {
    /// Largest number of names.
    const NAMED: usize = 5;
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{more}", names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_one_is_singular_and_others_are_plural() {
        assert_eq!(plural(1_u64, "file"), "1 file");
        assert_eq!(plural(0_usize, "file"), "0 files");
        assert_eq!(plural(2_u64, "entry"), "2 entries");
        assert_eq!(plural(3_u64, "match"), "3 matches");
        assert_eq!(plural(1_u64, "more byte"), "1 more byte");
        assert_eq!(plural(4_u64, "way"), "4 ways");
    }
}
